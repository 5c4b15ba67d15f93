"""Loads the pair that the user chose in any window, as soon as no answer is being written.

Lists an opened folder or file once it works, and asks which drafters suit the target. Knows the
loader, the answers and the Library; no widget.
"""

from pathlib import Path

from PySide6.QtCore import QObject

from app.chat.answers import Answers
from app.models.library import Library
from app.models.loader import ModelLoader
from app.settings import Pair, Settings
from engine.process.protocol import Loaded


class PairChoice(QObject):
    """Carries out choices from the pair bar, the Library and the Engine menu."""

    def __init__(
        self,
        loader: ModelLoader,
        answers: Answers,
        *,
        settings: Settings,
        library: Library,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._loader, self._answers = loader, answers
        self._settings, self._library = settings, library
        self._next: Pair | None = None  # to be loaded when the answer has finished
        self._opened: dict[str, str] = {}  # opened by the user and not loaded yet, by kind
        answers.finished.connect(self._load_next)
        loader.loaded_now.connect(self._on_loaded)
        loader.failed.connect(lambda problem: self._opened.clear())

    def use(self, pair: Pair) -> None:
        """Load this pair now, or when the current answer has finished."""
        self._next = pair
        self._load_next()

    def load_again(self) -> None:
        """Load the current pair again if the settings have changed for it."""
        if self._loader.outdated:
            self.reload()

    def reload(self) -> None:
        """Load the chosen pair again, in any case."""
        self.use(self._next or self._loader.pair)

    def use_drafter(self, drafter: str) -> None:
        """Use this drafter from the next answer on."""
        self._loader.draft(drafter=drafter)

    def change(self, wanted: Pair) -> None:
        """Load another target; for the same target, change only what differs."""
        pair = self._loader.pair
        if wanted.target != pair.target:
            self._loader.load(wanted)
        elif wanted != pair:
            self._loader.draft(
                drafter=wanted.drafter if wanted.drafter != pair.drafter else None,
                draft_length=(
                    wanted.draft_length if wanted.draft_length != pair.draft_length else None
                ),
            )

    def open_target(self, path: Path) -> None:
        """Load a model's folder or a GGUF file. When it has loaded, it is listed from then on."""
        self._opened["targets"] = str(path)
        self._loader.load(Pair(str(path), "auto", self._loader.pair.draft_length))

    def open_drafter(self, drafter: Path) -> None:
        """Draft with the model or head in this folder. When it has loaded, it is listed from then
        on."""
        self._opened["drafters"] = str(drafter)
        self._loader.draft(drafter=str(drafter))

    def _load_next(self) -> None:
        if self._next is not None and not self._answers.busy:
            pair, self._next = self._next, None
            self._loader.load(pair)

    def _on_loaded(self, loaded: Loaded) -> None:
        for kind, now in (("targets", self._loader.pair.target), ("drafters", loaded.drafter)):
            if self._opened.pop(kind, "") == now != "":
                self._settings.remember_path(kind, now)
        self.load_again()  # the settings may have changed meanwhile
        if not self._library.inventory.answered:
            self._library.refresh()
        if loaded.target != self._library.target:
            self._library.refresh_candidates(loaded.target)
