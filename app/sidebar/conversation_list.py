"""The list of conversations: how one is chosen, and how titles are edited in place.

Knows keys and the mouse. Arrows only move the current line; a click or Enter opens it, so that
moving through a long list loads nothing.
"""

from PySide6.QtCore import QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractItemDelegate, QFrame, QListView, QWidget

from app.sidebar.conversation_rows import MORE_WIDTH, line_box
from app.theme.style import colours_of


class FlatList(QListView):
    """A list without a frame or a background of its own.

    Signals:
        chosen(QModelIndex): a click, or Enter.
        left_upwards: the up arrow on the first line.
    """

    chosen = Signal(QModelIndex)
    left_upwards = Signal()

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.empty_text = ""
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(self.ScrollMode.ScrollPerPixel)
        self.verticalScrollBar().setSingleStep(16)
        self.setSelectionMode(self.SelectionMode.SingleSelection)
        self.setEditTriggers(self.EditTrigger.NoEditTriggers)
        self.setMouseTracking(True)  # the line under the pointer shows its menu button
        self.viewport().setAutoFillBackground(False)
        self.clicked.connect(self.chosen)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        index = self.currentIndex()
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and index.isValid():
            self.chosen.emit(index)
        elif event.key() == Qt.Key.Key_Up and index.row() <= 0:
            self.left_upwards.emit()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.empty_text and not self.model().rowCount():
            colours = colours_of(self)
            with QPainter(self.viewport()) as painter:
                painter.setPen(colours.muted)
                box = self.viewport().rect().adjusted(16, 24, -16, 0)
                flags = Qt.AlignmentFlag.AlignHCenter | Qt.TextFlag.TextWordWrap
                painter.drawText(box, flags, self.empty_text)

    def say_when_empty(self, text: str) -> None:
        """Set the text of the empty list."""
        self.empty_text = text
        self.setAccessibleDescription("" if self.model().rowCount() else text)
        self.viewport().update()


class ConversationList(FlatList):
    """Signals:
    menu_asked(QPoint): show a menu at this place on the screen, for the current line.
    edited: the editor of a title was closed.
    """

    menu_asked = Signal(QPoint)
    edited = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Conversations", parent)
        self.setEditTriggers(self.EditTrigger.DoubleClicked)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._on_menu)

    @property
    def editing(self) -> bool:
        """Whether a title is being edited."""
        return self.state() == self.State.EditingState

    def closeEditor(self, editor: QWidget, hint: QAbstractItemDelegate.EndEditHint) -> None:
        super().closeEditor(editor, hint)
        self.edited.emit()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        place = event.position().toPoint()
        index = self.indexAt(place)
        if index.isValid():
            line = line_box(self.visualRect(index), self.font())
            if not line.contains(place):
                return  # a heading
            if event.button() == Qt.MouseButton.LeftButton and (
                place.x() > line.right() - MORE_WIDTH
            ):
                self.setCurrentIndex(index)
                self.menu_asked.emit(self.viewport().mapToGlobal(place))
                return
        super().mousePressEvent(event)

    def _on_menu(self, place: QPoint) -> None:
        index = self.indexAt(place)
        if not index.isValid():
            return
        self.setCurrentIndex(index)
        self.menu_asked.emit(self.viewport().mapToGlobal(place))
