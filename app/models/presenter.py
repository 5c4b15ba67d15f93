"""Shows the contents of the Library on its pages. Knows which page shows which
answer; handles no actions.

Only the visible page is kept up to date; the others are refreshed when they are opened.
"""

from collections.abc import Callable

from PySide6.QtCore import QObject

from app.models.formatting import target_name
from app.models.library import Library
from app.models.offers import offer_states
from app.models.row_data import (
    LoadedPair,
    candidate_rows,
    disk_rows,
    disk_summary,
    download_rows,
    found_rows,
    named_row,
)
from app.models.view import LibraryView, PageName


class LibraryPresenter(QObject):
    """Refreshes the visible page whenever something on it changes."""

    def __init__(
        self,
        library: Library,
        view: LibraryView,
        *,
        loaded: Callable[[], LoadedPair],
        opened: Callable[[str], tuple[str, ...]],
        pending_key: Callable[[], str],
    ) -> None:
        """`loaded` returns the loaded pair, `opened` the targets or drafters that the user opened,
        and `pending_key` the key of the offer that will be loaded."""
        super().__init__(view)
        self._opened = opened
        self._library, self._view = library, view
        self._loaded, self._pending_key = loaded, pending_key
        self._pages: dict[PageName, Callable[[], None]] = {
            "offers": self._show_offers,
            "search": self._show_found,
            "drafters": self._show_drafters,
            "downloads": self._show_downloads,
            "disk": self._show_disk,
        }
        library.inventory.changed.connect(self.refresh)
        library.offers.changed.connect(lambda: self.refresh("offers"))
        library.found.changed.connect(lambda: self.refresh("search"))
        library.candidates.changed.connect(lambda: self.refresh("drafters"))
        library.downloads.changed.connect(self.refresh)
        view.shown.connect(lambda page: self.refresh())

    def refresh(self, *changed: PageName) -> None:
        """Refresh the visible page if it is one of `changed`, or if `changed` is empty."""
        self._view.set_download_count(len(self._library.downloads.all))
        page = self._view.page
        if self._view.isVisible() and page in (changed or self._pages):
            self._pages[page]()

    def _show_offers(self) -> None:
        library = self._library
        states = offer_states(
            library.offers.value,
            inventory=library.inventory.value,
            downloads=library.downloads.all,
            loaded=self._loaded(),
            pending=self._pending_key(),
        )
        self._view.offers.show_offers(
            states,
            asking="Checking what fits this machine…" if library.offers.asking else "",
            problem=library.offers.problem,
        )

    def _show_found(self) -> None:
        library = self._library
        found, searched = library.found, library.searched
        nothing = f"The hub has no model called “{searched}”. Try fewer words, or part of a name."
        inventory, downloads = library.inventory.value, library.downloads.all
        rows = found_rows(found.value, inventory=inventory, downloads=downloads)
        if found.answered:
            rows += named_row(searched, found.value, inventory=inventory, downloads=downloads)
        self._view.search.show_rows(
            rows,
            asking=f"Searching the hub for “{searched}”…" if found.asking else "",
            problem=found.problem,
            empty=nothing if found.answered else "Search the hub for a model by name.",
        )

    def _show_drafters(self) -> None:
        library = self._library
        name = target_name(library.target) if library.target else ""
        self._view.drafters.set_title(f"Draft models for {name}" if name else "Draft models")
        self._view.drafters.show_rows(
            candidate_rows(
                library.candidates.value,
                self._loaded(),
                inventory=library.inventory.value,
                downloads=library.downloads.all,
                opened=self._opened("drafters"),
            ),
            asking="Comparing installed models with it…" if library.candidates.asking else "",
            problem=library.candidates.problem,
            empty="No draft model is known for this model."
            if name
            else "No model is loaded. Load one to see which draft models work with it.",
        )

    def _show_downloads(self) -> None:
        downloads, inventory = self._library.downloads, self._library.inventory
        rows = download_rows(downloads.all)
        offered = {action.name for row in rows for action in row.actions if not action.reason}
        self._view.pause_all.setEnabled("pause" in offered)
        self._view.resume_all.setEnabled("resume" in offered)
        self._view.downloads.set_title("Current downloads" if downloads.all else "")
        self._view.downloads.show_rows(
            rows,
            asking="Reading the download queue…"
            if inventory.asking and not inventory.answered
            else "",
            problem=None if inventory.answered else inventory.problem,
            empty="No downloads. Choose a pair for this machine, or search.",
        )

    def _show_disk(self) -> None:
        inventory = self._library.inventory
        self._view.disk.set_title(disk_summary(inventory.value) if inventory.answered else "")
        self._view.disk.show_rows(
            disk_rows(inventory.value, self._loaded(), opened=self._opened("targets")),
            asking="Looking for models on this machine…" if inventory.asking else "",
            problem=inventory.problem,
            empty="No models yet. Choose a pair for this machine, or search.",
        )
