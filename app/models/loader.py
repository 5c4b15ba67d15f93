"""Has the engine load the pair that the user chose, perhaps after a download of the starter model.

Knows which targets must be prepared first, what must wait for the end of an answer, and how to ask
the engine; shows nothing.
"""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.commands import CommandRunner, expect
from app.engine_client.engine_process import EngineProcess
from app.models.formatting import target_name
from app.settings import Pair, Settings
from engine.events import Failed
from engine.process.protocol import Loaded, Memory
from models.answers import Opened, Progressed
from models.errors import Problem


class ModelLoader(QObject):
    """Attributes: `pair`, the chosen pair; `loaded`, the engine's pair; `resting`, whether the
    model was unloaded until the next request; `problem`, why it has none, None while a model is
    loaded or loading; `busy`, which returns whether an answer is being written.

    Signals:
        chosen(): `pair` changed.
        fetch_began(): the starter model was chosen and is being prepared, perhaps downloaded, or
            a GGUF file, which is being imported.
        fetch_progress(int, int): done and total, in bytes or parts of the chosen file.
        load_requested(): the engine was asked to load; requests for answers can follow.
        loaded_now(Loaded): the engine has loaded a pair.
        rested(): the model was unloaded to free its memory; `wake` loads it again.
        failed(Problem): loading or preparing failed.
    """

    chosen = Signal()
    fetch_began = Signal()
    fetch_progress = Signal(object, object)  # a C++ int is too small for bytes
    load_requested = Signal()
    loaded_now = Signal(Loaded)
    rested = Signal()
    failed = Signal(Problem)

    def __init__(
        self,
        engine: EngineProcess,
        settings: Settings,
        *,
        commands: CommandRunner | None = None,
        parent: QObject | None = None,
    ) -> None:
        """`commands` on models make a model folder of a target."""
        super().__init__(parent)
        self._engine, self._settings = engine, settings
        self._commands = commands or CommandRunner(parent=self)
        self.pair = self._last_loaded = settings.pair
        self.loaded: Loaded | None = None
        self.resting = False
        self.problem: Problem | None = None
        self.busy: Callable[[], bool] = lambda: False
        self._asked = self._wanted  # of the loaded pair
        self._targets: dict[str, str] = {}  # by the ids of requests to the engine
        self._latest = ""  # the id of the request for `pair`; empty while it is prepared
        self._preparing: set[str] = set()  # targets whose model folder a command makes
        self._next: Pair | None = None  # to be loaded when the answer has finished
        self._opened: dict[str, str] = {}  # kinds of paths that are to be listed when loaded
        self._idle = QTimer(self, singleShot=True)
        self._idle.timeout.connect(self._rest_if_idle)
        for signal in (engine.happened, engine.told_guest):
            signal.connect(lambda event: self._wait_for_rest())
        engine.loaded.connect(self._on_loaded)
        engine.unloaded.connect(self._on_unloaded)
        engine.unloaded.connect(self._on_rested)
        engine.died.connect(self._on_unloaded)
        engine.failed.connect(self._on_failed)

    @property
    def names(self) -> tuple[str, str]:
        """The target's and the drafter's names, to be shown."""
        if self.loaded is not None:
            return target_name(self.loaded.target), self.loaded.drafter
        name = self._settings.starter_name if self.starter else target_name(self.pair.target)
        return name, self.pair.drafter

    @property
    def loading(self) -> bool:
        """Whether the pair that was chosen last is still to be loaded."""
        return self._next is not None or self.fetching or self._latest in self._targets

    @property
    def fetching(self) -> bool:
        """Whether a model folder of the chosen target is being made."""
        return self.pair.target in self._preparing

    @property
    def starter(self) -> bool:
        """Whether the starter model was chosen."""
        return self.pair.target == ""

    def begin(self) -> None:
        """Load the last pair."""
        self._engine.start()  # at the same time, as both take a while
        self.load(self.pair)

    def close(self) -> None:
        """Load nothing more: the engine is about to stop."""
        self._idle.stop()
        self._commands.close()

    def use(self, pair: Pair) -> None:
        """Load this pair now, or when the current answer has finished."""
        self._next = pair
        self.load_next()

    def load_next(self) -> None:
        """Load the pair that waits for the end of an answer, if none is being written."""
        if self._next is not None and not self.busy():
            pair, self._next = self._next, None
            self.load(pair)

    def reload(self) -> None:
        """Load the chosen pair again, in any case."""
        self.use(self._next or self.pair)

    def load_again(self) -> None:
        """Load the chosen pair again if it is `outdated`."""
        if self.outdated:
            self.reload()

    @property
    def outdated(self) -> bool:
        """Whether the engine was loaded with other settings than the current ones: for answers at
        once, for earlier answers, or for documents kept on disk."""
        return self.loaded is not None and self._asked != self._wanted

    def change(self, wanted: Pair) -> None:
        """Load another target; for the same target, change only what differs."""
        pair = self.pair
        if wanted.target != pair.target:
            self.load(wanted)
        elif wanted != pair:
            length = wanted.draft_length
            self.draft(
                drafter=wanted.drafter if wanted.drafter != pair.drafter else None,
                draft_length=length if length != pair.draft_length else None,
            )

    def open_target(self, path: Path) -> None:
        """Load a model's folder or a GGUF file. When it has loaded, it is listed from then on."""
        self._opened[str(path)] = "targets"
        self.load(Pair(str(path), "auto", self.pair.draft_length))

    def open_drafter(self, drafter: Path) -> None:
        """Draft with the model or head in this folder. When it has loaded, it is listed from then
        on."""
        self._opened[str(drafter)] = "drafters"
        self.draft(drafter=str(drafter))

    def load(self, pair: Pair) -> None:
        """Load a pair now, and at the next start."""
        self.resting = False
        self.problem = None
        self._latest = ""
        self._choose(pair)
        if pair.target and not is_gguf(pair.target):
            self._ask(Path(pair.target))
        else:
            if not self.fetching:
                self._prepare(pair.target)
            self.fetch_began.emit()

    def draft(self, *, drafter: str | None = None, draft_length: str | None = None) -> None:
        """Change the drafter or draft length from the next answer on. None keeps the current
        one."""
        pair = self.pair
        self._choose(
            Pair(
                pair.target,
                pair.drafter if drafter is None else drafter,
                pair.draft_length if draft_length is None else draft_length,
            )
        )
        if self.fetching:
            return  # its load will have them
        if self.loaded is not None:
            self._expect(self._engine.use_drafting(drafter=drafter, draft_length=draft_length))
        else:
            self.load(self.pair)

    @property
    def memory(self) -> Memory:
        """The memory limits of conversations with the chosen target."""
        return self._settings.memory(self.pair.target)

    def use_memory(self, target: str, memory: Memory) -> None:
        """Set the memory limits of conversations with a target. The chosen one is loaded again."""
        if memory != self._settings.memory(target):
            self._settings.keep_memory(target, memory)
            if target == self.pair.target:
                self.load(self.pair)

    @property
    def _wanted(self) -> tuple[int, bool, bool]:
        wanted = self._settings
        return wanted.parallel, wanted.learn, wanted.keep_documents

    def measure_again(self) -> None:
        """Calibrate the pair again, and replace the stored calibration of this machine."""
        if self.loaded is not None:
            self._engine.measure_again()

    def unload(self) -> None:
        """Unload the model to free its memory, until the next request."""
        if self.loaded is not None and not self.resting:
            self.resting = True
            self._engine.unload()

    def wake(self) -> None:
        """Load the model again if it was unloaded."""
        if self.resting:
            self.load(self.pair)

    def rest_after(self, minutes: int) -> None:
        """Unload the model after that many minutes without requests; 0 for never."""
        self._settings.unload_minutes = minutes
        self._wait_for_rest()

    def _choose(self, pair: Pair) -> None:
        self.pair = self._settings.pair = pair
        self.chosen.emit()

    def _wait_for_rest(self) -> None:
        minutes = self._settings.unload_minutes
        if minutes and self.loaded is not None:
            self._idle.start(minutes * 60_000)
        else:
            self._idle.stop()

    def _rest_if_idle(self) -> None:
        if self._engine.answering:
            self._wait_for_rest()
        else:
            self.unload()

    def _on_rested(self) -> None:
        if self.resting:
            self.rested.emit()

    def _prepare(self, target: str) -> None:
        self._preparing.add(target)
        opening = self._commands.start("open", target)
        opening.line_received.connect(lambda line: self._report_progress(target, line))
        opening.done.connect(lambda answer: self._on_prepared(target, answer))
        opening.failed.connect(lambda problem: self._on_unprepared(target, problem))

    def _report_progress(self, target: str, line: object) -> None:
        if isinstance(line, Progressed) and self.pair.target == target:
            self.fetch_progress.emit(line.done, line.total)

    def _on_prepared(self, target: str, answer: object) -> None:
        try:
            folder = Path(expect(Opened, answer).folder)
        except Problem as problem:
            self._on_unprepared(target, problem)
            return
        self._preparing.discard(target)
        if self.pair.target == target:
            self._ask(folder)

    def _ask(self, target: Path) -> None:
        self.resting = False  # another model may have been unloaded meanwhile
        parallel, learn, keep = self._asked = self._wanted
        id = self._engine.load(
            target,
            drafter=self.pair.drafter,
            draft_length=self.pair.draft_length,
            memory=self.memory,
            parallel=parallel,
            learn=learn,
            keep_bytes=None if keep else 0,
            macs=self._settings.macs,
        )
        self._expect(id)
        self.load_requested.emit()

    def _expect(self, id: str) -> None:
        """Note a request for the chosen pair: the ends of earlier requests are about others."""
        self._latest, self._targets[id] = id, self.pair.target

    def _on_unprepared(self, target: str, problem: Problem) -> None:
        self._preparing.discard(target)
        if self.pair.target == target:
            self._fail(problem)

    def _fail(self, problem: Problem) -> None:
        """Return to the pair that is still loaded, if any."""
        self._opened.clear()
        if self.loaded is not None:
            self._choose(self._last_loaded)
        else:
            self.problem = problem
        self.failed.emit(problem)

    def _on_loaded(self, loaded: Loaded) -> None:
        self.loaded, self.problem = loaded, None
        self._wait_for_rest()
        target = self._targets.pop(loaded.id, self._last_loaded.target)
        self._last_loaded = Pair(target, loaded.drafter, loaded.draft_length)
        if target == "":
            self._settings.starter_name = target_name(loaded.target)
        for path in (target, loaded.drafter):
            if kind := self._opened.pop(path, ""):
                self._settings.remember_path(kind, path)
        self.loaded_now.emit(loaded)
        self.load_again()  # the settings may have changed meanwhile

    def _on_unloaded(self) -> None:
        self.loaded = None

    def _on_failed(self, failed: Failed) -> None:
        earlier = self._targets.pop(failed.generation, None) is not None
        if not earlier or failed.generation == self._latest:
            self._fail(Problem(failed.message, failed.remedy))


def is_gguf(target: str) -> bool:
    """Return whether a target is a GGUF file, which must be imported first."""
    # Ollama's files are called by their digests.
    return target.lower().endswith(".gguf") or Path(target).name.startswith("sha256")
