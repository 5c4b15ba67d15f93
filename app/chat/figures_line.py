"""The line under an answer that says what it took: one line, cut where there is no room.

Knows how figures are said in words; not where they come from.
"""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.conversations.answer_figures import AnswerFigures
from app.markdown.formats import Formats
from app.rounds.figures import seconds
from app.theme.style import figures_font, small_font


class FiguresLine(QWidget):
    """Attributes: `text`, all of it."""

    def __init__(self, formats: Formats) -> None:
        super().__init__()
        self.text = ""
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.set_formats(formats)

    def say(self, text: str) -> None:
        """Show another text."""
        self.text = text
        self.setAccessibleName(text)
        self.update()

    def set_formats(self, formats: Formats) -> None:
        """Other colours or another font."""
        self._colours = formats.colours
        self.setFont(figures_font(small_font(formats.font, scale=0.9)))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(60, self.fontMetrics().height() + 6)

    minimumSizeHint = sizeHint

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(QColor(self._colours.muted))
        shown = self.fontMetrics().elidedText(
            self.text, Qt.TextElideMode.ElideRight, self.width() - 8
        )
        side = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(self.rect(), side, shown)


def in_words(figures: AnswerFigures, *, complete: bool, target: str) -> str:
    """The figures of an answer, and who wrote it. How one ended that is not complete is said in a
    line of its own."""
    found = [f"{figures.tokens:,} token{'' if figures.tokens == 1 else 's'}"]
    if (speed := figures.tokens_per_second) is not None:
        found.append(f"{speed:.1f} tokens/s")
    if figures.first_token_seconds is not None:
        found.append(f"first after {seconds(figures.first_token_seconds)}")
    if complete and figures.stop_reason == "end":
        found.append("ended by the model")
    elif complete and figures.stop_reason == "stop string":
        found.append("ended at a stop sequence")
    return " \u00b7 ".join((*found, target))
