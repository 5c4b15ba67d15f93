"""Labels of plain text: plain, in a tone, shortened to one line, or with a sign."""

from html import escape
from typing import Literal

from PySide6 import QtGui
from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QFont, QIcon, QPainter, QPaintEvent, QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QLabel,
    QSizePolicy,
    QWidget,
)

from app.layout import row_of
from app.theme.icons import Sign, sign_icon
from models.in_words import clean

Tone = Literal["text", "muted", "good", "warning"]

_BETWEEN = " \u00b7 "  # the parts of a line
_ROLES: dict[Tone, QPalette.ColorRole] = {  # of the window's palette: see `Theme`
    "text": QPalette.ColorRole.WindowText,
    "muted": QPalette.ColorRole.PlaceholderText,
    "good": QPalette.ColorRole.LinkVisited,
    "warning": QPalette.ColorRole.BrightText,
}
_SIGNS: dict[Tone, Sign] = {"good": "check", "warning": "warning"}


def plain_tip(text: str) -> str:
    """Return a tooltip that shows this text as it is, also if it looks like HTML."""
    looks_rich = QtGui.Qt.mightBeRichText(text)
    return escape(text).replace("\n", "<br>") if looks_rich else text


def closing(dialog: QDialog) -> QDialogButtonBox:
    """Return the Close button of a dialog, which Esc closes too."""
    # It becomes the dialog's when it is laid out, and so comes after all above it with Tab.
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    buttons.rejected.connect(dialog.reject)
    close = buttons.button(QDialogButtonBox.StandardButton.Close)
    close.setAutoDefault(False)
    close.setIcon(QIcon())  # which the platform's style gives it before it is the window's
    return buttons


def accepting(dialog: QDialog, verb: str) -> QDialogButtonBox:
    """Return the buttons that accept a dialog, with this verb, or cancel it."""
    standard = QDialogButtonBox.StandardButton
    buttons = QDialogButtonBox(standard.Ok | standard.Cancel)
    buttons.button(standard.Ok).setText(verb)
    buttons.accepted.connect(dialog.accept)
    buttons.rejected.connect(dialog.reject)
    return buttons


def set_tone(label: QLabel, tone: Tone) -> None:
    """Write a label in this tone, also after the theme has changed."""
    label.setForegroundRole(_ROLES[tone])


def plain_label(
    text: str = "",
    *,
    tone: Tone = "text",
    wraps: bool = False,
    centred: bool = False,
    selectable: bool = False,
    bold: bool = False,
    buddy: QWidget | None = None,
) -> QLabel:
    """Return a label that never reads HTML in its text. `buddy` is the field that it names."""
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    set_tone(label, tone)
    label.setWordWrap(wraps)
    if centred:
        label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    if selectable:
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if bold:
        font = label.font()
        font.setBold(True)
        label.setFont(font)
    if buddy is not None:
        label.setBuddy(buddy)
    return label


class ToneLabel(QLabel):
    """Plain text that wraps, in a colour of the theme. Attribute: `words`, the whole text."""

    def __init__(
        self, *, tone: Tone = "text", scale: float = 1.0, bold: bool = False, italic: bool = False
    ) -> None:
        super().__init__()
        self.words = ""
        set_tone(self, tone)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self._scale, self._bold, self._italic = scale, bold, italic
        self._follow_font()
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.fontChanged.connect(self._follow_font)  # a size of its own is not inherited

    def say(self, words: str, tone: Tone | None = None) -> None:
        """Show `words` in `tone`, by default in the tone so far. An empty text hides the label."""
        words = clean(words)
        if tone is not None:
            set_tone(self, tone)
        self.setVisible(bool(words))
        if words != self.words:
            self.words = words
            self._fit()

    def _follow_font(self) -> None:
        """Follow the application's font, in a size of its own."""
        font = QFont(QApplication.font())
        font.setPointSizeF(font.pointSizeF() * self._scale)
        font.setItalic(self._italic)
        font.setWeight(QFont.Weight.DemiBold if self._bold else QFont.Weight.Normal)
        self.setFont(font)

    def _fit(self) -> None:
        self.setText(self.words)


class ShortenedLabel(ToneLabel):
    """A text in one line. A long one is shortened, and its tooltip has all of it."""

    def __init__(
        self,
        *,
        tone: Tone = "text",
        scale: float = 1.0,
        bold: bool = False,
        elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        self._elide, self._tip = elide, ""
        super().__init__(tone=tone, scale=scale, bold=bold)
        self.setWordWrap(False)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(40)

    def say(self, words: str, tone: Tone | None = None, *, tip: str = "") -> None:
        """Show `words`. A `tip` becomes the tooltip, also if there is room for all words."""
        self._tip = clean(tip)
        super().say(words, tone)
        self._fit()

    def sizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        return QSize(metrics.horizontalAdvance(self.words) + 2, metrics.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        shown = self.fontMetrics().elidedText(self.words, self._elide, self.width())
        if shown != self.text():
            self.setText(shown)
        self.setToolTip(plain_tip(self._tip or (self.words if shown != self.words else "")))


class ElidedLabel(QLabel):
    """A text in one line that ends in "…" where it is too long. It can shrink to `least`.

    Attribute: `good`, the beginning that is good news, and has its colour.
    """

    def __init__(self, mode: Qt.TextElideMode, *, least: int, tone: Tone = "text") -> None:
        super().__init__()
        self.setTextFormat(Qt.TextFormat.PlainText)
        set_tone(self, tone)
        self._mode, self._least, self.good = mode, least, ""
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)

    def minimumSizeHint(self) -> QSize:
        return QSize(min(self._least, self.sizeHint().width()), self.sizeHint().height())

    def shown(self, width: int) -> str:
        """Return the text as it is painted in this many pixels."""
        return self.fontMetrics().elidedText(self.text(), self._mode, width)

    def paintEvent(self, event: QPaintEvent) -> None:
        room = self.contentsRect()
        with QPainter(self) as painter:
            shown = self.shown(room.width())
            end = len(self.good) if shown.startswith(self.good) else len(shown)
            good, usual = _ROLES["good"], self.foregroundRole()
            for text, role in ((shown[:end], good), (shown[end:], usual)):
                painter.setPen(self.palette().color(role))
                painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, f"\u2068{text}\u2069")
                room.setLeft(room.left() + painter.fontMetrics().horizontalAdvance(text))


class PartsLabel(ElidedLabel):
    """Parts in one line with a dot between them, the chief one first. A narrow label leaves out
    the last ones."""

    def __init__(self) -> None:
        super().__init__(Qt.TextElideMode.ElideRight, least=60, tone="muted")
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def shown(self, width: int) -> str:
        """Return as many parts as have room. The first one is shortened if it has none."""
        words, metrics = self.text(), self.fontMetrics()
        while (shown := metrics.elidedText(words, self._mode, width)) != words:
            if _BETWEEN not in words:
                break
            words = words.rpartition(_BETWEEN)[0]
        return shown


class StatusLine(QWidget):
    """A sign for "good" and "warning", and a text. If it does not wrap, a long text ends with "…".

    Attributes: `tone`, `text`.
    """

    def __init__(
        self, parent: QWidget | None = None, *, wraps: bool = False, strong: bool = False
    ) -> None:
        """The text is muted unless it is `strong` or a warning."""
        super().__init__(parent)
        self.tone: Tone = "muted"
        self._strong = strong
        self.text = ""
        self._sign, self._words = plain_label(), plain_label(wraps=True, selectable=True)
        if not wraps:
            self._words = ElidedLabel(Qt.TextElideMode.ElideRight, least=60)
            self._words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        row_of(self._sign, (self._words, 1), on=self, margins=0, gap=6)
        self.say("")

    def say(self, text: str, tone: Tone = "muted") -> None:
        """Show `text`. A screen reader reads "Warning:" in front of a warning."""
        self.tone = tone
        self.text = text
        self._words.setAccessibleName(f"Warning: {text}" if tone == "warning" else text)
        self._words.setText(text)
        self._recolour()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange):
            self._recolour()

    def _recolour(self) -> None:
        usual: Tone = "text" if self._strong else "muted"
        set_tone(self._words, "warning" if self.tone == "warning" else usual)
        sign = _SIGNS.get(self.tone)
        self._sign.setVisible(sign is not None and bool(self.text))
        if sign is not None:
            ink = self.palette().color(_ROLES[self.tone]).name()
            side = self.fontMetrics().ascent() + 2
            icon = sign_icon(sign, ink=ink, faint=ink)
            self._sign.setPixmap(icon.pixmap(QSize(side, side), self.devicePixelRatioF()))
