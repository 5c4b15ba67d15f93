"""Shows the Library's pages, carries out what the user asks for there, and loads a pair that was
chosen when its download finishes.

It has one view, in the window that opened it last. Only the visible page is kept up to date; the
others are refreshed when they are opened. The loader knows how a model is loaded.
"""

from collections.abc import Callable
from functools import cached_property, partial

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QMessageBox, QWidget

from app import files
from app.models.formatting import short_name, target_name
from app.models.library import Library
from app.models.loader import ModelLoader
from app.models.offers import offer_key, offer_states, offer_title
from app.models.row_data import (
    ActionName,
    LoadedPair,
    candidate_rows,
    disk_rows,
    disk_summary,
    download_rows,
    found_rows,
    named_row,
)
from app.models.view import LibraryView, PageName
from app.settings import Pair, Settings
from app.theme.dialog import ask
from models import in_words
from models.errors import Problem
from models.records import Download, Installed, PairOffer

_FOLLOW_MS = 3000  # between two checks of another process's downloads


class LibraryController(QObject):
    """Attributes: `view`; `pending_offer`, the offer to be used when its download finishes.

    Signals:
        forgotten(): a folder that the user opened was removed from the lists.
        ready(Pair): this pair finished downloading, but another was chosen in the meantime.
        reported(str): an event while the Library is not shown.
        left(): the window that showed the view shows its conversation again.
    """

    forgotten = Signal()
    ready = Signal(object)
    reported = Signal(str)
    left = Signal()

    def __init__(
        self, library: Library, loader: ModelLoader, *, settings: Settings, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._library, self._loader = library, loader
        self._settings = settings
        self.pending_offer: PairOffer | None = None
        self._pair_before = Pair()
        self._loading = ""  # the name of the pair that was chosen here and is loading
        self._chosen = Pair()  # that pair
        library.downloads.completed.connect(self._on_completed)
        library.downloads.broke.connect(self._on_broken)
        library.inventory.changed.connect(self._on_inventory)
        library.done.connect(self._on_done)
        library.failed.connect(self._on_failed)
        loader.loaded_now.connect(self._on_loaded)
        loader.failed.connect(self._on_not_loaded)
        self._watch = QTimer(self, interval=_FOLLOW_MS)
        self._watch.timeout.connect(self.follow)

    @cached_property
    def view(self) -> LibraryView:
        """The view, made when it is opened first: most windows never show it."""
        view = LibraryView()
        self._connect(view)
        return view

    def _made(self) -> bool:
        return "view" in vars(self)

    def _visible(self) -> bool:
        return self._made() and self.view.isVisible()

    def open(self, page: PageName = "offers") -> None:
        """Open a page of the view, which a window shows now, and refresh its contents."""
        self._watch.start()
        self._library.refresh()
        self._library.refresh_offers()
        self._refresh_candidates()
        self.view.show_page(page)
        self.refresh()

    def leave(self, window: QWidget) -> None:
        """Give the conversation of `window` its place back if the view has it."""
        if self._made() and window.isAncestorOf(self.view):
            self.view.leave()

    def close(self) -> None:
        """Delete the view, and pause the downloads."""
        self._watch.stop()
        if self._made():
            self.view.leave()
            vars(self).pop("view").deleteLater()
        self._library.close()

    def _connect(self, view: LibraryView) -> None:
        library = self._library
        library.inventory.changed.connect(self.refresh)
        library.offers.changed.connect(lambda: self.refresh("offers"))
        library.found.changed.connect(lambda: self.refresh("search"))
        library.candidates.changed.connect(lambda: self.refresh("drafters"))
        library.downloads.changed.connect(self.refresh)
        view.shown.connect(lambda page: self.refresh())
        view.left.connect(self.left)
        view.offers.asked.connect(self._on_offer)
        view.search.asked.connect(self._on_found)
        view.search.searched.connect(library.search)
        view.drafters.asked.connect(self._on_drafter)
        view.downloads.asked.connect(self._on_download)
        view.disk.asked.connect(self._on_disk)
        view.offers.retry_asked.connect(library.refresh_offers)
        view.search.retry_asked.connect(lambda: library.search(library.searched))
        view.drafters.retry_asked.connect(self._refresh_candidates)
        view.downloads.retry_asked.connect(library.refresh)
        view.disk.retry_asked.connect(library.refresh)
        view.pause_all.clicked.connect(lambda: self._for_all("pause"))
        view.resume_all.clicked.connect(lambda: self._for_all("resume"))
        view.add_folder.clicked.connect(self._ask_for_folder)

    # Pages

    def refresh(self, *changed: PageName) -> None:
        """Refresh the visible page if it is one of `changed`, or if `changed` is empty."""
        if not self._visible():
            return
        self.view.set_download_count(len(self._library.downloads.all))
        show: dict[PageName, Callable[[], None]] = {
            "offers": self._show_offers,
            "search": self._show_found,
            "drafters": self._show_drafters,
            "downloads": self._show_downloads,
            "disk": self._show_disk,
        }
        if (page := self.view.page) in (changed or show):
            show[page]()

    def _show_offers(self) -> None:
        library = self._library
        states = offer_states(
            library.offers.value,
            inventory=library.inventory.value,
            downloads=library.downloads.all,
            loaded=self._loaded(),
            pending=offer_key(self.pending_offer) if self.pending_offer else "",
        )
        self.view.offers.show_offers(
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
        self.view.search.show_rows(
            rows,
            asking=f"Searching the hub for “{searched}”…" if found.asking else "",
            problem=found.problem,
            empty=nothing if found.answered else "Search the hub for a model by name.",
        )

    def _show_drafters(self) -> None:
        library = self._library
        name = target_name(library.target) if library.target else ""
        self.view.drafters.set_title(f"Draft models for {name}" if name else "Draft models")
        self.view.drafters.show_rows(
            candidate_rows(
                library.candidates.value,
                self._loaded(),
                inventory=library.inventory.value,
                downloads=library.downloads.all,
                opened=self._settings.opened_paths("drafters"),
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
        self.view.pause_all.setEnabled("pause" in offered)
        self.view.resume_all.setEnabled("resume" in offered)
        self.view.downloads.set_title("Current downloads" if downloads.all else "")
        self.view.downloads.show_rows(
            rows,
            asking="Reading the download queue…"
            if inventory.asking and not inventory.answered
            else "",
            problem=None if inventory.answered else inventory.problem,
            empty="No downloads. Choose a pair for this machine, or search.",
        )

    def _show_disk(self) -> None:
        inventory = self._library.inventory
        self.view.disk.set_title(disk_summary(inventory.value) if inventory.answered else "")
        self.view.disk.show_rows(
            disk_rows(
                inventory.value, self._loaded(), opened=self._settings.opened_paths("targets")
            ),
            asking="Looking for models on this machine…" if inventory.asking else "",
            problem=inventory.problem,
            empty="No models yet. Choose a pair for this machine, or search.",
        )

    # Requests

    def _on_offer(self, key: str, action: ActionName) -> None:
        offers = self._library.offers.value
        offer = next(offer for offer in offers if offer_key(offer) == key)
        self.pending_offer, self._pair_before = offer, self._loader.pair
        missing = [name for name in _repositories(offer) if self._find(name) is None]
        if missing:
            self._say(f"{offer_title(offer)} is downloading. It will be used when it has finished.")
            self._library.downloads.pull(*missing)
        else:
            self._use_pending()

    def _on_found(self, repository: str, action: ActionName) -> None:
        if action == "get":
            self._say(f"{repository} is downloading. See Downloads.")
            self._library.downloads.pull(repository)
        else:
            self._use(repository)

    def _on_drafter(self, drafter: str, action: ActionName) -> None:
        match action:
            case "get":
                self._library.downloads.pull(drafter)
            case "forget":
                self._forget("drafters", drafter)
            case _:
                self._loader.draft(drafter=drafter)

    def _forget(self, kind: str, path: str) -> None:
        """Remove a path that the user opened from the lists."""
        self._settings.forget_path(kind, path)
        self.forgotten.emit()
        self.refresh()

    def _on_download(self, repository: str, action: ActionName) -> None:
        downloads = self._library.downloads
        match action:
            case "pause":
                downloads.pause(repository)
            case "resume":
                downloads.pull(repository)
            case "cancel":
                if self.pending_offer and repository in _repositories(self.pending_offer):
                    self.pending_offer = None
                self._say("The downloaded part is kept. Delete it under “On this machine”.")
                downloads.cancel(repository)

    def _on_disk(self, path: str, action: ActionName) -> None:
        match action:
            case "use":
                self._use(path)
            case "delete":
                self._ask_to_delete(path)
            case "clean":
                self._library.clean(path)
            case "forget" if path in self._settings.paths("targets"):
                self._forget("targets", path)
            case "forget":
                self._library.remove_folder(path)

    def _for_all(self, action: ActionName) -> None:
        """Do this to every download that offers it now."""
        names = [
            row.data.key
            for row in self.view.downloads.rows.rows
            if any(one.name == action and not one.reason for one in row.data.actions)
        ]
        if action == "resume":
            self._library.downloads.pull(*names)
        else:
            for name in names:
                self._library.downloads.pause(name)

    def _ask_for_folder(self) -> None:
        files.ask_for_folder(
            self.view,
            "Choose a folder with models",
            lambda folder: self._library.add_folder(str(folder)),
        )

    def _ask_to_delete(self, name: str) -> None:
        installed = self._find(name)
        if installed is None:
            return
        detail = (
            f"This frees {in_words.size(installed.size_bytes)}. Your conversations stay. "
            "You can download the model again."
        )
        question, then = f"Delete {installed.name}?", partial(self._library.remove, name)
        box = ask(self.view, "Delete a model", question, detail, verb="Delete", then=then)
        box.setIcon(QMessageBox.Icon.Warning)

    # Results

    def _on_completed(self, repository: str) -> None:
        if self.pending_offer is None or repository not in _repositories(self.pending_offer):
            self._say(f"{repository} finished downloading.")

    def _on_broken(self, download: Download) -> None:
        """Report that a download failed. Its row in the Library says why."""
        if not self._visible():
            self.reported.emit(f"{download.repository}: {download.problem} {download.remedy}")
        elif self.view.page != "downloads":
            self.view.line.say(f"{download.repository} failed. See Downloads.", "warning")

    def _on_inventory(self) -> None:
        """Use the pending offer if its models are installed now."""
        inventory = self._library.inventory
        if self.pending_offer is None or inventory.asking or inventory.problem is not None:
            return
        if all(self._find(name) for name in _repositories(self.pending_offer)):
            self._use_pending()

    def _use_pending(self) -> None:
        offer, self.pending_offer = self.pending_offer, None
        if offer is None:
            return
        target, drafter = self._find(offer.target), self._find(offer.drafter)
        if target is None:
            return
        pair = self._pair(target, drafter)
        if self._loader.pair == self._pair_before:
            self._load(pair, offer_title(offer))
        else:
            self._say(f"{offer_title(offer)} finished downloading.")
            self.ready.emit(pair)

    def _use(self, name: str) -> None:
        installed = self._find(name)
        if installed is not None:
            self._load(self._pair(installed), short_name(installed.name))
        elif name in self._settings.paths("targets"):
            length = self._loader.pair.draft_length
            self._load(Pair(name, "auto", length), target_name(name))

    def _load(self, pair: Pair, name: str) -> None:
        self._loading, self._chosen = name, pair
        self._say(f"Loading {name}…")
        self._loader.use(pair)

    def _pair(self, target: Installed, drafter: Installed | None = None) -> Pair:
        """Return the pair for the loader. Without a drafter, the engine chooses one."""
        return Pair(
            "" if target.origin == "starter" else target.path,
            drafter.name if drafter else "auto",
            self._loader.pair.draft_length,
        )

    def _find(self, name: str) -> Installed | None:
        return self._library.inventory.value.find(name)

    def _on_loaded(self) -> None:
        if self._loading and not self._loader.loading:
            mine = self._loader.pair == self._chosen
            self._say(f"{self._loading} is loaded." if mine else "")
            self._loading = ""
        if self._visible():
            self._refresh_candidates()
            self.refresh()

    def _on_not_loaded(self, problem: Problem) -> None:
        """Show the problem in the Library too; the window shows it in any case."""
        if self._loading:
            self._loading = ""
            self.view.line.say(str(problem), "warning")

    def follow(self) -> None:
        """Check again while another process is downloading. Stop when the user has left it."""
        if not self._visible():
            self._watch.stop()
        elif self._library.downloads.elsewhere and not self._library.inventory.asking:
            self._library.refresh()

    def _refresh_candidates(self) -> None:
        target = self._loaded().target
        if target:
            self._library.refresh_candidates(target)

    def _loaded(self) -> LoadedPair:
        loaded = self._loader.loaded
        return LoadedPair(loaded.target, loaded.drafter) if loaded else LoadedPair()

    def _on_done(self, freed_bytes: int | None) -> None:
        self._say("" if freed_bytes is None else f"Freed {in_words.size(freed_bytes)}.")

    def _on_failed(self, problem: Problem) -> None:
        if self._visible():
            self.view.line.say(str(problem), "warning")
        else:
            self.reported.emit(str(problem))

    def _say(self, line: str) -> None:
        if self._visible():
            self.view.line.say(line)
        elif line:
            self.reported.emit(line)


def _repositories(offer: PairOffer) -> tuple[str, ...]:
    """Return the repositories of an offer's models."""
    return tuple(filter(None, (offer.target, offer.drafter)))
