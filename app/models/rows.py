"""Rows with buttons; a disabled button has a reason.

A row's widget stays while its key is shown, so that a change does not move the focus. Knows no
models.
"""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QColor, QFocusEvent, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QFrame,
    QPushButton,
    QScrollArea,
    QWidget,
)

from app.layout import FREE, column_of, row_of, text_button
from app.models.row_data import Action, RowData
from app.theme.labels import ShortenedLabel, ToneLabel
from app.theme.style import colours_of
from app.theme.widgets import ThinBar


def show_action(button: QPushButton, action: Action, subject: str) -> None:
    """Show an action on a button; `subject` follows its text for screen readers."""
    button.setText(action.text)
    button.setEnabled(not action.reason)
    button.setToolTip(action.reason)
    button.setAccessibleName(f"{action.text}{subject}")
    button.setAccessibleDescription(action.reason)


class LibraryRow(QWidget):
    """A row of the Library."""

    def __init__(self, data: RowData, *, ask: Callable[[str, str], None]) -> None:
        """`ask` takes the subject and the action's name."""
        super().__init__()
        self._ask_for = ask
        self.data = data
        self._shown: tuple[RowData, str] | None = None
        self._heading = ToneLabel(tone="muted", scale=0.88, bold=True)
        self._title = ShortenedLabel(bold=True, elide=Qt.TextElideMode.ElideMiddle)
        self._badge = ToneLabel(tone="good", scale=0.85, bold=True)
        self._line = ToneLabel(tone="muted", scale=0.92)
        self._remark = ToneLabel(tone="muted", scale=0.92)
        self._reason = ToneLabel(tone="muted", scale=0.92, italic=True)
        self._progress = ThinBar()
        self._buttons: dict[str, QPushButton] = {}
        self._actions = row_of(gap=6)
        self._arrange()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.show_data(data, heading=data.heading)

    def _arrange(self) -> None:
        self._badge.setWordWrap(False)
        self._heading.setContentsMargins(12, 14, 0, 2)
        name = row_of((self._title, 1), self._badge, gap=8)
        text = column_of(name, self._line, self._remark, self._reason, self._progress, gap=3)
        self._body = QWidget()
        row_of((text, 1), self._actions, on=self._body, margins=(12, 9, 10, 10), gap=16)
        column_of(self._heading, self._body, on=self, margins=0, gap=0)

    def show_data(self, data: RowData, *, heading: str) -> None:
        """Show this row, under `heading` if it is not empty."""
        if (data, heading) == self._shown:
            return
        self.data, self._shown = data, (data, heading)
        self._heading.say(heading)
        self._title.say(data.title)
        self._badge.say(data.badge)
        self._line.say(data.line)
        self._remark.say(data.remark)
        self._reason.say(data.reasons, "warning" if data.warns else "muted")
        self._progress.show_share(data.progress)
        self._progress.setAccessibleName(f"Progress of {data.title}")
        self.setAccessibleName(data.accessible_text)
        self._show_actions()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Let Enter run the first enabled action."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            for action in self.data.actions:
                if not action.reason:
                    self._ask(action.name)
                    return
        super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.setPen(QColor(colours.edge))
            painter.drawLine(10, self.height() - 1, self.width() - 10, self.height() - 1)
            if self.hasFocus():
                painter.setRenderHint(QPainter.RenderHint.Antialiasing)
                painter.setPen(QColor(colours.link))
                box = self._body.geometry().toRectF().adjusted(1.5, 1.5, -1.5, -2.5)
                painter.drawRoundedRect(box, 6, 6)

    def _show_actions(self) -> None:
        names = [action.name for action in self.data.actions]
        if list(self._buttons) != names:
            focused = next(
                (name for name, button in self._buttons.items() if button.hasFocus()), ""
            )
            for button in self._buttons.values():
                button.hide()
                button.deleteLater()
            self._buttons = {name: self._make_button(name) for name in names}
            if focused:
                self._buttons.get(focused, self).setFocus()
        for action in self.data.actions:
            button = self._buttons[action.name]
            if action.reason and button.hasFocus():
                self.setFocus()  # instead of moving to the next widget
            show_action(button, action, f" {self.data.title}")

    def _ask(self, name: str) -> None:
        self._ask_for(self.data.subject or self.data.key, name)

    def _make_button(self, name: str) -> QPushButton:
        button = text_button("", lambda: self._ask(name))
        self._actions.addWidget(button, 0, Qt.AlignmentFlag.AlignVCenter)
        return button


class Rows(QScrollArea):
    """A list of rows; the arrow keys move between them.

    Signals: `asked(str, str)`: a row's subject and the action's name.
    """

    asked = Signal(str, str)

    def __init__(self, name: str) -> None:
        """`name` is for screen readers."""
        super().__init__()
        self._rows: dict[str, LibraryRow] = {}
        self._above = 0  # widgets above the first row
        self._inner = QWidget()
        self._column = column_of(FREE, on=self._inner, margins=(0, 0, 8, 0), gap=0)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(self._inner)
        self.setAccessibleName(name)
        self._inner.setAccessibleName(name)

    @property
    def rows(self) -> tuple[LibraryRow, ...]:
        """All rows, from the first to the last."""
        return tuple(self._rows.values())

    def put_first(self, widget: QWidget) -> None:
        """Put a widget above the rows; it scrolls with them."""
        self._column.insertWidget(self._above, widget)
        self._above += 1

    def show_rows(self, rows_data: tuple[RowData, ...]) -> None:
        """Show exactly these rows, in this order."""
        wanted = {data.key: data for data in rows_data}
        removed = [self._rows.pop(key) for key in list(self._rows) if key not in wanted]
        for row in removed:
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        heading, rows = "", {}
        for place, data in enumerate(wanted.values(), start=self._above):
            above = data.heading if data.heading != heading else ""
            heading = data.heading
            row = self._rows.get(data.key) or LibraryRow(data, ask=self.asked.emit)
            row.installEventFilter(self)
            row.show_data(data, heading=above)
            if self._column.indexOf(row) != place:
                self._column.insertWidget(place, row)
                row.show()  # at once, so that it can take the focus
            rows[data.key] = row
        self._rows = rows

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.KeyPress and isinstance(watched, LibraryRow):
            assert isinstance(event, QKeyEvent)
            by = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}.get(Qt.Key(event.key()))
            if by is not None:
                self._go(watched, by)
                return True
        elif event.type() == QEvent.Type.FocusIn and isinstance(watched, LibraryRow):
            self.ensureWidgetVisible(watched, 0, 8)
        return super().eventFilter(watched, event)

    def _go(self, row: LibraryRow, by: int) -> None:
        rows = self.rows
        place = min(max(rows.index(row) + by, 0), len(rows) - 1)
        rows[place].setFocus(Qt.FocusReason.OtherFocusReason)
