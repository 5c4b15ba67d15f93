"""One message: who wrote it, its text, what can be done with it, and how it ended.

Knows how a message looks, not what becomes of what is asked for: that goes out as signals.
"""

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QColor, QEnterEvent, QGuiApplication, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.chat.provenance import Provenance
from app.conversations.records import MessageState
from app.markdown.formats import Formats
from app.markdown.streaming import StreamingMarkdown, StreamingPlainText
from app.markdown.view import TextView
from app.theme.hover_button import HoverButton
from engine.request import Role
from models.in_words import clean

_CUT = "Interrupted: the answer ends where Slipstream or its engine stopped."
_ENDINGS: dict[MessageState, str] = {
    "complete": "",
    "streaming": _CUT,  # as the store has it after a crash
    "interrupted": _CUT,
    "cancelled": "You stopped this answer.",
    "failed": "The answer failed.",
    "length": "The answer was cut off: it reached the most tokens that it may have.",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """How an answer ended. After a failure, `message` says what is wrong, `remedy` what to do."""

    state: MessageState = "complete"
    message: str = ""
    remedy: str = ""

    @property
    def text(self) -> str:
        """The ending in words; empty for an answer that is complete."""
        if self.state != "failed":
            return _ENDINGS[self.state]
        return clean(" ".join(filter(None, (self.message or _ENDINGS["failed"], self.remedy))))


class MessageWidget(QWidget):
    """A message in the transcript.

    Signals:
        edit_asked, regenerate_asked, go_on_asked: the person wants to.
        branch_asked: another version of the message, by its number, from 1.
        link_asked: a link was chosen; its full address.
        copied: something was copied; what, in words.
    """

    edit_asked = Signal()
    regenerate_asked = Signal()
    go_on_asked = Signal()
    branch_asked = Signal(int)
    link_asked = Signal(str)
    copied = Signal(str)

    def __init__(self, role: Role, *, name: str, formats: Formats) -> None:
        super().__init__()
        self.role = role
        self.name = name
        self._formats = formats
        self._branch = (1, 1)
        self.view = TextView(
            formats, StreamingPlainText() if role != "assistant" else StreamingMarkdown()
        )
        self.provenance = Provenance(self.view, formats.colours)
        self.view.setAccessibleName(f"{name}: message")
        self.setAccessibleName(f"Message by {name}")
        self._title = QLabel(clean(name))
        self._title.setTextFormat(Qt.TextFormat.PlainText)
        self._mark = QLabel()
        self._mark.setTextFormat(Qt.TextFormat.PlainText)
        self._mark.setWordWrap(True)
        self._mark.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._mark.hide()
        self.buttons = self._make_actions()
        self.go_on = HoverButton(
            "Continue", parent=self, font=formats.font, colours=formats.colours
        )
        self.go_on.set_raised()
        self.go_on.setAccessibleName("Continue this answer where it ends")
        self.go_on.clicked.connect(self.go_on_asked)
        self.go_on.hide()
        self._arrange()
        self._show_formats()
        self._wake(False)
        self.view.link_asked.connect(self.link_asked)
        self.view.code_copied.connect(lambda: self.copied.emit("Code copied"))
        for part in (self.view, *self.buttons):
            part.installEventFilter(self)

    @property
    def stops(self) -> tuple[QWidget, ...]:
        """Where Tab stops, in turn."""
        return (*self.buttons, self.view, self.go_on)

    @property
    def written(self) -> str:
        """The text as it was given."""
        return self.view.text.given

    def append(self, delta: str) -> None:
        """More text; shown by `step`."""
        self.view.text.append(delta)

    def step(self) -> bool:
        """A bounded piece of writing; False where nothing is left to write."""
        return self.view.step()

    def refresh(self) -> None:
        """Put on the text what lies over it. For after some steps."""
        self.view.place_buttons()
        self.provenance.refresh()

    def end(self, ending: Ending) -> None:
        """No more text comes."""
        self.view.text.finish()
        self._mark.setText(ending.text)
        self._mark.setAccessibleName(ending.text)
        self._mark.setVisible(bool(ending.text))
        cut = self.role == "assistant" and ending.state != "complete" and self.written != ""
        self.go_on.setVisible(cut)

    def set_branches(self, number: int, count: int) -> None:
        """This is version `number` of `count`."""
        self._branch = (number, count)
        several = count > 1
        for button in (self._back, self._forth):
            button.setVisible(several)
        self._versions.setVisible(several)
        self._versions.setText(f"{number}/{count}")
        self._versions.setAccessibleName(f"Version {number} of {count}")
        self._back.setEnabled(number > 1)
        self._forth.setEnabled(number < count)

    def set_formats(self, formats: Formats) -> None:
        """Other colours or another font; the text follows by the next steps."""
        self._formats = formats
        self.provenance.set_colours(formats.colours)
        self.view.set_formats(formats)
        for button in (*self.buttons, self.go_on):
            button.set_appearance(formats.font, formats.colours)
        self._show_formats()
        self.update()

    def copy(self) -> None:
        """Put the text, as it was written, on the clipboard; not the reasoning before it."""
        QGuiApplication.clipboard().setText(clean(self.view.text.answer))
        self.copied.emit("Message copied")

    def enterEvent(self, event: QEnterEvent) -> None:
        self._wake(True)

    def leaveEvent(self, event: QEvent) -> None:
        self._wake(False)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.FocusIn:
            self._wake(True)
        elif event.type() == QEvent.Type.FocusOut:
            self._wake(self.underMouse())
        return super().eventFilter(watched, event)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.role != "assistant":
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self._formats.colours.own))
            painter.drawRoundedRect(self.rect().toRectF(), 10, 10)

    def _make_actions(self) -> list[HoverButton]:
        def make(text: str, name: str, act: Callable[[], None]) -> HoverButton:
            button = HoverButton(
                text, parent=self, font=self._formats.font, colours=self._formats.colours
            )
            button.setAccessibleName(name)
            button.clicked.connect(act)
            return button

        self._back = make("\u2039", "Version before", lambda: self._turn(-1))
        self._forth = make("\u203a", "Version after", lambda: self._turn(1))
        self._versions = QLabel()
        self._versions.setTextFormat(Qt.TextFormat.PlainText)
        copy = make("Copy", f"Copy the message by {self.name}", self.copy)
        if self.role != "assistant":
            more = make("Edit", "Edit this message and send it again", self.edit_asked.emit)
        else:
            more = make("Regenerate", "Write this answer again", self.regenerate_asked.emit)
        self.set_branches(1, 1)
        return [self._back, self._forth, copy, more]

    def _arrange(self) -> None:
        header = QHBoxLayout()
        header.setSpacing(2)
        header.addWidget(self._title)
        header.addStretch(1)
        header.addWidget(self._back)
        header.addWidget(self._versions)
        header.addWidget(self._forth)
        header.addSpacing(6)
        for button in self.buttons[2:]:
            header.addWidget(button)
        column = QVBoxLayout(self)
        person = self.role != "assistant"
        column.setContentsMargins(*((14, 6, 8, 12) if person else (14, 4, 8, 8)))
        column.setSpacing(4)
        column.addLayout(header)
        column.addWidget(self.view)
        ending = QHBoxLayout()
        ending.setSpacing(10)
        ending.addWidget(self._mark, 1)
        ending.addWidget(self.go_on, 0, Qt.AlignmentFlag.AlignTop)
        column.addLayout(ending)

    def _show_formats(self) -> None:
        colours = self._formats.colours
        small = self._formats.font.__class__(self._formats.font)
        small.setPointSizeF(small.pointSizeF() * 0.9)
        for label, colour in (
            (self._title, colours.muted),
            (self._versions, colours.muted),
            (self._mark, colours.warning),
        ):
            label.setFont(small)
            palette = label.palette()
            palette.setColor(palette.ColorRole.WindowText, QColor(colour))
            label.setPalette(palette)
        bold = small.__class__(small)
        bold.setBold(True)
        self._title.setFont(bold)

    def _turn(self, by: int) -> None:
        self.branch_asked.emit(self._branch[0] + by)

    def _wake(self, awake: bool) -> None:
        for button in self.buttons:
            button.set_awake(awake or button in (self._back, self._forth))
