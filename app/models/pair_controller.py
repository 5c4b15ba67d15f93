"""Keeps the pair bar in step with the engine, and loads what is chosen there.

Knows which choices there are, and when; not how a model is loaded.
"""

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app import files
from app.chat.activity import in_a_line, in_a_word
from app.chat.answers import Answers
from app.choice_box import Choice
from app.engine_client.engine_process import EngineProcess
from app.models.combine_dialog import CombineDialog
from app.models.library import Library
from app.models.loader import ModelLoader
from app.models.pair_bar import PairBar, drafter_choices, target_choices
from app.models.words import target_name
from app.settings import Pair, Settings
from engine.protocol import Loaded, Loading
from models.errors import Problem

_STARTER = "starter"  # its value in the bar; an empty one would mean no choice
_GGUF = "GGUF files (*.gguf *.GGUF)"


class PairController(QObject):
    """Signals: `retry_asked()`, load again what failed."""

    retry_asked = Signal()

    def __init__(
        self,
        bar: PairBar,
        loader: ModelLoader,
        engine: EngineProcess,
        answers: Answers,
        *,
        settings: Settings,
        library: Library,
    ) -> None:
        super().__init__(bar)
        self._bar, self._loader, self._answers = bar, loader, answers
        self._settings, self._library = settings, library
        self._next: Pair | None = None  # to load when the answer has finished
        self._opened: dict[str, str] = {}  # what a person opened and is not loaded yet, by kind
        self.show_choices()
        self._show_pair()
        bar.pair_chosen.connect(self._choose)
        bar.open_folder_asked.connect(self.ask_for_folder)
        bar.open_file_asked.connect(self.ask_for_file)
        bar.open_drafter_asked.connect(self._ask_for_drafter)
        bar.combine_asked.connect(self._combine)
        bar.retry_asked.connect(self.retry_asked)
        answers.begun.connect(self._mark_answering)
        answers.finished.connect(self._mark_answering)
        answers.activity_changed.connect(self._show_activity)
        library.inventory.changed.connect(self._on_library)
        library.candidates.changed.connect(self._on_library)
        loader.fetch_began.connect(self._on_fetch_began)
        loader.fetch_progress.connect(self._on_progress)
        loader.load_requested.connect(lambda: bar.set_loading(loader.names[0]))
        loader.loaded_now.connect(self._on_loaded)
        loader.failed.connect(self._on_failed)
        engine.loading.connect(self._on_loading)
        engine.died.connect(lambda reason: bar.set_empty())
        loader.rested.connect(bar.set_resting)

    def ask_for_folder(self) -> None:
        """Let a person choose a model's folder."""
        files.ask_for_folder(self._bar, "Choose a model\u2019s folder", self.open_target)

    def ask_for_file(self) -> None:
        """Let a person choose a GGUF file."""
        files.ask_to_open(self._bar, "Choose a GGUF file", _GGUF, self.open_target)

    def open_target(self, path: Path) -> None:
        """Load a model's folder or a GGUF file; once it is loaded it is listed from then on."""
        self._opened["targets"] = str(path)
        self._loader.load(Pair(str(path), "auto", self._loader.pair.draft_length))
        self._show_pair()

    def _ask_for_drafter(self) -> None:
        files.ask_for_folder(
            self._bar, "Choose the folder of a smaller model, or of a head", self.open_drafter
        )

    def open_drafter(self, drafter: Path) -> None:
        """Draft with the model or head in this folder; once it drafts it is listed from then on."""
        self._opened["drafters"] = str(drafter)
        self._loader.draft(drafter=str(drafter))
        self._show_pair()

    def _combine(self) -> None:
        """Let a person combine the drafters that work."""
        choices = self._drafter_choices(self._loader.pair.drafter)
        dialog = CombineDialog(choices, self._loader.pair.drafter, parent=self._bar)
        dialog.chosen.connect(self.use_drafter)
        dialog.open()

    def _choose(self, target: str, drafter: str, length: str) -> None:
        pair = self._loader.pair
        chosen = "" if target == _STARTER else target
        if chosen != pair.target:
            self._loader.load(Pair(chosen, drafter, length))
        elif (drafter, length) != (pair.drafter, pair.draft_length):
            self._loader.draft(
                drafter=drafter if drafter != pair.drafter else None,
                draft_length=length if length != pair.draft_length else None,
            )

    def use(self, pair: Pair) -> None:
        """Load this pair now, or when the answer that is being written has finished."""
        self._next = pair
        self._load_next()

    def _load_next(self) -> None:
        if self._next is not None and not self._answers.busy:
            pair, self._next = self._next, None
            self._loader.load(pair)
            self._show_pair()

    def use_drafter(self, drafter: str) -> None:
        """Draft with this from the next answer on."""
        self._loader.draft(drafter=drafter)
        self._show_pair()

    def show_choices(self) -> None:
        """Fill the boxes of the bar."""
        starter = Choice(_STARTER, self._settings.starter_name, "The starter model")
        pair, inventory = self._loader.pair, self._library.inventory.value
        opened = (*self._settings.opened_paths("targets"), *filter(None, (pair.target,)))
        self._bar.set_targets(target_choices(inventory.installed, starter=starter, opened=opened))
        self._bar.set_drafters(self._drafter_choices(pair.drafter))

    def _drafter_choices(self, chosen: str) -> tuple[Choice, ...]:
        opened = self._settings.opened_paths("drafters")
        return drafter_choices(self._library.candidates.value, opened=opened, chosen=chosen)

    def _on_library(self) -> None:
        self.show_choices()
        self._show_pair()

    def _show_pair(self) -> None:
        pair = self._loader.pair
        if pair.drafter != self._bar.drafter:
            self._bar.set_drafters(self._drafter_choices(pair.drafter))
        self._bar.set_pair(pair.target or _STARTER, drafter=pair.drafter, length=pair.draft_length)

    def _mark_answering(self) -> None:
        self._bar.set_answering(self._answers.busy)
        self._load_next()

    def _show_activity(self) -> None:
        current = self._answers.current
        if current is None or current.activity is None:
            self._bar.set_activity("")
        else:
            line = in_a_line(current.activity)
            tip = f"{line}\nConversation: {current.title}" if current.title else line
            self._bar.set_activity(in_a_word(current.activity), tip=tip)

    def _on_fetch_began(self) -> None:
        self._bar.set_loading(target_name(self._loader.pair.target))

    def _on_progress(self, done: int, total: int) -> None:
        name = target_name(self._loader.pair.target)
        if total:
            self._bar.set_loading(f"{name}, {done / total:.0%}")

    def _on_loading(self, loading: Loading) -> None:
        if loading.measured:
            self._bar.set_measuring(loading.measured)
        else:
            self._bar.set_loading(target_name(loading.target))

    def _on_loaded(self, loaded: Loaded) -> None:
        self._remember(loaded)
        self.show_choices()
        self._show_pair()
        self._bar.set_loaded(precision=loaded.precision, context_length=loaded.context_length)
        if not self._library.inventory.answered:
            self._library.refresh()
        if loaded.target != self._library.target:
            self._library.refresh_candidates(loaded.target)

    def _remember(self, loaded: Loaded) -> None:
        """List what a person opened, now that it is loaded."""
        for kind, now in (("targets", self._loader.pair.target), ("drafters", loaded.drafter)):
            if self._opened.pop(kind, "") == now != "":
                self._settings.remember_path(kind, now)

    def _on_failed(self, problem: Problem) -> None:
        self._opened.clear()
        loaded = self._loader.loaded
        self._show_pair()  # first, as the boxes list what is chosen in them
        self.show_choices()
        if loaded is None:
            self._bar.set_failed(problem.message, problem.remedy)
        else:
            self._bar.set_loaded(precision=loaded.precision, context_length=loaded.context_length)
