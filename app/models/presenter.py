"""Keeps the Library's pages as the Library's answers are. Knows which answer is on which page;
what is done there is for others.

Only the page that is seen is kept so; the others are brought up to date when they come to be seen.
"""

from collections.abc import Callable

from PySide6.QtCore import QObject

from app.models.dialog import LibraryDialog, PageName
from app.models.library import Library
from app.models.offers import offer_states
from app.models.row_data import (
    Loaded,
    candidate_rows,
    disk_rows,
    disk_summary,
    download_rows,
    found_rows,
    named_row,
)
from app.models.words import target_name


class LibraryPresenter(QObject):
    """Shows what is, whenever it changes and a person can see it."""

    def __init__(
        self,
        library: Library,
        dialog: LibraryDialog,
        *,
        loaded: Callable[[], Loaded],
        wanted: Callable[[], str],
    ) -> None:
        """`loaded` is what answers now, `wanted` the key of the offer that will."""
        super().__init__(dialog)
        self._library, self._dialog = library, dialog
        self._loaded, self._wanted = loaded, wanted
        self._pages: dict[PageName, Callable[[], None]] = {
            "offers": self._show_offers,
            "search": self._show_found,
            "drafters": self._show_drafters,
            "downloads": self._show_downloads,
            "disk": self._show_disk,
        }
        library.shelf.changed.connect(self.refresh)
        library.offers.changed.connect(lambda: self.refresh("offers"))
        library.found.changed.connect(lambda: self.refresh("search"))
        library.candidates.changed.connect(lambda: self.refresh("drafters"))
        library.downloads.changed.connect(self.refresh)
        dialog.shown.connect(lambda page: self.refresh())

    def refresh(self, *changed: PageName) -> None:
        """Show the page that is seen as it is now, if it is one of those; none stand for all."""
        self._dialog.set_downloads(len(self._library.downloads.all))
        page = self._dialog.page
        if self._dialog.isVisible() and page in (changed or self._pages):
            self._pages[page]()

    def _show_offers(self) -> None:
        library = self._library
        states = offer_states(
            library.offers.value,
            shelf=library.shelf.value,
            downloads=library.downloads.all,
            loaded=self._loaded(),
            wanted=self._wanted(),
        )
        self._dialog.offers.show_offers(
            states,
            asking="Looking at what this machine can hold…" if library.offers.asking else "",
            problem=library.offers.problem,
        )

    def _show_found(self) -> None:
        library = self._library
        found, searched = library.found, library.searched
        nothing = f"Nothing on the hub is called “{searched}”. Try fewer words, or one of a name."
        shelf, downloads = library.shelf.value, library.downloads.all
        rows = found_rows(found.value, shelf=shelf, downloads=downloads)
        if found.answered:
            rows += named_row(searched, found.value, shelf=shelf, downloads=downloads)
        self._dialog.search.show_rows(
            rows,
            asking=f"Searching the hub for “{searched}”…" if found.asking else "",
            problem=found.problem,
            empty=nothing
            if found.answered
            else "Search the hub for a model by its name. What cannot be used says why.",
        )

    def _show_drafters(self) -> None:
        library = self._library
        name = target_name(library.target) if library.target else ""
        self._dialog.drafters.set_title(f"What can draft for {name}" if name else "Drafters")
        self._dialog.drafters.show_rows(
            candidate_rows(
                library.candidates.value,
                self._loaded(),
                shelf=library.shelf.value,
                downloads=library.downloads.all,
            ),
            asking="Comparing the models here with the target…"
            if library.candidates.asking
            else "",
            problem=library.candidates.problem,
            empty="Nothing is known to draft for this model."
            if name
            else "No model is loaded. When one is, what can draft for it stands here.",
        )

    def _show_downloads(self) -> None:
        downloads, shelf = self._library.downloads, self._library.shelf
        standings = {one.standing for one in downloads.all}
        self._dialog.pause_all.setEnabled(bool(standings & {"queued", "running"}))
        self._dialog.resume_all.setEnabled(bool(standings & {"paused", "failed"}))
        self._dialog.downloads.set_title("What is on its way" if downloads.all else "")
        self._dialog.downloads.show_rows(
            download_rows(downloads.all, pending=downloads.pending),
            asking="Looking at the queue…" if shelf.asking and not shelf.answered else "",
            problem=None if shelf.answered else shelf.problem,
            empty="Nothing is being downloaded. Choose a pair for this machine, or search.",
        )

    def _show_disk(self) -> None:
        shelf = self._library.shelf
        self._dialog.disk.set_title(disk_summary(shelf.value) if shelf.answered else "")
        self._dialog.disk.show_rows(
            disk_rows(shelf.value, self._loaded()),
            asking="Looking at what is on this machine…" if shelf.asking else "",
            problem=shelf.problem,
            empty="There are no models here yet. Choose a pair for this machine, or search.",
        )
