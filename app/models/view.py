"""The Library, which a window shows in place of its conversation: its pages as tabs, and a line
about the last action.

Knows its widgets. The presenter fills the pages, and the controller carries out the actions.
"""

from typing import Literal

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QWidget

from app.layout import Free, column_of, quiet_tabs, row_of, text_button
from app.models.pages import OffersPage, Page, SearchPage, TitledPage
from app.theme.labels import StatusLine, plain_label

_BACK = QKeySequence("Ctrl+[")
_WIDEST = 1040  # pixels: in a wider row the button is far from its text
PageName = Literal["offers", "search", "drafters", "downloads", "disk"]


class LibraryView(QWidget):
    """Attributes: the pages.

    Signals:
        shown(str): another page was opened.
        left(): the window that showed it shows its conversation again.
    """

    shown = Signal(str)
    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.offers, self.search = OffersPage(), SearchPage()
        self.drafters = TitledPage("Draft models")
        self.downloads, self.disk = TitledPage("Downloads"), TitledPage("On this machine")
        self.pause_all = self.downloads.add_button("Pause all")
        self.resume_all = self.downloads.add_button("Resume all")
        self.add_folder = self.disk.add_button("Add a folder…")
        self.pages: dict[PageName, Page] = {
            "offers": self.offers,
            "search": self.search,
            "drafters": self.drafters,
            "downloads": self.downloads,
            "disk": self.disk,
        }
        self.line = StatusLine(wraps=True)
        self._tabs = quiet_tabs("Library")
        where = "Back to the conversation"
        self._back = text_button("\u2039  Back", self.leave, name=where, tip=f"{where} (Esc)")
        self._arrange()
        self._tabs.currentChanged.connect(lambda place: self.shown.emit(self.page))

    def _arrange(self) -> None:
        for page, title in zip(
            self.pages.values(),
            ("For this machine", "Search", "Draft models", "Downloads", "On this machine"),
            strict=True,
        ):
            self._tabs.addTab(page, title)
        above = row_of(self._back, plain_label("Library", bold=True), (self.line, 1), gap=12)
        inner = QWidget()
        inner.setMaximumWidth(_WIDEST)
        column_of(above, (self._tabs, 1), on=inner, margins=(18, 8, 18, 0))
        # The sides share the free width of a wide window.
        row_of(Free(0), (inner, 1), Free(0), on=self, margins=0)

    @property
    def page(self) -> PageName:
        """The page that is open."""
        return next(name for name, page in self.pages.items() if page is self._tabs.currentWidget())

    def show_page(self, name: PageName) -> None:
        """Open a page."""
        page = self.pages[name]
        self._tabs.setCurrentWidget(page)
        page.setFocus()

    def set_download_count(self, number: int) -> None:
        """Show the number of downloads in their tab."""
        place = self._tabs.indexOf(self.downloads)
        self._tabs.setTabText(place, f"Downloads ({number})" if number else "Downloads")

    def leave(self) -> None:
        """Give the conversation its place back. Downloads go on."""
        if self.parent() is not None:
            self.hide()
            self.setParent(None)  # it outlasts any window
            self.left.emit()

    def event(self, event: QEvent) -> bool:
        """Take the key for Back before the menus, which have another use for it."""
        if event.type() == QEvent.Type.ShortcutOverride and _is_back(event):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if _is_back(event):
            self.leave()
        else:
            super().keyPressEvent(event)


def _is_back(event: QEvent) -> bool:
    return isinstance(event, QKeyEvent) and QKeySequence(event.keyCombination()) == _BACK
