"""Words on the Library's pages: in one of a few tones, in light and in dark, and shortened where
there is no room. Knows no models."""

from typing import Literal

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPalette, QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from app.markdown.page import neutral
from app.theme.palette import Palette, palette_for

Tone = Literal["text", "muted", "good", "warning"]


class Label(QLabel):
    """Plain text that wraps. Attributes: `words`, all of them, however little is shown."""

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
        """Show these; where there are none, take no room."""
        words = neutral(words)
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
        colours = shown_colours(self)
        ink = {
            "text": colours.text,
            "muted": colours.muted,
            "good": colours.accepted,
            "warning": colours.warning,
        }[self._tone]
        palette = self.palette()
        if palette.color(QPalette.ColorRole.WindowText).name() != ink:
            palette.setColor(QPalette.ColorRole.WindowText, QColor(ink))
            self.setPalette(palette)


class LineLabel(Label):
    """Of one line, shortened in the middle or at the end where there is no room."""

    def __init__(
        self,
        *,
        tone: Tone = "text",
        scale: float = 1.0,
        bold: bool = False,
        elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        self._elide = elide
        super().__init__(tone=tone, scale=scale, bold=bold)
        self.setWordWrap(False)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(40)

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
        self.setToolTip(self.words if shown != self.words else "")


def shown_colours(widget: QWidget) -> Palette:
    """The colours for what a widget stands on."""
    return palette_for(widget.palette().window().color().name())
