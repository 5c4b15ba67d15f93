"""Decides whether messages can be answered: holds them back without a model, and knows the
current problems of the engine and the disk.

Knows the engine, the loader and the answers; not how problems are shown.
"""

from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.chat.answers import Answers
from app.engine_client.engine_process import EngineProcess, EngineState
from app.models.loader import ModelLoader
from engine.events import Done, Event
from engine.process.protocol import Loaded
from models.errors import Problem

ProblemKind = Literal["engine", "machine", "silence", "disk"]
RESTART = "Restart the engine"


class Readiness(QObject):
    """Says whether a question can be sent, and if not, why.

    Attributes: `blocked`, why nothing can be sent, empty if it can; `remedy`, the label for
    `try_again` in that case; `matters`, the text of each current problem.

    Signals:
        blocked_changed(): `blocked` or `remedy` changed.
        matter_changed(str): the text on this matter changed, or disappeared.
    """

    blocked_changed = Signal()
    matter_changed = Signal(str)

    def __init__(
        self,
        engine: EngineProcess,
        loader: ModelLoader,
        answers: Answers,
        *,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._engine, self._loader, self._answers = engine, loader, answers
        self.blocked = self.remedy = ""
        self.matters: dict[ProblemKind, str] = {}
        answers.hold()  # until there is a model
        answers.unsaved.connect(self._on_unsaved)
        answers.saving_again.connect(lambda: self._set_matter("disk"))
        answers.begun.connect(lambda writing: loader.wake())
        loader.fetch_began.connect(self._on_fetch)
        loader.load_requested.connect(self._on_requested)
        loader.rested.connect(answers.hold)
        loader.loaded_now.connect(self._on_loaded)
        loader.failed.connect(self._on_failed)
        engine.hung.connect(self._on_hung)
        engine.responsive.connect(lambda: self._set_matter("silence"))
        engine.died.connect(self._on_died)
        engine.happened.connect(self._on_happened)

    def try_again(self) -> None:
        """Start the engine and load its model again."""
        self._block()
        self._set_matter("engine")
        stopped = self._engine.state in (EngineState.STOPPED, EngineState.GIVEN_UP)
        if stopped or self._loader.loaded is None:
            self._loader.begin()
        else:
            self._engine.restart()

    def restart(self) -> None:
        """Kill the engine's process and start another."""
        self._engine.restart()

    def _block(self, reason: str = "", *, remedy: str = "") -> None:
        """Block sending for this reason; without a reason, allow it."""
        self.blocked, self.remedy = reason, remedy
        self.blocked_changed.emit()

    def _set_matter(self, matter: ProblemKind, text: str = "") -> None:
        """Set the text on a matter; an empty text removes it."""
        self.matters.pop(matter, None)
        if text:
            self.matters[matter] = text
        self.matter_changed.emit(matter)

    def _on_fetch(self) -> None:
        self._answers.hold()
        self._block()

    def _on_requested(self) -> None:
        self._block()
        self._answers.release()

    def _on_loaded(self, loaded: Loaded) -> None:
        self._block()
        self._set_matter("engine")
        self._set_matter("machine", loaded.remark)

    def _on_happened(self, event: Event) -> None:
        if isinstance(event, Done) and event.remark:
            self._set_matter("machine", event.remark)

    def _on_failed(self, problem: Problem) -> None:
        if self._loader.loaded is None:
            self._answers.refuse(problem)
            self._block(str(problem), remedy="Try again")
        else:
            self._answers.release()
            self._set_matter("engine", str(problem))

    def _on_hung(self, seconds: float) -> None:
        self._set_matter(
            "silence",
            f"The engine has not responded for {seconds:.0f} seconds. It may still be working.",
        )

    def _on_died(self, reason: str) -> None:
        if self._engine.state is EngineState.GIVEN_UP:
            self._set_matter("engine")
            self._block(f"The engine stopped too often to be restarted. {reason}", remedy=RESTART)
        else:
            self._set_matter("engine", f"The engine is restarting. {reason}")

    def _on_unsaved(self, problem: Problem) -> None:
        self._set_matter(
            "disk", f"{problem} The answer is kept in memory and saved as soon as possible."
        )
