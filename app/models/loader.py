"""Gets the engine its models: those of last time, or the starter model, which may be fetched.

Knows which targets have to be made ready first and how the engine is asked; shows nothing.
"""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.engine_client.engine_process import EngineProcess
from app.models.target_process import Progress, open_target
from app.models.words import target_name
from app.settings import Pair, Settings
from app.steps import Stepper, Steps, in_thread
from engine.events import Failed
from engine.protocol import Loaded
from models.errors import Problem

OpenTarget = Callable[[str, Progress], Path]


class ModelLoader(QObject):
    """Attributes: `pair`, what is wanted; `loaded`, what the engine has; `fetching`.

    Signals:
        fetch_began(): the starter model is looked for, and downloaded where it is not there;
            or a GGUF file is imported.
        fetch_progress(int, int): of how many: bytes, or parts of the file.
        load_requested(): the engine was asked to load, so it can be asked for answers.
        loaded_now(Loaded): it has.
        failed(Problem): it has not, or the starter model could not be had.
    """

    fetch_began = Signal()
    fetch_progress = Signal(object, object)  # more than an int of C++ holds
    load_requested = Signal()
    loaded_now = Signal(Loaded)
    failed = Signal(Problem)

    def __init__(
        self,
        engine: EngineProcess,
        settings: Settings,
        *,
        opening: OpenTarget | None = None,
        parent: QObject | None = None,
    ) -> None:
        """`opening` stands in for `open_target`, by which a target that is no folder yet becomes
        one; it is called in another thread."""
        super().__init__(parent)
        self._engine, self._settings = engine, settings
        self._opening = opening or open_target
        self._stepper = Stepper(self)
        self.pair = self._last_loaded = settings.pair
        self.loaded: Loaded | None = None
        self.fetching = False
        self._overridden = False
        engine.loaded.connect(self._on_loaded)
        engine.unloaded.connect(self._on_unloaded)
        engine.died.connect(self._on_unloaded)
        engine.failed.connect(self._on_failed)

    @property
    def names(self) -> tuple[str, str]:
        """The target and the drafter that answer, in words."""
        if self.loaded is not None:
            return target_name(self.loaded.target), self.loaded.drafter
        name = self._settings.starter_name if self.starter else target_name(self.pair.target)
        return name, self.pair.drafter

    @property
    def starter(self) -> bool:
        """Whether the starter model is wanted."""
        return self.pair.target == ""

    def begin(self) -> None:
        """Load what was loaded last time."""
        self._engine.start()  # which takes a while, as looking for the model does
        self.load(self.pair)

    def load(self, pair: Pair) -> None:
        """Load a target and a drafter, now and at the next start."""
        self.pair = pair
        self._settings.pair = pair
        if pair.target and not is_gguf(pair.target):
            self._ask(Path(pair.target))
        elif pair.target or not self.fetching:
            self.fetching = self.fetching or self.starter
            self.fetch_began.emit()
            self._stepper.run(self._make_ready(pair.target), failed=self._give_up)

    def draft(self, *, drafter: str | None = None, draft_length: str | None = None) -> None:
        """Draft otherwise from the next answer on; None leaves a thing as it is."""
        pair = self.pair
        self.pair = Pair(
            pair.target,
            pair.drafter if drafter is None else drafter,
            pair.draft_length if draft_length is None else draft_length,
        )
        self._settings.pair = self.pair
        if self.loaded is not None:
            self._engine.use_drafting(drafter=drafter, draft_length=draft_length)
        elif not self.fetching:
            self.load(self.pair)

    def override(self) -> None:
        """Others change the drafting for a while; the pair that is wanted stays what it is."""
        self._overridden = True

    def restore(self) -> None:
        """Draft as is wanted again, if the engine does not."""
        self._overridden = False
        loaded = self.loaded
        if loaded is not None and (loaded.drafter, loaded.draft_length) != (
            self.pair.drafter,
            self.pair.draft_length,
        ):
            self._engine.use_drafting(
                drafter=self.pair.drafter, draft_length=self.pair.draft_length
            )

    def _make_ready(self, target: str) -> Steps:
        folder = yield in_thread(lambda: self._opening(target, self._tell_progress))
        self.fetching = self.fetching and target != ""
        if self.pair.target == target:
            self._ask(folder)

    def _tell_progress(self, done: int, total: int) -> None:
        self.fetch_progress.emit(done, total)

    def _ask(self, target: Path) -> None:
        self._engine.load(target, drafter=self.pair.drafter, draft_length=self.pair.draft_length)
        self.load_requested.emit()

    def _give_up(self, problem: Problem) -> None:
        self.fetching = False
        self._fall_back()
        self.failed.emit(problem)

    def _fall_back(self) -> None:
        """What was there before is there still, so it is what is wanted."""
        if self.loaded is not None:
            self.pair = self._settings.pair = self._last_loaded

    def _on_loaded(self, loaded: Loaded) -> None:
        self.loaded = loaded
        if not self._overridden:
            self._last_loaded = Pair(self.pair.target, loaded.drafter, loaded.draft_length)
        if self.starter:
            self._settings.starter_name = target_name(loaded.target)
        self.loaded_now.emit(loaded)

    def _on_unloaded(self) -> None:
        self.loaded = None

    def _on_failed(self, failed: Failed) -> None:
        self._fall_back()
        self.failed.emit(Problem(failed.message, failed.remedy))


def is_gguf(target: str) -> bool:
    """Whether a target is a file that has to be imported first."""
    return target.lower().endswith(".gguf")
