"""Connects the pill of a window to the engine and the pair choice.

Knows which choices there are, and when; not how a model is loaded.
"""

from PySide6.QtCore import QObject

from app import files
from app.chat.activity import long_status, status_of_several
from app.chat.answers import Answers
from app.choice_box import Choice
from app.engine_client.engine_process import EngineProcess, EngineState
from app.models.formatting import target_name
from app.models.library import Library
from app.models.loader import ModelLoader
from app.models.pair_bar import PairBar, drafter_choices, target_choices
from app.settings import Pair, Settings
from engine.process.protocol import Loaded, Loading
from models.errors import Problem

_STARTER = "starter"  # its value in the bar, as an empty value means no choice
_GGUF = "GGUF files (*.gguf *.GGUF)"
_ON_THE_WAY = (EngineState.STARTING, EngineState.LOADING)


class PairController(QObject):
    """Shows the chosen pair, whichever window chose it, and the progress of loading."""

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
        self.show_choices()
        self._show_pair()
        self._show_stage(engine)
        self._mark_answering()
        self._show_activity()
        bar.pair_chosen.connect(self._change)
        bar.open_folder_asked.connect(self.ask_for_folder)
        bar.open_file_asked.connect(self.ask_for_file)
        bar.open_drafter_asked.connect(self._ask_for_drafter)
        answers.begun.connect(self._mark_answering)
        answers.finished.connect(self._mark_answering)
        answers.activity_changed.connect(self._show_activity)
        library.inventory.changed.connect(self._on_library)
        library.candidates.changed.connect(self._on_library)
        loader.chosen.connect(self._show_pair)
        loader.fetch_began.connect(self._on_fetch_began)
        loader.fetch_progress.connect(self._on_progress)
        loader.load_requested.connect(self._on_requested)
        loader.loaded_now.connect(self._on_loaded)
        loader.failed.connect(self._on_failed)
        engine.loading.connect(self._on_loading)
        engine.died.connect(self._on_died)
        loader.rested.connect(bar.set_resting)

    def ask_for_folder(self) -> None:
        """Ask for a model's folder."""
        files.ask_for_folder(self._bar, "Choose a model\u2019s folder", self._loader.open_target)

    def ask_for_file(self) -> None:
        """Ask for a GGUF file."""
        files.ask_to_open(self._bar, "Choose a GGUF file", _GGUF, self._loader.open_target)

    def _ask_for_drafter(self) -> None:
        files.ask_for_folder(
            self._bar,
            "Choose the folder of a draft model",
            self._loader.open_drafter,
        )

    def _change(self, target: str, drafter: str, length: str) -> None:
        self._loader.change(Pair("" if target == _STARTER else target, drafter, length))

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

    def _show_activity(self) -> None:
        """Show the activity of all answers; the tooltip has a line for each."""
        doing = {one: one.activity for one in self._answers.unfinished if one.activity is not None}
        lines = [
            f"{writing.title}: {long_status(activity)}" if writing.title else long_status(activity)
            for writing, activity in doing.items()
        ]
        self._bar.set_activity(status_of_several(tuple(doing.values())), tip="\n".join(lines))

    def _show_stage(self, engine: EngineProcess) -> None:
        """Show the state of the model, for a window that is opened later."""
        loader = self._loader
        if loader.loaded is not None:
            self._show_loaded(loader.loaded)
        elif loader.problem is not None:
            self._bar.set_failed(loader.problem.message, loader.problem.remedy)
        elif loader.resting:
            self._bar.set_resting()
        elif loader.fetching or engine.state in _ON_THE_WAY:
            self._bar.set_loading(loader.names[0])

    def _show_loaded(self, loaded: Loaded) -> None:
        self._bar.set_loaded(
            precision=loaded.precision,
            context_length=loaded.context_length,
            exact=loaded.exact.in_words(),
        )

    def _on_requested(self) -> None:
        self._bar.set_loading(self._loader.names[0])

    def _on_died(self, reason: str) -> None:
        self._bar.set_empty()

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
        self.show_choices()
        self._show_pair()
        self._show_loaded(loaded)

    def _on_failed(self, problem: Problem) -> None:
        loaded = self._loader.loaded
        self._show_pair()  # first, as the boxes list the chosen values
        self.show_choices()
        if loaded is None:
            self._bar.set_failed(problem.message, problem.remedy)
        else:
            self._show_loaded(loaded)
