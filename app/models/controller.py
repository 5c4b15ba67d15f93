"""Does what is asked in the Library's window, and sees to what follows: a download that shall be
used is used. How a model is loaded is known elsewhere.
"""

from functools import partial

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import QMessageBox, QWidget

from app import files
from app.models import words
from app.models.dialog import LibraryDialog, PageName
from app.models.library import Library
from app.models.loader import ModelLoader
from app.models.offers import offer_key, offer_title
from app.models.presenter import LibraryPresenter
from app.models.row_data import Loaded
from app.settings import Pair
from models.errors import Problem
from models.records import Installed, Offer

_LOOK_MS = 3000  # between two looks at what another process downloads


class LibraryController(QObject):
    """Attributes: `dialog`, None while it was never open; `wanted`, the offer that will be used
    when it is here.

    Signals:
        chosen(Pair): use this.
        drafter_chosen(str): draft with this, as `--drafter` takes it.
        ready(Pair): what was wanted a while ago is here; another pair was chosen since.
        told(str): something happened while the window of the Library was not seen.
    """

    chosen = Signal(object)
    drafter_chosen = Signal(str)
    ready = Signal(object)
    told = Signal(str)

    def __init__(self, library: Library, loader: ModelLoader, *, parent: QWidget) -> None:
        super().__init__(parent)
        self._library, self._loader, self._window = library, loader, parent
        self.dialog: LibraryDialog | None = None
        self._shown: LibraryPresenter | None = None
        self.wanted: Offer | None = None
        self._wanted_instead_of = Pair()
        self._loading = ""  # what the engine was asked for here, in words
        library.downloads.arrived.connect(self._on_arrived)
        library.shelf.changed.connect(self._on_shelf)
        library.told.connect(self._say)
        library.failed.connect(self._on_failed)
        loader.loaded_now.connect(self._on_loaded)
        loader.failed.connect(self._on_not_loaded)
        self._watch = QTimer(self, interval=_LOOK_MS)
        self._watch.timeout.connect(self._look_elsewhere)

    def open(self, page: PageName = "offers") -> None:
        """Show the Library's window, and look at what there is."""
        if self.dialog is None or self._shown is None:
            self.dialog = LibraryDialog(self._window)
            self._connect(self.dialog)
            self._shown = LibraryPresenter(
                self._library,
                self.dialog,
                loaded=self._loaded,
                wanted=lambda: offer_key(self.wanted) if self.wanted else "",
            )
        self._watch.start()
        self._library.look()
        self._library.look_at_offers()
        self._look_for_drafters()
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()
        self.dialog.show_page(page)
        self._shown.refresh()

    def close(self) -> None:
        """Pause the downloads, and be gone."""
        if self.dialog is not None:
            self.dialog.close()
        self._library.close()

    def _connect(self, dialog: LibraryDialog) -> None:
        library = self._library
        dialog.offers.asked.connect(self._on_offer)
        dialog.search.asked.connect(self._on_found)
        dialog.search.searched.connect(library.search)
        dialog.drafters.asked.connect(self._on_drafter)
        dialog.downloads.asked.connect(self._on_download)
        dialog.disk.asked.connect(self._on_disk)
        dialog.offers.retry_asked.connect(library.look_at_offers)
        dialog.search.retry_asked.connect(lambda: library.search(library.searched))
        dialog.drafters.retry_asked.connect(self._look_for_drafters)
        dialog.downloads.retry_asked.connect(library.look)
        dialog.disk.retry_asked.connect(library.look)
        dialog.pause_all.clicked.connect(lambda: self._for_all("queued running", "pause"))
        dialog.resume_all.clicked.connect(lambda: self._for_all("paused failed", "resume"))
        dialog.add_folder.clicked.connect(self._ask_for_folder)

    # What is asked

    def _on_offer(self, key: str, action: str) -> None:
        offer = next(one for one in self._library.offers.value if offer_key(one) == key)
        self.wanted, self._wanted_instead_of = offer, self._loader.pair
        missing = [name for name in _parts(offer) if self._find(name) is None]
        if missing:
            self._say(f"{offer_title(offer)} is being fetched, and will be used when it is here.")
            self._library.downloads.pull(*missing)
        else:
            self._use_wanted()

    def _on_found(self, key: str, action: str) -> None:
        if action == "get":
            self._say(f"{key} is being fetched: see Downloads.")
            self._library.downloads.pull(key)
        else:
            self._use(key)

    def _on_drafter(self, key: str, action: str) -> None:
        if action == "get":
            self._library.downloads.pull(key)
        else:
            self.drafter_chosen.emit(key)

    def _on_download(self, key: str, action: str) -> None:
        downloads = self._library.downloads
        match action:
            case "pause":
                downloads.pause(key)
            case "resume":
                downloads.pull(key)
            case "cancel":
                if self.wanted and key in _parts(self.wanted):
                    self.wanted = None
                self._say("What has come is kept: see On this machine, to clean it up.")
                downloads.cancel(key)

    def _on_disk(self, key: str, action: str) -> None:
        name = key.partition(":")[2]
        match action:
            case "use":
                self._use(name)
            case "delete":
                self._ask_to_delete(name)
            case "clean":
                self._library.clean(name)
            case "forget":
                self._library.remove_folder(name)

    def _for_all(self, standings: str, action: str) -> None:
        for one in self._library.downloads.all:
            if one.standing in standings.split():
                self._on_download(one.repository, action)

    def _ask_for_folder(self) -> None:
        if self.dialog is not None:
            files.ask_for_folder(
                self.dialog,
                "A folder with models",
                lambda folder: self._library.add_folder(str(folder)),
            )

    def _ask_to_delete(self, name: str) -> None:
        installed = self._find(name)
        if installed is None:
            return
        box = QMessageBox(self.dialog)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setIcon(QMessageBox.Icon.Warning)
        box.setWindowTitle("Delete a model")
        box.setText(f"Delete {installed.name}?")
        box.setInformativeText(
            f"This frees {words.size(installed.size_bytes)}. Conversations stay as they are. "
            "To have the model again, it must be fetched again."
        )
        delete = box.addButton("Delete", QMessageBox.ButtonRole.DestructiveRole)
        keep = box.addButton("Keep", QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(keep)
        box.setEscapeButton(keep)
        delete.clicked.connect(partial(self._library.remove, name))
        box.open()

    # What follows

    def _on_arrived(self, repository: str) -> None:
        if self.wanted is None or repository not in _parts(self.wanted):
            self._say(f"{repository} is on this machine now.")

    def _on_shelf(self) -> None:
        """What was wanted may be there now."""
        shelf = self._library.shelf
        if self.wanted is None or shelf.asking or shelf.problem is not None:
            return
        if all(self._find(name) for name in _parts(self.wanted)):
            self._use_wanted()

    def _use_wanted(self) -> None:
        offer, self.wanted = self.wanted, None
        if offer is None:
            return
        target, drafter = self._find(offer.target), self._find(offer.drafter)
        if target is None:
            return
        pair = self._pair(target, drafter)
        if self._loader.pair == self._wanted_instead_of:
            self._load(pair, offer_title(offer))
        else:
            self._say(f"{offer_title(offer)} is on this machine now.")
            self.ready.emit(pair)

    def _use(self, name: str) -> None:
        installed = self._find(name)
        if installed is not None:
            self._load(self._pair(installed), words.short_name(installed.name))

    def _load(self, pair: Pair, name: str) -> None:
        self._loading = name
        self._say(f"{name} is being loaded.")
        self.chosen.emit(pair)

    def _pair(self, target: Installed, drafter: Installed | None = None) -> Pair:
        """As the loader takes it; without a drafter, the best of those that work."""
        return Pair(
            "" if target.origin == "starter" else target.path,
            drafter.name if drafter else "auto",
            self._loader.pair.draft_length,
        )

    def _find(self, name: str) -> Installed | None:
        return self._library.shelf.value.find(name)

    def _on_loaded(self) -> None:
        if self._loading:
            self._say(f"{self._loading} answers now.")
            self._loading = ""
        if self._shown is not None:
            self._look_for_drafters()
            self._shown.refresh()

    def _on_not_loaded(self, problem: Problem) -> None:
        """The window says so as well."""
        if self._loading and self.dialog is not None:
            self._loading = ""
            self.dialog.line.say(str(problem), "warning")

    def _look_elsewhere(self) -> None:
        if self.dialog is None or not self.dialog.isVisible():
            self._watch.stop()
        elif self._library.downloads.elsewhere and not self._library.shelf.asking:
            self._library.look()

    def _look_for_drafters(self) -> None:
        target = self._loaded().target
        if target:
            self._library.look_for_drafters(target)

    def _loaded(self) -> Loaded:
        loaded = self._loader.loaded
        return Loaded(loaded.target, loaded.drafter) if loaded else Loaded()

    def _on_failed(self, problem: Problem) -> None:
        if self.dialog is not None and self.dialog.isVisible():
            self.dialog.line.say(str(problem), "warning")
        else:
            self.told.emit(str(problem))

    def _say(self, line: str) -> None:
        if self.dialog is not None and self.dialog.isVisible():
            self.dialog.line.say(line)
        elif line:
            self.told.emit(line)


def _parts(offer: Offer) -> tuple[str, ...]:
    """The repositories that an offer consists of."""
    return tuple(filter(None, (offer.target, offer.drafter)))
