"""Has the model write a title for a new conversation while the engine is idle.

Asks in the conversation itself, so that the engine only has to read the request for a title. The
reply is part of no answer, trace or figure, and never replaces the user's own title. Knows the
store, the answers and the engine; no widget.
"""

import re
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.chat.answers import Answers
from app.conversations.records import Message, chat_of, without_marks
from app.conversations.store import Store
from app.engine_client.engine_process import EngineProcess, EngineState
from app.steps import Stepper, Steps, in_thread, timer
from engine.events import Done, Event, Failed, Text
from engine.request import ChatMessage, Request, Sampling
from engine.stretches import said
from models.errors import Problem
from models.files import read_json_object
from models.in_words import one_line
from models.memory.parameters import count_parameters

REQUEST = "Write a title of two to five words for this conversation. Answer with the title only."
SHORTEST, LONGEST = 2, 60  # characters
FEWEST_PARAMETERS = 1_000_000_000  # smaller models reply, but not with a title
_REST_MS = 4000
_GREEDY = Request(sampling=Sampling(), max_tokens=16, thinking="off")
_QUOTES = "\"'“”\u2018’«»„"
_LABEL = re.compile(r"^(title|titel|titre|título)\s*:\s*", re.IGNORECASE)
_NO_TITLE = re.compile(
    r"\b(sorry|cannot|can't|can’t|as an ai|title|conversation|here is|here's|sure|certainly)\b",
    re.IGNORECASE,
)


def title_in(written: str, question: str) -> str | None:
    """Return the title that a model wrote, or None if it wrote something else.

    A title is one line of a few words, and not the question again.
    """
    lines = [line for line in map(str.strip, written.strip().splitlines()) if line]
    if len(lines) != 1:
        return None
    title = _LABEL.sub("", without_marks(one_line(lines[0])))
    title = title.strip(_QUOTES + " ").rstrip(".:,;!").strip()
    if not SHORTEST <= len(title) <= LONGEST or any(mark in title for mark in _QUOTES[:1] + "*`#"):
        return None
    if _NO_TITLE.search(title) or not any(map(str.isalpha, title)):
        return None
    repeated = _bare(title) in _bare(question) and len(title) > LONGEST // 2
    return None if repeated or _bare(title) == _bare(question) else title


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def parameters_in(folder: Path) -> int:
    """Return the number of parameters of the model in a folder; 0 if it cannot be read."""
    try:
        counts = count_parameters(read_json_object(folder / "config.json"))
    except Problem:
        return 0
    return 0 if counts is None else counts.total


class TitleWriter(QObject):
    """Asks for the title of the conversation that was answered last, unless it has one.

    Asks after `rest_ms` without other requests, and gives up as soon as there is one. Then it asks
    again after the next answer. After an unusable title it does not ask again: the title stays the
    first words of the question.

    Signals: `titled(int)`: this conversation has a new title.
    """

    titled = Signal(int)

    def __init__(
        self,
        store: Store,
        engine: EngineProcess,
        answers: Answers,
        *,
        wanted: Callable[[], bool],
        target: Callable[[], Path | None],
        parameters: Callable[[Path], int] = parameters_in,
        rest_ms: int = _REST_MS,
        parent: QObject | None = None,
    ) -> None:
        """`wanted` returns whether the user wants such titles, and `target` the loaded model."""
        super().__init__(parent)
        self._store, self._engine, self._answers = store, engine, answers
        self._wanted, self._target, self._parameters = wanted, target, parameters
        self._stepper = Stepper(self)
        self._conversation: int | None = None  # the conversation to be titled
        self._generation = ""
        self._of, self._question, self._written = 0, "", ""  # of that generation
        self._rest = timer(self, rest_ms, lambda: self._run(self._ask()))
        answers.begun.connect(self._give_up)
        answers.saved.connect(self._on_saved)
        engine.happened.connect(self._hear)

    def close(self) -> None:
        """Stop asking: the store is about to close."""
        self._give_up()
        self._stepper.close()

    def _on_saved(self, message: Message) -> None:
        if message.state in ("complete", "length") and self._wanted():
            self._conversation = message.conversation
            self._rest.start()

    def _give_up(self) -> None:
        """Give up: the engine has another request, which comes first."""
        self._rest.stop()
        self._conversation = None
        if self._generation:
            self._engine.cancel(self._generation)
            self._generation = ""

    def _ask(self) -> Steps:
        conversation, target = self._conversation, self._target()
        if conversation is None or target is None or not self._wanted():
            return
        record, branch = yield self._store.shown(conversation)
        if record.titled or not branch or branch[-1].role != "assistant":
            return
        if (yield in_thread(lambda: self._parameters(target))) < FEWEST_PARAMETERS:
            return
        if conversation != self._conversation:
            return
        idle = self._engine.state is EngineState.LOADED and not self._engine.answering
        if not idle or self._answers.busy:
            self._rest.start()
            return
        system = [ChatMessage("system", record.system_prompt)] if record.system_prompt else []
        chat = chat_of(branch, self._answers.pictures)
        self._of, self._question, self._written = conversation, branch[0].content, ""
        self._generation = self._engine.generate(
            str(conversation),
            (*system, *chat, ChatMessage("user", REQUEST)),
            _GREEDY,
            tools=self._answers.offered(record.permissions),  # so that the chat stays read
        )

    def _hear(self, event: Event) -> None:
        if not self._generation or event.generation != self._generation:
            return
        match event:
            case Text():
                self._written += said(event.delta, event.stretches)
            case Done(reason="stop" | "length"):
                self._generation = ""
                self._run(self._settle(self._of, title_in(self._written, self._question)))
            case Done() | Failed():
                self._generation = ""

    def _settle(self, conversation: int, title: str | None) -> Steps:
        if (yield self._store.set_generated_title(conversation, title)):
            self.titled.emit(conversation)

    def _run(self, steps: Steps) -> None:
        # If the title cannot be stored, or its conversation is gone, nothing is lost.
        self._stepper.run(steps, failed=lambda problem: None)
