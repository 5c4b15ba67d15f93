"""Rows of things that something can be done with, each with the reason where it cannot.

A row is kept for as long as its key is shown: what changes in it leaves the focus where it is.
Knows no models.
"""

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QColor, QFocusEvent, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.models.row_data import RowData
from app.models.widgets import Label, LineLabel, ThinBar, shown_colours


class Row(QWidget):
    """Signals: `asked(str, str)`, the key and the action's name."""

    asked = Signal(str, str)

    def __init__(self, content: RowData) -> None:
        super().__init__()
        self.content = content
        self._shown: tuple[RowData, str] | None = None
        self._heading = Label(tone="muted", scale=0.88, bold=True)
        self._title = LineLabel(bold=True, elide=Qt.TextElideMode.ElideMiddle)
        self._badge = Label(tone="good", scale=0.85, bold=True)
        self._line = Label(tone="muted", scale=0.92)
        self._remark = Label(tone="muted", scale=0.92)
        self._reason = Label(tone="muted", scale=0.92, italic=True)
        self._progress = ThinBar()
        self._buttons: dict[str, QPushButton] = {}
        self._actions = QHBoxLayout()
        self._arrange()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.show_data(content, heading=content.heading)

    def _arrange(self) -> None:
        self._badge.setWordWrap(False)
        self._heading.setContentsMargins(10, 14, 0, 2)
        self._actions.setSpacing(6)
        name = QHBoxLayout()
        name.setSpacing(8)
        name.addWidget(self._title, 1)
        name.addWidget(self._badge)
        told = QVBoxLayout()
        told.setSpacing(3)
        told.addLayout(name)
        for part in (self._line, self._remark, self._reason):
            told.addWidget(part)
        told.addWidget(self._progress)
        self._body = QWidget()
        row = QHBoxLayout(self._body)
        row.setContentsMargins(10, 9, 10, 10)
        row.setSpacing(16)
        row.addLayout(told, 1)
        row.addLayout(self._actions)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._heading)
        column.addWidget(self._body)

    def show_data(self, content: RowData, *, heading: str) -> None:
        """Show this from now on, under that heading if it is not empty."""
        if (content, heading) == self._shown:
            return
        self.content, self._shown = content, (content, heading)
        self._heading.say(heading)
        self._title.say(content.title)
        self._badge.say(content.badge)
        self._line.say(content.line)
        self._remark.say(content.remark)
        self._reason.say(content.reasons, "warning" if content.warns else "muted")
        self._progress.show_share(content.progress)
        self._progress.setAccessibleName(f"Progress of {content.title}")
        self.setAccessibleName(content.heard)
        self._show_actions()

    def press(self, name: str) -> None:
        """As if a person did."""
        self._buttons[name].click()

    def button(self, name: str) -> QPushButton | None:
        """That of a action, if the row has it."""
        return self._buttons.get(name)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter does the first that can be done."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            for action in self.content.actions:
                if not action.reason:
                    self.asked.emit(self.content.key, action.name)
                    return
        super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = shown_colours(self)
        with QPainter(self) as painter:
            painter.setPen(QColor(colours.edge))
            painter.drawLine(10, self.height() - 1, self.width() - 10, self.height() - 1)
            if self.hasFocus():
                painter.setRenderHint(QPainter.RenderHint.Antialiasing)
                painter.setPen(QColor(colours.link))
                box = self._body.geometry().toRectF().adjusted(1.5, 1.5, -1.5, -2.5)
                painter.drawRoundedRect(box, 6, 6)

    def _show_actions(self) -> None:
        names = [action.name for action in self.content.actions]
        if list(self._buttons) != names:
            focused = next((name for name, one in self._buttons.items() if one.hasFocus()), "")
            for button in self._buttons.values():
                button.hide()
                button.deleteLater()
            self._buttons = {name: self._make_button(name) for name in names}
            if focused:
                self._buttons.get(focused, self).setFocus()
        for action in self.content.actions:
            button = self._buttons[action.name]
            button.setText(action.text)
            if action.reason and button.hasFocus():
                self.setFocus()  # not to whatever comes next
            button.setEnabled(not action.reason)
            button.setToolTip(action.reason)
            button.setAccessibleName(f"{action.text} {self.content.title}")
            button.setAccessibleDescription(action.reason)

    def _make_button(self, name: str) -> QPushButton:
        button = QPushButton()
        button.setAutoDefault(False)
        button.clicked.connect(lambda: self.asked.emit(self.content.key, name))
        self._actions.addWidget(button, 0, Qt.AlignmentFlag.AlignVCenter)
        return button


class Rows(QScrollArea):
    """Rows below each other, moved through by the arrow keys.

    Signals: `asked(str, str)`, the key of a row and the name of the action.
    """

    asked = Signal(str, str)

    def __init__(self, name: str) -> None:
        """`name` is for those who do not see it."""
        super().__init__()
        self._rows: dict[str, Row] = {}
        self._above = 0  # widgets before the first row
        self._inner = QWidget()
        self._column = QVBoxLayout(self._inner)
        self._column.setContentsMargins(0, 0, 8, 0)
        self._column.setSpacing(0)
        self._column.addStretch(1)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(self._inner)
        self.setAccessibleName(name)
        self._inner.setAccessibleName(name)

    @property
    def rows(self) -> tuple[Row, ...]:
        """From the first to the last."""
        return tuple(self._rows.values())

    def row(self, key: str) -> Row:
        return self._rows[key]

    def put_first(self, widget: QWidget) -> None:
        """Let something scroll along above the rows."""
        self._column.insertWidget(self._above, widget)
        self._above += 1

    def show_rows(self, data: tuple[RowData, ...]) -> None:
        """Show these, in this order."""
        wanted = {content.key: content for content in data}
        gone = [self._rows.pop(key) for key in list(self._rows) if key not in wanted]
        for row in gone:
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        heading, rows = "", {}
        for place, content in enumerate(wanted.values(), start=self._above):
            above = content.heading if content.heading != heading else ""
            heading = content.heading
            row = self._rows.get(content.key) or Row(content)
            if content.key not in self._rows:
                row.asked.connect(self.asked)
                row.installEventFilter(self)
            row.show_data(content, heading=above)
            if self._column.indexOf(row) != place:
                self._column.insertWidget(place, row)
                row.show()  # now, that it can have the focus
            rows[content.key] = row
        self._rows = rows

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.KeyPress and isinstance(watched, Row):
            assert isinstance(event, QKeyEvent)
            by = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}.get(Qt.Key(event.key()))
            if by is not None:
                self._go(watched, by)
                return True
        elif event.type() == QEvent.Type.FocusIn and isinstance(watched, Row):
            self.ensureWidgetVisible(watched, 0, 8)
        return super().eventFilter(watched, event)

    def _go(self, row: Row, by: int) -> None:
        rows = self.rows
        place = min(max(rows.index(row) + by, 0), len(rows) - 1)
        rows[place].setFocus(Qt.FocusReason.OtherFocusReason)
