"""The rounds panel: the effect of drafting on an answer, in three large figures. The others and
two charts are folded.

Knows figures; computes and measures nothing. The figures are drawn at most ten
times a second, however fast rounds come.
"""

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QWidget

from app.layout import FREE, column_of
from app.rounds import figures
from app.rounds.charts import PositionChart, TimeBar
from app.rounds.explained import FIGURE_NAMES, FIGURES, as_tip
from app.rounds.figures import Figure
from app.steps import timer
from app.theme.labels import ToneLabel, plain_label, set_tone
from app.theme.style import colours_of, figures_font, scaled_font, small_font
from engine.conversation.rounds import Round
from engine.events import Stats

_REFRESH_MS = 100
_LARGE = ("plain", "length", "rate")  # what the user gains, and how
_FOLDED = ("speed", "draft", "cache")


class RoundsPanel(QWidget):
    """Attributes: `stats`, on show; `last`, the last round with a verdict; `more`, the button that
    shows all figures; `remark`, a line about this machine or model that asks for no action.

    Tooltips explain every figure.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.stats = Stats()
        self.last: Round | None = None
        self._ended = True
        self._timer = timer(self, _REFRESH_MS, self.refresh)
        self._figures = {key: FigureView(key, large=True) for key in _LARGE}
        self._figures |= {key: FigureView(key) for key in _FOLDED}
        self._positions, self._split = PositionChart(), TimeBar()
        self._titles = [_title("positions"), _title("time")]
        self.more, self._folded = QPushButton(), QWidget()
        self.remark = ToneLabel(tone="muted", scale=0.92)
        self._arrange()
        self._follow_font()
        self.refresh()
        self.setAccessibleName("Rounds")
        self.more.clicked.connect(lambda: self._unfold(self._folded.isHidden()))
        self._unfold(False)

    def _arrange(self) -> None:
        self.more.setFlat(True)
        self.more.setCursor(Qt.CursorShape.PointingHandCursor)
        speed, draft, cache = (self._figures[key] for key in ("speed", "draft", "cache"))
        positions, time = self._titles
        folded = (speed, draft, positions, self._positions, time, self._split, cache)
        column_of(*folded, on=self._folded, margins=0, gap=12)
        large = (self._figures[key] for key in _LARGE)
        more = (self.more, Qt.AlignmentFlag.AlignLeft)
        below = (more, self._folded, self.remark, FREE)
        column_of(*large, *below, on=self, margins=(16, 14, 16, 14), gap=16)
        self.remark.say("")

    def _unfold(self, shown: bool) -> None:
        """Show or hide all figures but the three large ones."""
        self.more.setText("Fewer statistics" if shown else "All statistics")
        self._folded.setVisible(shown)

    def show_stats(self, stats: Stats, last: Round | None = None, *, ended: bool = True) -> None:
        """Show these figures of an answer; `last` is its last round with a verdict. If it has not
        `ended`, they are drawn soon, with the figures that come until then."""
        self.stats, self.last, self._ended = stats, last, ended
        if ended:
            self.refresh()
        elif not self._timer.isActive():
            self._timer.start()

    def refresh(self) -> None:
        """Show the current figures."""
        self._timer.stop()
        stats = self.stats
        shown: dict[str, Figure] = {
            "speed": figures.speed(stats),
            "plain": figures.against_plain(stats, ended=self._ended),
            "rate": figures.guessed(stats),
            "length": figures.acceptance_length(stats),
            "draft": figures.draft_length(self.last),
            "cache": figures.cache_reuse(stats),
        }
        for key, figure in shown.items():
            self._figures[key].show_figure(figure)
        self._positions.show_positions(figures.positions(stats))
        self._split.show_shares(figures.time_split(stats))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._follow_font()

    def _follow_font(self) -> None:
        for title in self._titles:
            title.setFont(small_font(self.font()))

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.fillRect(self.rect(), QColor(colours.paper))


class FigureView(QWidget):
    """A title, a value and a remark. Attributes: `figure`, the one on show; `key`."""

    def __init__(self, key: str, *, large: bool = False) -> None:
        """`key` is the figure's in `app.rounds.explained`. A `large` figure has no title: its
        remark completes its value."""
        super().__init__()
        self.key = key
        self.figure = Figure("")
        self._large = large
        self._title, self._value = _title(key), plain_label()
        self._remark = plain_label(wraps=True, tone="muted")
        self._name = FIGURE_NAMES[key]
        self.setToolTip(as_tip(FIGURES[key]))
        self._title.setVisible(not large)
        self._remark.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self._follow_font()
        column_of(self._title, self._value, self._remark, on=self, margins=0, gap=1)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)

    def show_figure(self, figure: Figure) -> None:
        """Show this figure, if it is not on show already."""
        if figure == self.figure:
            return
        self.figure = figure
        self._value.setText(figure.value)
        missing = figure.value == figures.NOT_YET  # a dash that says where it will be
        set_tone(self._value, "muted" if missing else "text")
        self._remark.setText(figure.remark)
        self.setAccessibleName(self._name)
        remark = figure.remark.replace("\n", ", ")
        self.setAccessibleDescription(f"{figure.value}, {remark}")

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._follow_font()

    def _follow_font(self) -> None:
        self._title.setFont(small_font(self.font()))
        scale = 1.0 if self._large else 0.85
        self._remark.setFont(figures_font(small_font(self.font(), scale=scale)))
        # Its final height from the start, so that nothing below jumps when figures come in.
        self._remark.setMinimumHeight(2 * self._remark.fontMetrics().lineSpacing() + 4)
        large = scaled_font(self.font(), 2.0 if self._large else 1.25, bold=True)
        self._value.setFont(figures_font(large))


def _title(key: str) -> QLabel:
    title = plain_label(FIGURE_NAMES[key], tone="muted")
    title.setToolTip(as_tip(FIGURES[key]))
    return title
