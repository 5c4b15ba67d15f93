"""A session in a child process, for commands that answer with several Macs: the group of Macs ends
with the process that leads it, while the chat continues.

Knows the protocol and a process; nothing of Macs. Answers as `engine.conversation.session.Session`
does.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from mlx_lm.utils import load_tokenizer

from engine.cli.line_child import LineChild, Lost
from engine.conversation.eyes import refuse_unseen
from engine.conversation.template import encode_prompt
from engine.events import Done, Event, Failed
from engine.process.client import (
    Delivery,
    EngineClient,
    Garbled,
    OtherVersion,
    Work,
    host_command,
)
from engine.process.protocol import (
    LONGEST_RESPONSE_BYTES,
    Generate,
    Load,
    Loaded,
    Response,
    SetDrafter,
)
from engine.process.supervision import grace_seconds
from engine.request import ChatMessage, Prompt, Request, Sampling, chat
from models.errors import Problem
from models.for_libraries import TOKENIZER, for_libraries
from models.model_folder import ModelFolder

_LAST_WORDS_SECONDS = 0.5  # a process that fails for good ends within this time
_GLANCE_SECONDS = 0.1  # between two looks at whether an answer is cancelled
_NEXT = "Ask again to load the model again."


@dataclass(frozen=True, slots=True)
class FarTarget:
    """A target in another process: the fields of its `LoadedModel` that this process knows."""

    tokenizer: Any
    context_length: int
    sampling: Sampling
    folder: ModelFolder


class ChildSession:
    """A conversation in a child process. The next answer starts a process that has ended again."""

    disturbed = False
    unkept = None

    def __init__(
        self,
        load: Load,
        folder: ModelFolder,
        *,
        tell: Callable[[str], None],
        command: Sequence[str] = (),
    ) -> None:
        """`tell` is called with lines for the user. Raises `Problem`."""
        self._tell = tell
        self._command = tuple(command) or host_command(load.target)
        self._client = EngineClient()
        self._client.ask(replace(load, id=uuid4().hex))
        self._child: LineChild | None = None
        self._why = ""  # why the process ended, until the user has been told
        loaded = self._begin()
        with for_libraries(folder.path) as place:
            tokenizer = load_tokenizer(place, TOKENIZER)
        self.target = FarTarget(tokenizer, loaded.context_length, loaded.sampling, folder)

    @property
    def loaded(self) -> Loaded | None:
        """The pair that the process has loaded; None before that."""
        return self._client.loaded

    def encode(self, prompt: Prompt) -> list[int]:
        """Return the prompt's tokens, as `Session.encode` does."""
        refuse_unseen(prompt, None, self.target.folder)
        return encode_prompt(self.target.tokenizer, prompt)

    def room(self, request: Request) -> int:
        """Return the room for a chat, as `Session.room` does."""
        return request.room(self.target.context_length)

    def keep(self) -> bool:
        """Return False: the child process saves its caches by itself."""
        return False

    def answer(
        self,
        messages: Sequence[ChatMessage],
        request: Request,
        *,
        tools: str = "",
        generation: str = "",
        cancelled: Callable[[], bool] = lambda: False,
        hurried: Callable[[], bool] = lambda: False,
        compare: Callable[[], bool] = lambda: False,
    ) -> Iterator[Event]:
        """Answer as `Session.answer` does; the process decides when to compare. Raises `Lost` if
        the process ends."""
        prompt = replace(chat(messages), tools=tools)
        asked = Generate(generation or uuid4().hex, "chat", prompt, request)
        for response in self._responses(asked, cancelled, hurried):
            if isinstance(response, Event):
                yield response

    def draft(self, *, drafter: str | None = None, draft_length: str | None = None) -> str:
        """Change drafter or draft length. Returns a remark for the user, mostly "". Raises
        `Problem`."""
        change = SetDrafter(uuid4().hex, drafter, draft_length)
        (loaded,) = (r for r in self._responses(change) if isinstance(r, Loaded))
        return loaded.remark

    def close(self) -> None:
        """End the process."""
        self._lose("")

    def _responses(
        self,
        command: Work,
        cancelled: Callable[[], bool] = lambda: False,
        hurried: Callable[[], bool] = lambda: False,
    ) -> Iterator[Response]:
        """Yield the responses to a command. Starts a new process if the last one has ended, unless
        that is `cancelled`. Raises `Problem` if the command fails."""
        if self._has_ended():
            self._tell(f"{self._why} Loading the model again.".lstrip())
            self._begin(cancelled)
        if refusal := self._client.ask(command):
            raise Problem(refusal.message, refusal.remedy)
        has_hurried = False
        try:
            while True:
                if cancelled():
                    self._client.cancel(command.id)
                if hurried() and not has_hurried:
                    has_hurried = True
                    self._client.hurry(command.id)
                for response, about in self._hear(_GLANCE_SECONDS) or ():
                    if about is not command:
                        continue
                    if isinstance(response, Failed):
                        kind: type[Problem] = Problem
                        if response.cause == "engine" and self._has_ended(_LAST_WORDS_SECONDS):
                            self._why, kind = "", Lost  # `response` says why
                        raise kind(response.message, response.remedy)
                    yield response
                    if isinstance(response, Done | Loaded):
                        return
        finally:
            self._client.cancel(command.id)  # the caller may stop before the last response

    # The process

    def _begin(self, cancelled: Callable[[], bool] = lambda: False) -> Loaded:
        """Start a process that loads the same pair. Raises `Problem`."""
        self._why = ""
        self._child = LineChild(self._command, longest_bytes=LONGEST_RESPONSE_BYTES)
        self._client.begin()
        try:
            while (loaded := self._client.loaded) is None:
                if cancelled():
                    raise Problem("Loading was stopped.", _NEXT)
                for response, _ in self._hear(_GLANCE_SECONDS) or ():
                    if isinstance(response, Failed) and response.generation:
                        raise Problem(response.message, response.remedy)
                if self._child is None:
                    raise Problem(self._why, _NEXT)
        except BaseException:
            self._lose("")
            self._why = ""  # it is being raised
            raise
        if loaded.remark:
            self._tell(loaded.remark)
        return loaded

    def _has_ended(self, seconds: float = 0.0) -> bool:
        """Whether the process has ended; reads its lines until it is silent for `seconds`."""
        while self._child is not None and self._hear(seconds) is not None:
            pass
        return self._child is None

    def _hear(self, seconds: float) -> list[Delivery] | None:
        """Send the waiting commands, and take the next line. Returns its delivery; if the process
        has ended or is about to, the failures of all lost commands; None after `seconds` of
        silence."""
        assert self._child is not None
        self._child.write(self._client.to_send())
        if (line := self._child.line(seconds)) is None:
            return None
        if not line:
            return self._lose("The engine's process ended.")
        try:
            delivery = self._client.hear(line)
        except (Garbled, OtherVersion) as problem:
            return self._lose(problem.message)
        if self._client.confessed:  # its last word
            return self._lose(self._client.confessed)
        return [] if delivery is None else [delivery]

    def _lose(self, why: str) -> list[Delivery]:
        """End the process, if any. Returns the failures of all commands that are lost."""
        child, self._child = self._child, None
        if child is None:
            return []
        self._why = why
        child.end(grace_seconds(self.loaded.held_bytes if self.loaded else 0))
        return self._client.lose(why, _NEXT, another=True)
