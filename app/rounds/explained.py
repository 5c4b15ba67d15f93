"""Explains tokens, rounds and figures in plain words: in tooltips and in a dialog.

Knows words, colours and lines; no answer.
"""

from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QGridLayout,
    QSizePolicy,
    QWidget,
)

from app.layout import column_of, row_of, scrolled
from app.rounds.marks import marked
from app.rounds.trace import PieceKind
from app.theme.dialog import Dialog
from app.theme.labels import closing, plain_label
from app.theme.palette import LineStyle, line_of
from app.theme.style import colours_of, scaled_font
from engine.conversation.rounds import Round

WHY_DISCARDED = "because a token before it was rejected"
WHY_FORCED = "by a grammar, or to end the thinking"
KINDS: dict[PieceKind, str] = {
    "accepted": "The drafter proposed this token, and the target accepted it. Each accepted token "
    "saves a pass of the target.",
    "correction": "The target rejected the drafted token here. This is its own token instead.",
    "bonus": "The target accepted the whole draft. The same pass gave this extra token.",
    "plain": "The target wrote this token in a pass of its own, without a draft.",
    "forced": "A grammar, or the end of the thinking, allowed only this token. It took no draft "
    "and no pass.",
    "rejected": "The drafter proposed this token, and the target rejected it. It is not part of "
    "the answer.",
    "discarded": "The drafter proposed this token after a rejected one, so it was discarded, "
    "however good it was. It is not part of the answer.",
}
IN_WORDS: dict[PieceKind, str] = {
    "accepted": "guessed right",
    "correction": "corrected",
    "bonus": "extra",
    "plain": "not guessed",
    "forced": "forced",
    "rejected": "guessed wrong",
    "discarded": "discarded",
}
FIGURES: dict[str, str] = {
    "speed": "Tokens per second over the answer so far. Reading the prompt does not count; writing "
    "other answers at the same time does.",
    "plain": "How many times as fast this answer was as plain decoding, which writes one token per "
    "pass. It is compared with plain passes in this answer, or with a few that are measured right "
    "after it. If the Mac was busier at one time than at the other, the figure is missing.",
    "rate": "The number of drafted tokens that the target accepted: each saved one of its passes. "
    "The acceptance rate is their share of all drafted tokens. Only one path of a tree can be "
    "accepted.",
    "length": "The average number of tokens from one pass of the target, forced tokens included. "
    "Plain decoding gives 1.",
    "draft": "The number of tokens in the latest draft, and the reason. Before each round "
    "Slipstream chooses the drafter and the number of tokens, by their cost on this machine and by "
    "how many were accepted. 0 is plain decoding.",
    "cache": "The share of the prompt that was cached, and so was not read again.",
    "positions": "How often the token at this position of a draft was accepted. The share falls "
    "along a draft: everything after a rejected token is discarded. A faint bar means fewer "
    "than 20 drafts.",
    "time": "The time between the first and the last token: for drafting, for verifying (the "
    "target\u2019s passes), and for everything else, such as other answers.",
}
FIGURE_NAMES: dict[str, str] = {
    "speed": "Speed",
    "plain": "Against plain decoding",
    "draft": "Draft length now",
    "rate": "Accepted tokens",
    "length": "Acceptance length",
    "positions": "Acceptance by position (%)",
    "time": "Decoding time",
    "cache": "Prompt cache",
}
_STORY = (
    "A small drafter proposes the next few tokens. The target, the model whose answer you read, "
    "checks them all in a single pass: it accepts the tokens that it would have written itself, "
    "and replaces the first other one. So the text is the target\u2019s own, and comes sooner. "
    "A draft and its verdict are a round:"
)
_TREES = (
    "A draft can also be a tree with several tokens for the same place. At most one path through "
    "it is accepted. The tooltip of a token lists its rejected alternatives."
)
SAMPLE: tuple[tuple[str, PieceKind], ...] = (
    ("the", "accepted"),
    ("sky", "accepted"),
    ("was", "rejected"),
    ("blue", "discarded"),
    ("is", "correction"),
)
_PEN_STYLES: dict[LineStyle, Qt.PenStyle] = {
    "solid": Qt.PenStyle.SolidLine,
    "dash": Qt.PenStyle.DashLine,
    "dot": Qt.PenStyle.DotLine,
    "dash dot": Qt.PenStyle.DashDotLine,
    "strike": Qt.PenStyle.SolidLine,
    "dash strike": Qt.PenStyle.DashLine,
    "none": Qt.PenStyle.NoPen,
}
_AROUND_SWITCH = 7  # pixels next to the words of a switch


def describe(round: Round) -> str:
    """Describe a round in a sentence or two."""
    if forced := [marked(token.text) for token in round.tokens if token.fate == "forced"]:
        return f"Round {round.number}: forced {' '.join(forced)}."
    drafted = " ".join(marked(token.text) for token in round.best_path)
    if more := len(round.drafted) - len(round.best_path):
        drafted += f" and {more} more in other branches"
    if round.verdict is None:
        return f"Round {round.number}: {round.drafter} drafts {drafted}."
    counts = f"{round.verdict.accepted} of {len(round.drafted)} accepted"
    draft = f"{drafted}: {counts}" if drafted else "nothing drafted"
    own = f"; {round.own.fate}: {marked(round.own.text)}" if round.own else ""
    return f"Round {round.number}: {draft}{own}."


def as_tip(text: str) -> str:
    """Return a plain text as a tooltip that breaks its lines."""
    return f"<p>{text}</p>"


class KindWord(QAbstractButton):
    """A kind of tokens in plain words, or a token, in its colour and with its line; the tooltip
    explains it.

    If it is checkable, it is a switch, with a box around it, pale while it is off.
    """

    def __init__(self, kind: PieceKind, text: str = "") -> None:
        super().__init__()
        self._kind: PieceKind = kind
        self.setText(text or IN_WORDS[kind])
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName(self.text())
        self.setAccessibleDescription(KINDS[kind])
        self.setToolTip(as_tip(KINDS[kind]))

    def show_count(self, count: int) -> None:
        """Say how many such tokens there are."""
        self.setText(f"{count:,} {IN_WORDS[self._kind]}")
        self.setAccessibleName(self.text())

    def setCheckable(self, checkable: bool) -> None:
        super().setCheckable(checkable)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip(as_tip(f"{KINDS[self._kind]} Click to show or hide them."))

    def sizeHint(self) -> QSize:
        metrics, around = self.fontMetrics(), 2 * self._around
        return QSize(metrics.horizontalAdvance(self.text()) + 2 + around, metrics.height() + 6)

    minimumSizeHint = sizeHint

    @property
    def _around(self) -> int:
        return _AROUND_SWITCH if self.isCheckable() else 0

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        colour, line = QColor(colours.of(self._kind)), line_of(self._kind)
        metrics = self.fontMetrics()
        base, left = metrics.ascent() + 2, 1.0 + self._around
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            if self.isCheckable():
                painter.setPen(QColor(colours.link if self.hasFocus() else colours.edge))
                painter.setBrush(QColor(colours.card if self.isChecked() else colours.paper))
                painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
                colour = colour if self.isChecked() else QColor(colours.muted)
            painter.setPen(colour)
            painter.drawText(QPointF(left, base), self.text())
            painter.setPen(QPen(colour, 1.5, _PEN_STYLES[line]))
            y = base - metrics.xHeight() / 2 if line.endswith("strike") else base + 3.0
            right = left + metrics.horizontalAdvance(self.text())
            painter.drawLine(QPointF(left, y), QPointF(right, y))


class RoundsExplained(Dialog):
    """\u201cWhat am I looking at?\u201d: a round, then each kind and each figure."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("What am I looking at?")
        page = QWidget()
        grid = QGridLayout(page)
        grid.setContentsMargins(20, 16, 20, 12)
        grid.setHorizontalSpacing(18)
        grid.setVerticalSpacing(9)
        grid.setColumnStretch(1, 1)
        self._add(grid, plain_label(_STORY, wraps=True))
        self._add(grid, _sample_round())
        self._add(grid, plain_label(_TREES, wraps=True))
        top = Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft
        self._add_heading(grid, "Tokens")
        for kind, words in KINDS.items():
            row = grid.rowCount()
            grid.addWidget(KindWord(kind), row, 0, top)
            meaning = f"{kind.capitalize()}. {words}"
            grid.addWidget(plain_label(meaning, wraps=True, tone="muted"), row, 1)
        self._add_heading(grid, "Statistics")
        for key, name in FIGURE_NAMES.items():
            row = grid.rowCount()
            grid.addWidget(plain_label(name.removesuffix(" (%)"), wraps=True), row, 0, top)
            grid.addWidget(plain_label(FIGURES[key], wraps=True, tone="muted"), row, 1)
        grid.setRowStretch(grid.rowCount(), 1)
        scroll = scrolled(page, self.windowTitle())
        below = column_of(closing(self), margins=(20, 0, 20, 0))
        column_of(scroll, below, on=self, margins=(0, 0, 0, 12))
        self.resize(720, 760)

    def _add_heading(self, grid: QGridLayout, text: str) -> None:
        heading = plain_label(text, wraps=True)
        heading.setFont(scaled_font(self.font(), bold=True))
        heading.setContentsMargins(0, 8, 0, 0)
        self._add(grid, heading)

    @staticmethod
    def _add(grid: QGridLayout, part: QWidget) -> None:
        grid.addWidget(part, grid.rowCount(), 0, 1, 2)


def _sample_round() -> QWidget:
    """Return a round with a token of every fate that a draft can have."""
    shown = QWidget()
    row = row_of(on=shown, margins=(12, 0, 0, 0))
    for text, kind in SAMPLE:
        word = KindWord(kind, text)
        word.setFont(scaled_font(word.font(), 1.25))
        row.addWidget(word)
    row.addStretch(1)
    return shown
