"""The composer: the user writes and sends messages here, and stops answers.

Knows whether a message can be sent now; not who answers, nor where unsent text is kept. Others
count the tokens.
"""

import sys
from itertools import pairwise

from PySide6.QtCore import QEvent, QObject, QPoint, QRectF, QSize, Qt, Signal, SignalInstance
from PySide6.QtGui import (
    QColor,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QLabel,
    QMenu,
    QPushButton,
    QWidget,
)

from app.chat.menu_buttons import ThinkingButton, ToolsButton
from app.chat.prompt_edit import CTRL_ENTER, PromptEdit
from app.chat.prompts import PromptList
from app.chat.queued_messages import QueuedMessages
from app.documents.chips import ChipsArea, DocumentChips
from app.layout import FREE, column_of, menu_on, row_of
from app.notices import announce
from app.theme.icons import Sign, draw_behind, draw_sign
from app.theme.labels import ElidedLabel, Tone, plain_label, set_tone
from app.theme.style import colours_of, scaled_font

_NEARLY_FULL = 0.9  # of the context
_RADIUS = 14.0


class Composer(QWidget):
    """A text field, with the attached documents above it. Below it are the reason why nothing can
    be sent and how full the context is.

    Attributes: `field`, the text field; `documents`, the chips; `prompts`, the saved prompts that a
    slash lists; `queued`, the messages that wait for the end of an answer; `thinking` and `tools`,
    the buttons for how the model thinks and its tools; `drop_hint`, shown over the composer while
    files are dragged; `answering`, whether an answer is being written;
    `blocked`, why no message can be sent, or empty; `unready`, why the documents cannot be sent,
    or empty; `queues`, whether a message can
    wait for the end of an answer; `excess`, the tokens that the message has too many for the
    context.

    Signals:
        sent(str): send this message. The field is empty already, and `changed` follows.
        to_queue(str): the same, when the answer that is being written has ended.
        stopped: stop the answer (the button, or Esc).
        answer_now_asked: end the reasoning, so that the answer begins.
        changed(str): the unsent text. Not sent for `set_text`.
        remedy_asked: carry out the remedy that is shown.
        text_attach_asked: attach the text, which is too long for a message, as a document.
        attach_asked, folder_asked: ask which files, or which folder, to attach.
        screenshot_asked: let the user choose a part of the screen, to be attached.
        files_given(list[Path]): attach these; they were dropped or pasted.
    """

    sent = Signal(str)
    to_queue = Signal(str)
    stopped = Signal()
    answer_now_asked = Signal()
    changed = Signal(str)
    remedy_asked = Signal()
    text_attach_asked = Signal()
    attach_asked = Signal()
    folder_asked = Signal()
    screenshot_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.answering, self.queues, self._temporary = False, True, False
        self.blocked = self.unready = self._blocking_remedy = ""
        self.excess = 0
        self._attachable = False  # whether it would fit without its text
        self._quiet = False  # while `set_text` runs
        self._warned = False
        self.field = PromptEdit()
        self.files_given = self.field.files_given
        self.field.setAccessibleName("Message")
        self.documents = DocumentChips(removal="Remove")
        self.queued, self.prompts = QueuedMessages(), PromptList()
        self._notice = _line("warning")
        self._notice.setWordWrap(True)
        self._remedy = QPushButton()
        self._tokens = ElidedLabel(Qt.TextElideMode.ElideRight, least=60)
        self._attach = SignButton("attach")
        self._attach.setAccessibleName("Attach files or a folder")
        self._attach.setToolTip("Attach files or a folder, or drop them here")
        self.thinking, self.tools = ThinkingButton(), ToolsButton()
        self._answer_now = QPushButton("Answer now")
        self._answer_now.setToolTip("Stop thinking and answer")
        self._answer_now.hide()
        self._button = RoundButton()
        self._arrange()
        self.drop_hint = DropHint(self)
        self.setAccessibleName("Composer")
        self.setFocusProxy(self.field)
        chain = (self.queued, self.documents, self.field, self._remedy, self._answer_now)
        for before, after in pairwise(
            (*chain, self._button, self._attach, self.thinking, self.tools)
        ):
            self.setTabOrder(before, after)
        self.field.installEventFilter(self)
        self.field.submitted.connect(self.send)
        self.field.refused.connect(self._notify)
        self._attach.clicked.connect(self._ask_what_to_attach)
        self.field.textChanged.connect(self._on_change)
        self.prompts.chosen.connect(self.field.replace_text)
        self.field.files_held.connect(self.show_drop)
        self._button.clicked.connect(self._press)
        self._answer_now.clicked.connect(self._press_answer_now)
        self._remedy.clicked.connect(self._press_remedy)
        self._recolour()
        self.set_enter_sends(True)

    def _arrange(self) -> None:
        said = row_of((self._notice, 1), self._remedy, gap=10)
        left = (self._attach, self.thinking, self.tools)
        below = row_of(*left, FREE, self._tokens, self._answer_now, self._button, gap=10)
        above = (self.prompts, self.queued, ChipsArea(self.documents))
        parts = (*above, self.field, said, below)
        column_of(*parts, on=self, margins=(16, 12, 10, 10), gap=4)

    @property
    def text(self) -> str:
        """The unsent text."""
        return self.field.text()

    def set_enter_sends(self, on: bool) -> None:
        """Choose whether Enter sends. If not, it starts a line, and `CTRL_ENTER` sends."""
        self.field.enter_sends = on
        keys = "Enter sends. Shift+Enter starts a new line."
        self.field.setAccessibleDescription(keys if on else f"{CTRL_ENTER} sends.")
        self._refresh()

    def set_text(self, text: str, version_of: int = 0) -> None:
        """Show the unsent text of another conversation; of another version of this message."""
        self._quiet = True
        self.field.set_text(text, version_of)
        self._quiet = False
        self._notify("")

    def set_temporary(self, on: bool) -> None:
        """Show whether the conversation is only in memory."""
        self._temporary = on
        self.setProperty("remembers", not on)  # whether a file dialog remembers its folder
        self._refresh()

    def set_answering(self, answering: bool) -> None:
        """Set whether an answer is being written. If so, it can be stopped, and messages are
        queued."""
        self.answering = answering
        self._notify("")

    def set_reasoning(self, reasoning: bool) -> None:
        """Set whether the answer that is being written still reasons, so that it can be asked to
        answer now."""
        if self._answer_now.isVisibleTo(self) and not reasoning and self._answer_now.hasFocus():
            self.field.setFocus()
        self._answer_now.setVisible(reasoning)

    def set_blocked(self, reason: str, *, remedy: str = "") -> None:
        """Show why no message can be sent now, and a button with the remedy.

        The user can still write. With an empty `reason`, messages can be sent again.
        """
        self.blocked = reason
        self._blocking_remedy = remedy
        self._notify("")

    def set_unready(self, reason: str) -> None:
        """Show why the documents cannot be sent. Empty if they can."""
        if reason != self.unready:
            self.unready = reason
            self._notify("")

    def set_excess(self, tokens: int, *, attachable: bool) -> None:
        """Set how many tokens the message has too many, and whether attaching its text helps."""
        if (tokens, attachable) != (self.excess, self._attachable):
            self.excess, self._attachable = tokens, attachable
            self._notify("")

    @property
    def _too_long(self) -> str:
        if not self.excess:
            return ""
        plural = "" if self.excess == 1 else "s"
        return f"{self.excess:,} token{plural} over the model’s context limit."

    def set_tokens(self, used: int | None, limit: int | None, *, leaves_out: bool = False) -> None:
        """Show the tokens of the conversation with this message, and the limit.

        `used` is None while it is not known, `limit` while no model is loaded. If the model
        `leaves_out` earlier messages, a conversation beyond the limit gives no warning. Call
        `set_excess` first.
        """
        full = used is not None and limit is not None and used > limit
        near = used is not None and limit is not None and used > _NEARLY_FULL * limit
        near = near and not leaves_out
        self._warned = near
        if used is None or limit is None:
            text = "" if used is None else f"{used:,} tokens"
        elif full and leaves_out and not self.excess:
            text = f"{used:,} of {limit:,} tokens: earlier messages are left out"
        elif full and not leaves_out:
            text = f"\u26a0 {used:,} of {limit:,} tokens: {used - limit:,} too many"
        elif near:
            text = f"\u26a0 {used:,} of {limit:,} tokens: nearly full"
        else:
            text = f"{used:,} of {limit:,} tokens"
        self._tokens.setText(text)
        self._tokens.setVisible(bool(text))
        self._tokens.setToolTip(
            "The conversation is too long. Shorten the message or start a new conversation."
            if full and not leaves_out
            else "Tokens used by the conversation and this message"
        )
        self._recolour()

    def send(self) -> None:
        """Send the text, or queue it while an answer is written; or show why that is impossible."""
        if self.excess and self.text.strip():
            self._notify(self._too_long)
        elif self.answering and self.queues and self.text.strip():
            self._give(self.to_queue)
        else:
            self._send()

    def _send(self) -> None:
        if not self.text.strip():
            return
        if self.answering and self.field.version_of:
            self._notify("An edited message cannot be queued. Stop the answer, or send it later.")
        elif self.answering:
            self._notify("Attachments cannot be queued. Stop the answer (Esc), or send them later.")
        elif self.blocked:
            announce(self, self.blocked)
            if self._remedy.isVisible():
                self._remedy.setFocus(Qt.FocusReason.OtherFocusReason)
        elif self.unready == self.documents.remark != "":
            announce(self, self.unready)
        elif self.unready:
            self._notify(self.unready)
        else:
            self._give(self.sent)

    def _give(self, signal: SignalInstance) -> None:
        """Empty the field, and send its text with this signal."""
        text = self.text
        self.set_text("")
        signal.emit(text)
        self.changed.emit("")

    def show_drop(self, on: bool) -> None:
        """Show or hide the hint that the files held over the window can be dropped."""
        self.drop_hint.setGeometry(self.rect())
        self.drop_hint.raise_()
        self.drop_hint.setVisible(on)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.answering and not self.field.version_of:
            self.stopped.emit()
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.field.setFocus(Qt.FocusReason.MouseFocusReason)  # all of the card belongs to the field

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self.update()  # the edge of the card shows the focus
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            return self.prompts.take_key(event)
        return super().eventFilter(watched, event)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange):
            self._recolour()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setBrush(QColor(colours.paper))
            focused = self.field.hasFocus()
            style = Qt.PenStyle.DashLine if self._temporary else Qt.PenStyle.SolidLine
            painter.setPen(QPen(QColor(colours.link if focused else colours.bar), 1, style))
            box = self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5)
            painter.drawRoundedRect(box, _RADIUS, _RADIUS)

    def attach_menu(self) -> QMenu:
        """Return the menu of the attach button."""
        menu = menu_on(self)
        menu.addAction("Files…", self.attach_asked.emit)
        menu.addAction("A folder…", self.folder_asked.emit)
        if sys.platform == "darwin":
            menu.addAction("Part of the screen…", self.screenshot_asked.emit)
        return menu

    def _ask_what_to_attach(self) -> None:
        menu = self.attach_menu()
        menu.popup(self._attach.mapToGlobal(QPoint(0, -menu.sizeHint().height())))

    def _press_remedy(self) -> None:
        (self.remedy_asked if self.blocked else self.text_attach_asked).emit()

    def _press(self) -> None:
        if self.answering:
            self.stopped.emit()
        else:
            self.send()
        self.field.setFocus()

    def _press_answer_now(self) -> None:
        self.answer_now_asked.emit()
        self.field.setFocus()

    def _on_change(self) -> None:
        if not self.field.text().strip():
            self.excess = 0
        if self._notice.text() != (self.blocked or self._too_long):
            self._notify("")  # it was about the text before
        self.prompts.look("" if self._quiet or self.field.version_of else self.text)
        self._refresh()
        if not self._quiet:
            self.changed.emit(self.text)

    def _notify(self, line: str) -> None:
        """Show a line until the text changes. If empty, show why nothing can be sent."""
        self._notice.setText(line or self.blocked or self._too_long)
        if line:
            announce(self, line)
        self._refresh()

    def _refresh(self) -> None:
        empty = self.field.document().isEmpty()
        blocked = bool(self.blocked or self.excess)
        attaches = "Attach as a document" if self._attachable else ""
        self._remedy.setText(self._blocking_remedy if self.blocked else attaches)
        self._notice.setVisible(bool(self._notice.text()))
        self._remedy.setVisible(blocked and bool(self._remedy.text()))
        keys = "Enter" if self.field.enter_sends else CTRL_ENTER
        self._button.show_sign("stop" if self.answering else "send", keys)
        self._button.setEnabled(self.answering or not (empty or blocked))
        asked = "Ask about it" if self.documents.chips else "Write a message"
        asked = "Write a message that is not saved" if self._temporary else asked
        self.field.setPlaceholderText("Write your next message" if self.answering else asked)
        self._recolour()

    def _recolour(self) -> None:
        colours = colours_of(self)
        set_tone(self._tokens, "warning" if self._warned else "muted")
        for part in (self._tokens, self._notice, self.thinking, self.tools, self._answer_now):
            part.setFont(scaled_font(self.font(), 0.9))
        palette = self.field.palette()
        palette.setColor(QPalette.ColorRole.Text, QColor(colours.text))
        palette.setColor(QPalette.ColorRole.PlaceholderText, QColor(colours.muted))
        if palette != self.field.palette():
            self.field.setPalette(palette)
        self.update()


class DropHint(QWidget):
    """Covers the composer while files are held over the window."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)  # and drops
        self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setBrush(QColor(colours.paper))
            painter.setPen(QPen(QColor(colours.link), 2))
            box = self.rect().toRectF().adjusted(1, 1, -1, -1)
            painter.drawRoundedRect(box, _RADIUS, _RADIUS)
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, "Drop to attach")


class SignButton(QAbstractButton):
    """A button that shows a sign without a background."""

    def __init__(self, sign: Sign) -> None:
        super().__init__()
        self._sign: Sign = sign
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFixedSize(self.sizeHint())

    def sizeHint(self) -> QSize:
        return QSize(32, 32)

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, box = colours_of(self), self.rect().toRectF().adjusted(2, 2, -2, -2)
        with QPainter(self) as painter:
            ink = draw_behind(painter, self, box, colours)
            middle = QRectF(0, 0, 18, 18)
            middle.moveCenter(box.center())
            draw_sign(painter, self._sign, middle, ink)


class RoundButton(SignButton):
    """A round button with a sign, to send or to stop."""

    def __init__(self) -> None:
        super().__init__("send")

    def show_sign(self, sign: Sign, keys: str) -> None:
        """Become the button to send, or the button to stop."""
        self._sign = sign
        stop = sign == "stop"
        self.setAccessibleName("Stop answer" if stop else "Send message")
        self.setToolTip("Stop answer (Esc)" if stop else f"Send ({keys})")
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        box = self.rect().toRectF().adjusted(1.5, 1.5, -1.5, -1.5)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            if self.hasFocus():  # a ring with a gap to the button
                painter.setPen(QColor(colours.link))
                painter.drawEllipse(box)
                box = box.adjusted(2, 2, -2, -2)
            ink = colours.link if self._sign == "send" else colours.text
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(ink if self.isEnabled() else colours.edge))
            if self.isDown():
                painter.setOpacity(0.8)
            painter.drawEllipse(box)
            middle = QRectF(0, 0, 16, 16)
            middle.moveCenter(box.center())
            paper = colours.paper if self.isEnabled() else colours.muted
            draw_sign(painter, self._sign, middle, paper)


def _line(tone: Tone = "muted") -> QLabel:
    label = plain_label(tone=tone)
    label.setContentsMargins(2, 0, 0, 0)  # aligned with the text above
    return label
