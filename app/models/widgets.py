"""The small widgets of the pages: labels in a few tones, and a thin bar. Knows no models."""

from typing import Literal

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QProgressBar, QSizePolicy

from app.theme.style import colours_of, set_ink
from models.in_words import clean

_PARTS = 1000
Tone = Literal["text", "muted", "good", "warning"]


class ToneLabel(QLabel):
    """Plain text that wraps, in a colour of the theme. Attributes: `words`, the full text."""

    def __init__(
        self, *, tone: Tone = "text", scale: float = 1.0, bold: bool = False, italic: bool = False
    ) -> None:
        super().__init__()
        self._tone: Tone = tone
        self.words = ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        font = QFont(self.font())
        font.setPointSizeF(font.pointSizeF() * scale)
        font.setItalic(italic)
        font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
        self.setFont(font)
        self._recolour()

    def say(self, words: str, tone: Tone | None = None) -> None:
        """Show this text; an empty one takes no room."""
        words = clean(words)
        self._tone = tone or self._tone
        self.setVisible(bool(words))
        if words != self.words:
            self.words = words
            self._fit()
        self._recolour()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._recolour()

    def _fit(self) -> None:
        self.setText(self.words)

    def _recolour(self) -> None:
        colours = colours_of(self)
        ink = {
            "text": colours.text,
            "muted": colours.muted,
            "good": colours.accepted,
            "warning": colours.warning,
        }[self._tone]
        set_ink(self, ink)


class ShortenedLabel(ToneLabel):
    """A label of one line, shortened in the middle or at the end where there is no room.
    The tool tip has the whole text then."""

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
        """Show this text. With a `tip`, that is the tool tip, whether there is room or not."""
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
        self.setToolTip(self._tip or (self.words if shown != self.words else ""))


class ThinBar(QProgressBar):
    """A thin progress bar without a frame; a screen reader finds an ordinary one."""

    def __init__(self, *, ink: Literal["link", "good"] = "link") -> None:
        super().__init__()
        self._ink, self._over = ink, False
        self.setRange(0, _PARTS)
        self.setTextVisible(False)
        self.setFixedHeight(6)

    def show_share(self, share: float | None) -> None:
        """Fill this share, 0 to 1; more than 1 is drawn as a warning. None hides the bar."""
        self.setVisible(share is not None)
        self._over = (share or 0.0) > 1.0
        self.setValue(round(min(1.0, max(0.0, share or 0.0)) * _PARTS))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        ink = colours.link if self._ink == "link" else colours.accepted
        whole = QRectF(self.rect())
        part = QRectF(whole)
        part.setWidth(whole.width() * self.value() / _PARTS)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colours.edge))
            painter.drawRoundedRect(whole, 3, 3)
            if part.width() > 0:
                part.setWidth(max(part.width(), whole.height()))
                painter.setBrush(QColor(colours.warning if self._over else ink))
                painter.drawRoundedRect(part, 3, 3)
