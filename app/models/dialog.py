"""The Library's window: its pages as tabs, and a line about the last action.

Knows its widgets. The presenter fills the pages, and the controller carries out the actions.
"""

from typing import Literal

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPushButton, QTabWidget, QVBoxLayout, QWidget

from app.models.pages import OffersPage, Page, SearchPage, TitledPage
from app.theme.labels import StatusLine
from app.theme.style import STYLE_SHEET, TABS

PageName = Literal["offers", "search", "drafters", "downloads", "disk"]


class LibraryDialog(QDialog):
    """Not modal, so that the chat can go on. Attributes: the pages.

    Signals: `shown(str)`: another page was opened.
    """

    shown = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
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
        self._tabs = QTabWidget()
        self._close = QPushButton("Close")
        self.setWindowTitle("Library")
        self.setModal(False)
        self.setStyleSheet(STYLE_SHEET)  # it may have no parent
        self._arrange()
        self._close.clicked.connect(self.close)
        self._tabs.currentChanged.connect(lambda place: self.shown.emit(self.page))

    def _arrange(self) -> None:
        self._tabs.setDocumentMode(True)
        self._tabs.tabBar().setDrawBase(False)
        self._tabs.tabBar().setCursor(Qt.CursorShape.PointingHandCursor)
        self._tabs.setStyleSheet(TABS)
        self._tabs.setAccessibleName("Library")
        for page, title in zip(
            self.pages.values(),
            ("For this machine", "Search", "Draft models", "Downloads", "On this machine"),
            strict=True,
        ):
            self._tabs.addTab(page, title)
        self._close.setAutoDefault(False)
        below = QHBoxLayout()
        below.setContentsMargins(14, 0, 14, 0)
        below.addWidget(self.line, 1)
        below.addWidget(self._close, 0, Qt.AlignmentFlag.AlignBottom)
        column = QVBoxLayout(self)
        column.setContentsMargins(18, 12, 18, 16)
        column.setSpacing(10)
        column.addWidget(self._tabs, 1)
        column.addLayout(below)
        self.setMinimumSize(560, 420)
        self.resize(QSize(1040, 780).boundedTo(self.screen().availableSize()))

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
