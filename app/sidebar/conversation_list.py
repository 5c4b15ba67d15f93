"""The list of conversations: choosing, selecting, dragging and renaming lines.

Knows keys and the mouse. Arrows only move the selection; a click or Enter opens a conversation, so
that moving through a long list loads nothing. Ctrl and Shift select several.
"""

import json

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPoint, QRect, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
)
from PySide6.QtWidgets import QAbstractItemDelegate, QFrame, QListView, QWidget

from app.sidebar.conversation_model import DRAGGED, GROUP, INSIDE, ConversationModel, Group
from app.sidebar.conversation_rows import MORE_WIDTH, has_menu, line_box
from app.theme.style import colours_of

_TO_SELECT = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
_LEFT_FOR_GOOD = (
    Qt.FocusReason.MouseFocusReason,
    Qt.FocusReason.TabFocusReason,
    Qt.FocusReason.BacktabFocusReason,
    Qt.FocusReason.ShortcutFocusReason,
)


class FlatList(QListView):
    """A list without a frame and background.

    Signals:
        chosen(QModelIndex): a click, or Enter.
        clicked_on(QModelIndex): a click, after `chosen`.
        left_upwards: the up arrow on the first line.
    """

    chosen = Signal(QModelIndex)
    clicked_on = Signal(QModelIndex)
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
        self.clicked.connect(self._on_clicked)
        self._modifiers = Qt.KeyboardModifier.NoModifier

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._modifiers = event.modifiers()
        super().mousePressEvent(event)

    def _on_clicked(self, index: QModelIndex) -> None:
        if not self._modifiers & _TO_SELECT:
            self.chosen.emit(index)
            if self.state() != self.State.EditingState:
                self.clicked_on.emit(index)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        index = self.currentIndex()
        if self.state() == self.State.EditingState:
            event.ignore()  # the editor has handled it, and passes it on
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and index.isValid():
            self.chosen.emit(index)
        elif event.key() == Qt.Key.Key_Up and index.row() <= 0 and not event.modifiers():
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
    menu_asked(QPoint): show a menu for the selection at this place of the screen.
    edited: the editor of a title was closed.
    left: the focus moved to another part of the window.
    dropped(object, QModelIndex): conversations (their ids) were dropped on a line; the index is
        invalid below the last line.
    """

    menu_asked = Signal(QPoint)
    edited = Signal()
    left = Signal()
    dropped = Signal(object, QModelIndex)

    def __init__(self, model: ConversationModel, parent: QWidget | None = None) -> None:
        super().__init__("Conversations", parent)
        self._model = model
        self._dropping: range | None = None  # the rows that would receive a drop now
        self.setModel(model)
        self.setSelectionMode(self.SelectionMode.ExtendedSelection)
        self.doubleClicked.connect(self._on_double_clicked)
        self.setDragEnabled(True)
        self.setAcceptDrops(True)
        self.setDropIndicatorShown(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._on_menu)

    @property
    def editing(self) -> bool:
        """Whether a title is being edited."""
        return self.state() == self.State.EditingState

    def go_to(self, index: QModelIndex) -> None:
        """Make a line the current line, and the only selected one, also while Shift or Ctrl is
        pressed."""
        select = QItemSelectionModel.SelectionFlag.ClearAndSelect
        self.selectionModel().setCurrentIndex(index, select)

    def closeEditor(self, editor: QWidget, hint: QAbstractItemDelegate.EndEditHint) -> None:
        super().closeEditor(editor, hint)
        self.edited.emit()

    def _on_double_clicked(self, index: QModelIndex) -> None:
        if index.data(GROUP) is None:  # the first click opened or closed a group
            self.edit(index)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        place = event.position().toPoint()
        index = self.indexAt(place)
        if index.isValid():
            line = line_box(self.visualRect(index), self.font())
            if not line.contains(place):
                return  # a heading
            if (
                event.button() == Qt.MouseButton.LeftButton
                and place.x() > line.right() - MORE_WIDTH
                and has_menu(index)
            ):
                self._ask_for_menu(index, place)
                return
        super().mousePressEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        index = self.currentIndex()
        group: Group | None = index.data(GROUP) if index.isValid() else None
        opens, closes = event.key() == Qt.Key.Key_Right, event.key() == Qt.Key.Key_Left
        if self.editing:
            super().keyPressEvent(event)
        elif group is not None and (
            event.key() == Qt.Key.Key_Space or (group.open and closes) or (opens and not group.open)
        ):
            self.chosen.emit(index)
        elif closes and index.isValid() and index.data(INSIDE):
            self.go_to(self._model.index(self._model.lines_of(index).start))
        elif not (opens or closes):
            super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if event.reason() in _LEFT_FOR_GOOD and not self.editing:
            self.left.emit()

    # Dropping

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasFormat(DRAGGED):
            event.acceptProposedAction()
        else:
            event.ignore()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        super().dragMoveEvent(event)  # it scrolls near the edges
        if event.mimeData().hasFormat(DRAGGED):
            self._mark(self._model.lines_of(self.indexAt(event.position().toPoint())))
            event.acceptProposedAction()
        else:
            event.ignore()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        super().dragLeaveEvent(event)
        self._mark(None)

    def dropEvent(self, event: QDropEvent) -> None:
        self._mark(None)
        self.setState(self.State.NoState)
        if not event.mimeData().hasFormat(DRAGGED):
            event.ignore()
            return
        event.acceptProposedAction()
        ids = tuple(json.loads(bytes(event.mimeData().data(DRAGGED).data())))
        self.dropped.emit(ids, self.indexAt(event.position().toPoint()))

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._dropping is None:
            return
        colours = colours_of(self)
        with QPainter(self.viewport()) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QColor(colours.link))
            painter.drawRoundedRect(self._around(self._dropping).toRectF(), 6, 6)

    def _around(self, rows: range) -> QRect:
        """Return the outline for a drop: around these rows or, without rows, around the list."""
        if not rows:
            return self.viewport().rect().adjusted(3, 3, -4, -4)
        first = self.visualRect(self._model.index(rows.start))
        last = self.visualRect(self._model.index(rows.stop - 1))
        line = line_box(first, self.font())
        return QRect(line.topLeft(), last.bottomRight()).adjusted(4, 0, -4, 0)

    def _mark(self, rows: range | None) -> None:
        if rows != self._dropping:
            self._dropping = rows
            self.viewport().update()

    # Menu

    def _on_menu(self, place: QPoint) -> None:
        index = self.indexAt(place)
        if index.isValid() and has_menu(index):
            self._ask_for_menu(index, place)

    def _ask_for_menu(self, index: QModelIndex, place: QPoint) -> None:
        """Ask for a menu for the selection, or for this line if it is not selected."""
        if not self.selectionModel().isSelected(index):
            self.go_to(index)
        self.menu_asked.emit(self.viewport().mapToGlobal(place))
