"""Tells the person about problems with the engine and the disk, and offers remedies.

Knows which event calls for which notice; nothing of how notices are shown.
"""

from PySide6.QtCore import QObject

from app.chat.answers import Answers
from app.chat.composer import Composer
from app.engine_client.engine_process import EngineProcess, EngineState
from app.models.loader import ModelLoader
from app.notices import Notices, Offer
from engine.protocol import Loaded
from models.errors import Problem

_RESTART = "Restart the engine"


class EngineStatus(QObject):
    """Holds answers back while there is no model to ask, and blocks the composer where there
    will be none."""

    def __init__(
        self,
        engine: EngineProcess,
        loader: ModelLoader,
        answers: Answers,
        *,
        notices: Notices,
        composer: Composer,
    ) -> None:
        super().__init__(notices)
        self._engine, self._loader, self._answers = engine, loader, answers
        self._notices, self._composer = notices, composer
        answers.hold()  # until there is a model to ask
        answers.unsaved.connect(self._on_unsaved)
        answers.saving_again.connect(lambda: notices.take_back("disk"))
        loader.fetch_began.connect(self._on_fetch)
        loader.load_requested.connect(self._on_asked)
        loader.rested.connect(answers.hold)
        answers.begun.connect(lambda writing: loader.wake())
        loader.loaded_now.connect(self._on_loaded)
        loader.failed.connect(self._on_failed)
        engine.hung.connect(self._on_hung)
        engine.responsive.connect(lambda: notices.take_back("silence"))
        engine.died.connect(self._on_died)
        composer.remedy_asked.connect(self.try_again)

    def try_again(self) -> None:
        """Start the engine and load its model again."""
        self._composer.set_blocked("")
        self._notices.take_back("engine")
        stopped = self._engine.state in (EngineState.STOPPED, EngineState.GIVEN_UP)
        if stopped or self._loader.loaded is None:
            self._loader.begin()
        else:
            self._engine.restart()

    def _on_fetch(self) -> None:
        self._answers.hold()
        self._composer.set_blocked("")

    def _on_asked(self) -> None:
        self._composer.set_blocked("")
        self._answers.release()

    def _on_loaded(self, loaded: Loaded) -> None:
        self._composer.set_blocked("")
        self._notices.take_back("engine")
        if loaded.remark:
            self._notices.say("machine", loaded.remark, "warning")
        else:
            self._notices.take_back("machine")

    def _on_failed(self, problem: Problem) -> None:
        if self._loader.loaded is None:
            self._answers.refuse(problem)
            self._composer.set_blocked(str(problem), remedy="Try again")
        else:
            self._answers.release()
            self._notices.say("engine", str(problem), "warning")

    def _on_hung(self, seconds: float) -> None:
        self._notices.say(
            "silence",
            f"The engine has not responded for {seconds:.0f} seconds. It may still be working.",
            "warning",
            offer=Offer(_RESTART, self._engine.restart),
        )

    def _on_died(self, reason: str) -> None:
        if self._engine.state is EngineState.GIVEN_UP:
            self._notices.take_back("engine")
            self._composer.set_blocked(
                f"The engine stopped too often to be restarted. {reason}", remedy=_RESTART
            )
        else:
            self._notices.say("engine", f"The engine is restarting. {reason}", "warning")

    def _on_unsaved(self, problem: Problem) -> None:
        self._notices.say(
            "disk",
            f"{problem} The answer is kept in memory and saved as soon as possible.",
            "warning",
        )
