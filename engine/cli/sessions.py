"""The session of a command that answers, in a child process as the window's: a crash ends an answer
and not the chat, and the command imports no MLX.

Knows the protocol, how a pair is found, and which steps take time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from uuid import uuid4

from rich.text import Text as Styled

from engine.cli.folders import learning_folder, target_folder
from engine.cli.line_child import Asked, Lost
from engine.cli.models.progress import Steps
from engine.cli.options import AnswerOptions
from engine.cli.streams import new_console
from engine.events import Done, Event, Failed
from engine.process.client import EngineClient, Work, host_command
from engine.process.protocol import (
    Count,
    Counted,
    Generate,
    Keep,
    Kept,
    Load,
    Loaded,
    Loading,
    Response,
    SetDrafter,
)
from engine.request import ChatMessage, Prompt, Request, chat
from models.errors import Problem
from models.in_words import clean

_LAST_WORDS_SECONDS = 0.5  # a process that fails for good ends within this time
_GLANCE_SECONDS = 0.1  # between two looks at whether an answer is cancelled
_HANGS_SECONDS = 30.0  # of silence after an answer was cancelled
_NEXT = "Ask again to load the model again."

Stopped = Callable[[], bool]


def never() -> bool:
    """Return False."""
    return False


class ChildSession:
    """A conversation in a child process. The next command starts a process that has ended again."""

    def __init__(
        self,
        load: Load,
        *,
        tell: Callable[[str], None],
        loading: Callable[[Loading], None] = lambda loading: None,
        command: Sequence[str] = (),
    ) -> None:
        """`tell` is called with lines for the user, `loading` while the pair is loaded. Raises
        `Problem`."""
        self._tell, self._loading = tell, loading
        self._client = EngineClient()
        self._process = Asked(self._client, command or host_command(load.target), remedy=_NEXT)
        self._process.begin()
        try:
            for response in self._responses(replace(load, id=uuid4().hex)):
                if isinstance(response, Loaded):
                    self.context_length = response.context_length
        except BaseException:
            self.close()
            raise

    @property
    def loaded(self) -> Loaded | None:
        """The pair that the process has loaded; None before that."""
        return self._client.loaded

    def count(self, messages: Sequence[ChatMessage]) -> int:
        """Return the number of tokens of a chat. Raises `Problem`."""
        return self._count(chat(messages))

    def count_text(self, text: str) -> int:
        """Return the number of tokens of a text. Raises `Problem`."""
        return self._count(Prompt(text=text)) if text else 0

    def _count(self, prompt: Prompt) -> int:
        responses = self._responses(Count(uuid4().hex, prompt))
        return next(response.tokens for response in responses if isinstance(response, Counted))

    def answer(
        self,
        messages: Sequence[ChatMessage],
        request: Request,
        *,
        tools: str = "",
        cancelled: Stopped = never,
        hurried: Stopped = never,
    ) -> Iterator[Event]:
        """Answer a chat, with `tools` as in `Prompt`. `cancelled` and `hurried` are asked now and
        then: whether the answer ends, and whether its reasoning ends. Raises `Lost` if the process
        ends."""
        asked = Generate(uuid4().hex, "chat", replace(chat(messages), tools=tools), request)
        for response in self._responses(asked, cancelled, hurried):
            if isinstance(response, Event):
                yield response

    def keep(self, cancelled: Stopped) -> tuple[str, ...]:
        """Wait until the caches of the latest prompt are on disk; a process that has ended has
        none. Returns why something of the answer could not be stored."""
        try:
            asked = () if self._has_ended() else self._responses(Keep(uuid4().hex), cancelled)
            return next((each.remarks for each in asked if isinstance(each, Kept)), ())
        except Problem as problem:
            return (str(problem),)

    def draft(self, *, drafter: str | None = None, draft_length: str | None = None) -> str:
        """Change drafter or draft length. Returns a remark for the user, mostly "". Raises
        `Problem`."""
        change = SetDrafter(uuid4().hex, drafter, draft_length)
        (loaded,) = (r for r in self._responses(change) if isinstance(r, Loaded))
        return loaded.remark

    def close(self) -> None:
        """End the process."""
        self._process.end()

    def _responses(
        self, command: Work, cancelled: Stopped = never, hurried: Stopped = never
    ) -> Iterator[Response]:
        """Yield the responses to a command. Starts a new process if the last one has ended, which
        loads the same pair first. A generation that is `cancelled` goes on until its end, and
        nothing else does. Raises `Problem` if the command or that load fails."""
        if self._has_ended():
            self._tell(f"{self._process.why} Loading the model again.".lstrip())
            self._process.begin()
        if refusal := self._client.ask(command):
            raise _problem(refusal)
        has_hurried, silent_seconds = False, 0.0
        try:
            while True:
                if cancelled():
                    if self._client.loaded is None:
                        self.close()
                        raise Problem("Loading was stopped.", _NEXT)
                    if not isinstance(command, Generate):
                        return
                    self._client.cancel(command.id)
                if hurried() and not has_hurried:
                    has_hurried = True
                    self._client.hurry(command.id)
                heard = self._process.hear(_GLANCE_SECONDS)
                silent = heard is None and cancelled()
                silent_seconds = silent_seconds + _GLANCE_SECONDS if silent else 0.0
                if silent_seconds > _HANGS_SECONDS:
                    heard = self._process.end("The engine does not respond.")
                for response, about in heard or ():
                    if isinstance(about, Load):
                        self._note(response)
                    if about is not command:
                        continue
                    if isinstance(response, Failed):
                        if response.cause == "engine" and self._has_ended(_LAST_WORDS_SECONDS):
                            self._process.why = ""  # `response` says why
                        raise _problem(response)
                    yield response
                    if isinstance(response, Counted | Done | Kept | Loaded):
                        return
        finally:
            self._client.cancel(command.id)  # the caller may stop before the last response

    def _note(self, response: Response) -> None:
        """Take a response to a load. Raises `Problem` if it failed, and ends the process."""
        match response:
            case Loading():
                self._loading(response)
            case Loaded(remark=remark) if remark:
                self._tell(remark)
            case Failed():
                self.close()
                raise _problem(response)

    def _has_ended(self, seconds: float = 0.0) -> bool:
        """Whether the process has ended; reads its lines until it is silent for `seconds`."""
        while self._process.runs and self._process.hear(seconds) is not None:
            pass
        return not self._process.runs


def _problem(failed: Failed) -> Problem:
    return (Lost if failed.cause == "engine" else Problem)(failed.message, failed.remedy)


def open_session(options: AnswerOptions, *, quiet: bool = False) -> ChildSession:
    """Load the pair of these options, and return its session. Raises `Problem`.

    Steps that take time are reported to standard error, unless `quiet`.
    """
    if options.draft_length != "auto":  # a wrong length is refused before any download
        from engine.conversation.pair import make_policy  # which takes long

        make_policy(options.draft_length)
    console = new_console(errors=True)
    console.quiet = quiet
    steps = Steps(console)
    folder = target_folder(options.target, steps)
    learning_folder(options.learn)
    load = options.load(folder, id="", parallel=1, fitting=bool(options.attach))
    steps.begin("loading")
    measuring = False
    where = "the target on several Macs" if load.macs.hosts else "the model"
    with console.status(f"Loading {where}") as status:

        def show(loading: Loading) -> None:
            nonlocal measuring
            if loading.measured and not measuring:  # it takes seconds: a file needs no line on it
                line = "Measuring the cost of drafting on this machine, once"
                steps.begin("measuring", line if console.is_terminal else "")
                measuring = True
            if loading.measured:
                status.update(f"{loading.measured:.0%}")

        tell: Callable[[str], None] = (lambda line: None) if quiet else show_remarks
        session = ChildSession(load, tell=tell, loading=show)
    steps.end()
    return session


def show_remarks(*remarks: str) -> None:
    """Print remarks about an answer or a load to standard error."""
    for remark in remarks:
        shown = Styled(clean(remark))  # with brackets as they are
        new_console(errors=True).print(shown, style="yellow", highlight=False, soft_wrap=True)
