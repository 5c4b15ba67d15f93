"""A combo box whose choices have a line of explanation each.

An unavailable choice is greyed out, and its line says why. Tasks, such as opening a file, can
follow the choices. Knows nothing of their meaning.
"""

from dataclasses import dataclass

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPalette, QStandardItem
from PySide6.QtGui import QStandardItemModel as ItemModel
from PySide6.QtWidgets import (
    QComboBox,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
)

from app.theme.icons import draw_sign
from app.theme.labels import plain_tip
from app.theme.palette import palette_for
from app.theme.style import small_font

_VALUE = int(Qt.ItemDataRole.UserRole)
_LINE = _VALUE + 1
_TASK = _VALUE + 2
_FIRST_TASK = _VALUE + 3
_WIDEST = 460  # pixels


@dataclass(frozen=True, slots=True)
class Choice:
    """`value` is for the program; `name` and the explanation `line` are for the user.

    `reason` says why it cannot be chosen; empty if it can. `tip` is its tooltip.
    """

    value: str
    name: str
    line: str = ""
    reason: str = ""
    tip: str = ""


class ChoiceBox(QComboBox):
    """Signals: `chosen(str)`: the user chose this value; `task_chosen(str)`: or this task."""

    chosen = Signal(str)
    task_chosen = Signal(str)

    def __init__(self, name: str, choices: tuple[Choice, ...] = (), value: str = "") -> None:
        """`name` is for screen readers."""
        super().__init__()
        self._items = ItemModel(self)
        self._value = ""
        self.setModel(self._items)
        self.setItemDelegate(_ChoiceDelegate(self))
        self.setAccessibleName(name)
        self.setSizeAdjustPolicy(self.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMaxVisibleItems(20)
        self.activated.connect(self._on_activated)
        self.set_choices(choices)
        self.set_value(value)

    @property
    def value(self) -> str:
        """The chosen value; empty if there is none."""
        return self._value

    def set_choices(
        self, choices: tuple[Choice, ...], *, tasks: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """List these choices, and `tasks` below them, each a value with a name. The chosen value
        stays."""
        self._items.clear()
        for choice in choices:
            self._items.appendRow(_item(choice))
        for number, (value, name) in enumerate(tasks):
            task = QStandardItem(name)
            task.setData(value, _VALUE)
            task.setData(True, _TASK)
            task.setData(number == 0 and bool(choices), _FIRST_TASK)
            self._items.appendRow(task)
        self._fit_list()
        self.set_value(self._value)

    def set_value(self, value: str) -> None:
        """Choose a value without a signal. A value that is not listed is added."""
        self._value = value
        place = self._place(value)
        if place < 0 and value:
            name = value.rstrip("/").rpartition("/")[2] or value
            self._items.insertRow(0, _item(Choice(value, name, tip=value)))
            self._fit_list()
            place = 0
        self.setCurrentIndex(place)
        self._describe()

    def wheelEvent(self, event: object) -> None:
        """Do nothing, as scrolling past the box would load another model."""
        event.ignore()  # type: ignore[attr-defined]

    def _on_activated(self, place: int) -> None:
        value = str(self.itemData(place, _VALUE))
        if self.itemData(place, _TASK):
            self.set_value(self._value)
            self.task_chosen.emit(value)
        elif value != self._value:
            self._value = value
            self._describe()
            self.chosen.emit(value)

    def _place(self, value: str) -> int:
        for place in range(self._items.rowCount()):
            if self.itemData(place, _VALUE) == value and not self.itemData(place, _TASK):
                return place
        return -1

    def _describe(self) -> None:
        place = self.currentIndex()
        line = str(self.itemData(place, _LINE) or "") if place >= 0 else ""
        tip = str(self.itemData(place, Qt.ItemDataRole.ToolTipRole) or "") if place >= 0 else ""
        self.setAccessibleDescription(line)
        self.setToolTip(tip or line)

    def _fit_list(self) -> None:
        view = self.view()
        self.ensurePolished()
        widest = max(
            (view.sizeHintForIndex(self._items.index(row, 0)).width()
             for row in range(self._items.rowCount())),
            default=0,
        )  # fmt: skip
        view.setMinimumWidth(min(widest + 24, _WIDEST))


class _ChoiceDelegate(QStyledItemDelegate):
    """Draws a name, the line below it, and a check mark if it is chosen."""

    def __init__(self, box: ChoiceBox) -> None:
        super().__init__(box)
        self._box = box

    def sizeHint(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        name = QFontMetrics(option.font)
        line = QFontMetrics(small_font(option.font, scale=0.88))
        text = str(index.data(_LINE) or "")
        height = name.height() + (line.height() + 1 if text else 0) + 12
        width = max(
            name.horizontalAdvance(str(index.data())), line.horizontalAdvance(text) if text else 0
        )
        return QSize(min(width + 46, _WIDEST), height)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        colours = palette_for(option.palette.color(QPalette.ColorRole.Base).name())
        enabled = bool(index.flags() & Qt.ItemFlag.ItemIsEnabled)
        chosen = bool(option.state & QStyle.StateFlag.State_Selected) and enabled
        painter.save()
        area = QRect(option.rect)
        painter.fillRect(area, QColor(colours.hover if chosen else colours.paper))
        if index.data(_FIRST_TASK):
            painter.setPen(QColor(colours.edge))
            painter.drawLine(area.topLeft(), area.topRight())
        box = area.adjusted(12, 6, -12, -6)
        if index.data(_VALUE) == self._box.value and not index.data(_TASK):
            place = QRectF(box.right() - 13, box.center().y() - 6, 14, 14)
            draw_sign(painter, "check", place, colours.accepted)
            box.setRight(box.right() - 20)
        name = QFontMetrics(option.font)
        painter.setFont(option.font)
        painter.setPen(QColor(colours.text if enabled else colours.muted))
        words = name.elidedText(str(index.data()), Qt.TextElideMode.ElideMiddle, box.width())
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop, words)
        if text := str(index.data(_LINE) or ""):
            font = small_font(option.font, scale=0.88)
            font.setItalic(not enabled)
            painter.setFont(font)
            painter.setPen(QColor(colours.muted))
            fitting = QFontMetrics(font).elidedText(text, Qt.TextElideMode.ElideRight, box.width())
            painter.drawText(
                box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom, fitting
            )
        painter.restore()


def _item(choice: Choice) -> QStandardItem:
    item = QStandardItem(choice.name)
    line = choice.reason or choice.line
    item.setData(choice.value, _VALUE)
    item.setData(line, _LINE)
    item.setToolTip(plain_tip(choice.tip))
    item.setEnabled(not choice.reason)
    spoken = f"{choice.name}, not available" if choice.reason else choice.name
    item.setData(f"{spoken}. {line}" if line else spoken, Qt.ItemDataRole.AccessibleTextRole)
    return item
