"""A session in a child process, for a chat in the terminal: where several Macs hold the target,
their group ends with the process that leads them, and the chat is to go on.

Knows the protocol and a process; nothing of Macs. Answers as `engine.session.Session` does.
"""

import os
import select
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from mlx_lm.utils import load_tokenizer

import engine
from engine.events import Done, Event, Failed
from engine.protocol import (
    Cancel,
    Command,
    Generate,
    Load,
    Loaded,
    Quit,
    Response,
    SetDrafter,
    command_to_json,
    response_from_json,
)
from engine.request import ChatMessage, Prompt, Request, Sampling, chat
from engine.server.child import host_command
from engine.template import encode_prompt
from models.errors import Problem
from models.model_folder import ModelFolder

_FOLDER = Path(engine.__file__).parents[1]  # where `-m engine` finds this copy
_GRACE_SECONDS = 5.0  # to end by itself
_LAST_WORDS_SECONDS = 0.5  # in which a process that fails for good ends
_GLANCE_SECONDS = 0.1  # between two looks at whether an answer is cancelled
_NEXT = "The next message loads the model again."


class _Gone(Exception):
    """The process has ended."""


@dataclass(frozen=True, slots=True)
class FarTarget:
    """What there is to know here of a target in another process, as of a `LoadedModel`."""

    tokenizer: Any
    context_length: int
    sampling: Sampling


class ChildSession:
    """One conversation. A process that has ended is started again with the next answer.

    Attributes: `target`; `loaded`, what the process has; `disturbed` and `unkept`, which it keeps
    to itself.
    """

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
        """`tell` is given lines for people. Raises `Problem`."""
        self._load, self._tell = load, tell
        self._command = tuple(command) or host_command()
        self._said = ""  # by the process of itself, which may be why it has ended
        self._pending = b""
        self._process: subprocess.Popen[bytes] | None = None
        self.loaded: Loaded
        self._begin()
        tokenizer = load_tokenizer(folder.path, {"trust_remote_code": False})
        self.target = FarTarget(tokenizer, self.loaded.context_length, self.loaded.sampling)

    def encode(self, prompt: Prompt) -> list[int]:
        """As `Session.encode`."""
        return encode_prompt(self.target.tokenizer, prompt)

    def room(self, request: Request) -> int:
        """As `Session.room`."""
        context = self.target.context_length
        return context - min(request.max_tokens, context // 4)

    def keep(self) -> bool:
        """Nothing is left to be kept: the child process does that by itself."""
        return False

    def answer(
        self,
        messages: Sequence[ChatMessage],
        request: Request,
        *,
        options: str = "",
        cancelled: Callable[[], bool] = lambda: False,
        compare: Callable[[], bool] = lambda: False,
    ) -> Iterator[Event]:
        """As `Session.answer`; the child process compares by itself. Raises `Problem` where the
        process ends."""
        id, told = uuid4().hex, False
        asked = Generate(id, "chat", chat(messages, options=options), request)
        for response in self._responses(asked, cancelled):
            if cancelled() and not told:
                told = True
                self._send(Cancel(id))
            if response is None or not isinstance(response, Event):
                continue
            if isinstance(response, Failed):
                self._has_ended(_LAST_WORDS_SECONDS)
                self._said = ""  # the same
                raise Problem(response.message, response.remedy)
            yield response
            if isinstance(response, Done):
                return

    def draft(self, *, drafter: str | None = None, draft_length: str | None = None) -> str:
        """Draft otherwise from now on; returns a remark on it, mostly empty. Raises `Problem`."""
        return self._change(SetDrafter(uuid4().hex, drafter, draft_length))

    def measure(self) -> str:
        """Calibrate the pair again; returns as `draft`."""
        return self._change(SetDrafter(uuid4().hex, measure=True))

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            process.stdin.write(_line(Quit()))
        process.stdin.close()
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _begin(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        self.close()
        self._said, self._pending = "", b""
        with tempfile.TemporaryFile() as complaints:  # of libraries, about what is said here better
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                cwd=_FOLDER,
                bufsize=0,
                start_new_session=True,  # the terminal's Ctrl-C is this process's
            )
        try:
            self._await_loaded(replace(self._load, id=uuid4().hex), cancelled)
        except BaseException:
            self.close()
            raise
        if self.loaded.remark:
            self._tell(self.loaded.remark)

    def _change(self, command: SetDrafter) -> str:
        self._await_loaded(command)
        drafter, draft_length = self.loaded.drafter, self.loaded.draft_length
        self._load = replace(self._load, drafter=drafter, draft_length=draft_length)
        return self.loaded.remark

    def _await_loaded(
        self, command: Load | SetDrafter, cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        for response in self._responses(command):
            if cancelled():
                raise Problem("Loading was stopped.", _NEXT)
            if isinstance(response, Loaded) and response.id == command.id:
                self.loaded = response
                return
            if isinstance(response, Failed) and response.generation == command.id:
                raise Problem(response.message, response.remedy)

    def _responses(
        self, command: Command, cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[Response | None]:
        """What comes behind a command; None now and then. Where the process had ended before, there
        is another one for it, unless that is `cancelled`. Raises `Problem` where it ends now."""
        if self._has_ended():
            self._tell(f"{self._said} Loading the model again".lstrip())
            self._begin(cancelled)
        try:
            self._send(command)
            while True:
                yield self._next(_GLANCE_SECONDS)
        except _Gone:
            self.close()
            reason, self._said = self._said or "The engine ended.", ""
            raise Problem(reason, _NEXT) from None

    def _has_ended(self, seconds: float = 0.0) -> bool:
        """Whether there is no process any more, or none after this time of silence."""
        try:
            while self._next(seconds) is not None:
                pass
        except _Gone:
            self.close()
            return True
        return False

    def _send(self, command: Command) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(OSError):  # where it has ended, the next response is that
            self._process.stdin.write(_line(command))

    def _next(self, seconds: float) -> Response | None:
        """The next response, if it comes within a time. Raises `_Gone` where the process has ended,
        or says that it will: by a failure of no command."""
        if self._process is None:
            raise _Gone
        assert self._process.stdout is not None
        while b"\n" not in self._pending:
            if not select.select([self._process.stdout], [], [], seconds)[0]:
                return None
            data = os.read(self._process.stdout.fileno(), 1 << 16)
            if not data:
                raise _Gone
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        response = response_from_json(line.decode())
        if isinstance(response, Failed) and not response.generation:  # its last word
            self._said = response.message
            raise _Gone
        return response


def _line(command: Command) -> bytes:
    return command_to_json(command).encode() + b"\n"
