"""Explains the colours and figures of the rounds in plain words: in tooltips and in a dialog.

Knows words, colours and lines; no answer.
"""

from PySide6.QtCore import QEvent, QPointF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QFrame,
    QGridLayout,
    QLabel,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.rounds.drawing import PEN_STYLES
from app.rounds.lane import DraftLane
from app.rounds.trace import PieceKind
from app.theme.dialog import Dialog
from app.theme.labels import closing, plain_label
from app.theme.palette import line_of
from app.theme.style import colours_of, set_ink
from engine.conversation.rounds import Round, Token
from engine.events import TokenVerdict, Verdict, WrittenToken

KINDS: dict[PieceKind, str] = {
    "accepted": "The drafter proposed this token, and the target accepted it. Each accepted token "
    "saves a pass of the target.",
    "correction": "The drafter proposed another token here, which the target rejected. This is "
    "the target\u2019s own token in its place.",
    "bonus": "The draft was accepted to its end, and the same pass of the target gave this extra "
    "token.",
    "plain": "The target wrote this token in a pass of its own, without a draft.",
    "forced": "Only this token was allowed here: by a grammar, or to end the thinking. It was "
    "written without a draft, and without a pass of the target.",
    "rejected": "The drafter proposed this token, and the target rejected it. It is not part of "
    "the answer.",
    "discarded": "The drafter proposed this token after one that was rejected, so it was "
    "discarded too, however good it was. It is not part of the answer.",
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
    "speed": "Tokens a second over the whole answer so far. The time for reading the prompt does "
    "not count; the time for other answers that are written meanwhile does.",
    "plain": "How many times as fast this answer was as plain decoding, which writes one token in "
    "each pass. It is compared with plain passes in this answer, or with a few that are measured "
    "right after it, under the same conditions; and it is stored with the answer. It is "
    "never more than the tokens per pass. Where the machine was busier at one time than at the "
    "other, there is no figure.",
    "rate": "The share of the drafted tokens that became part of the answer. Of a tree only one "
    "path can.",
    "length": "How many tokens one pass of the target gave, on average. Plain decoding gives 1. "
    "This includes forced tokens, which take no pass.",
    "draft": "How many tokens the latest draft has, and why. Before each round Slipstream chooses "
    "the drafter and the number of tokens, by the time of passes and drafts on this machine and "
    "by what was accepted so far. 0 is plain decoding. A drafter that does not pay off at the "
    "moment is parked, and tried now and then.",
    "cache": "How much of the prompt was in the cache already, so that it was not read again.",
    "positions": "The share of the drafts with a token at this position of which it was accepted; "
    "in a tree, one of the alternatives there. It falls along a draft, as everything after a "
    "rejected token is discarded. A faint bar stands for fewer than 20 drafts and means little.",
    "time": "The time between the first and the last token: for drafting, for the target\u2019s "
    "passes (verifying), and for everything else, such as other answers that are written at the "
    "same time.",
}
FIGURE_NAMES: dict[str, str] = {
    "speed": "Speed",
    "plain": "Against plain decoding",
    "draft": "Draft length now",
    "rate": "Acceptance rate",
    "length": "Acceptance length",
    "positions": "Acceptance by position (%)",
    "time": "Decoding time",
    "cache": "Prompt cache",
}
_STORY = (
    "Slipstream lets a small drafter propose the next few tokens, and the target, the model whose "
    "answer you read, checks all of them in a single pass. What the target would have written "
    "itself is accepted; the first token that it would not have written is rejected. So the text "
    "is the target\u2019s own, and it comes sooner. One draft and what became of it is a round:"
)
_TREES = (
    "A draft can also be a tree: below each other stand alternatives for the same place, joined by "
    "lines to what comes before them, and at most one path through the tree is accepted:"
)


_AROUND_SWITCH = 7  # pixels next to the words of a switch


def as_tip(text: str) -> str:
    """Return a plain text as a tooltip that breaks its lines."""
    return f"<p>{text}</p>"


class KindWord(QAbstractButton):
    """A kind of tokens in plain words, in its colour and with its line; the tooltip explains it.

    If it is checkable, it is a switch, with a box around it, pale while it is off.
    """

    def __init__(self, kind: PieceKind) -> None:
        super().__init__()
        self._kind: PieceKind = kind
        self.setText(IN_WORDS[kind])
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName(IN_WORDS[kind])
        self.setAccessibleDescription(KINDS[kind])
        self.setToolTip(as_tip(KINDS[kind]))

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
            painter.setPen(QPen(colour, 1.5, PEN_STYLES[line]))
            y = base - metrics.xHeight() / 2 if line.endswith("strike") else base + 3.0
            right = left + metrics.horizontalAdvance(self.text())
            painter.drawLine(QPointF(left, y), QPointF(right, y))


class RoundsExplained(Dialog):
    """\u201cWhat am I looking at?\u201d: a round as a picture, then each kind and each figure."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("What am I looking at?")
        page = QWidget()
        self._muted: list[QLabel] = []
        grid = QGridLayout(page)
        grid.setContentsMargins(20, 16, 20, 12)
        grid.setHorizontalSpacing(18)
        grid.setVerticalSpacing(9)
        grid.setColumnStretch(1, 1)
        for words, sample in ((_STORY, sample_round()), (_TREES, sample_tree())):
            grid.addWidget(plain_label(words, wraps=True), grid.rowCount(), 0, 1, 2)
            lane = DraftLane()
            lane.show_round(sample)
            grid.addWidget(lane, grid.rowCount(), 0, 1, 2)
        top = Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft
        self._add_heading(grid, "Tokens")
        for kind, words in KINDS.items():
            row = grid.rowCount()
            grid.addWidget(KindWord(kind), row, 0, top)
            grid.addWidget(self._explaining(f"{kind.capitalize()}. {words}"), row, 1)
        self._add_heading(grid, "Figures")
        for key, name in FIGURE_NAMES.items():
            row = grid.rowCount()
            grid.addWidget(plain_label(name.removesuffix(" (%)"), wraps=True), row, 0, top)
            grid.addWidget(self._explaining(FIGURES[key]), row, 1)
        grid.setRowStretch(grid.rowCount(), 1)
        scroll = QScrollArea()
        scroll.setAccessibleName(self.windowTitle())
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(page)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 12)
        column.addWidget(scroll)
        row_of_buttons = QVBoxLayout()
        row_of_buttons.setContentsMargins(20, 0, 20, 0)
        row_of_buttons.addWidget(closing(self))
        column.addLayout(row_of_buttons)
        self._recolour()
        self.resize(720, 760)

    def _add_heading(self, grid: QGridLayout, text: str) -> None:
        heading = plain_label(text, wraps=True)
        font = heading.font()
        font.setWeight(QFont.Weight.DemiBold)
        heading.setFont(font)
        heading.setContentsMargins(0, 8, 0, 0)
        grid.addWidget(heading, grid.rowCount(), 0, 1, 2)

    def _explaining(self, text: str) -> QLabel:
        label = plain_label(text, wraps=True)
        self._muted.append(label)
        return label

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._recolour()

    def _recolour(self) -> None:
        for label in self._muted:
            set_ink(label, colours_of(self).muted)


def sample_round() -> Round:
    """Return a round with a token of every fate that a draft can have."""
    drafted = (
        Token(1, " the", "accepted", q=0.92, p=0.97, chance=1.0),
        Token(2, " sky", "accepted", q=0.81, p=0.88, chance=1.0, parent=0),
        Token(3, " was", "rejected", q=0.44, p=0.03, chance=0.07, parent=1),
        Token(4, " blue", "discarded", q=0.63, p=0.71, chance=1.0, parent=2),
    )
    return _sample(1, drafted, WrittenToken(5, " is", 0.95, "correction"))


def sample_tree() -> Round:
    """Return a round of a tree, with a path accepted in the second branch."""
    drafted = (
        Token(1, " light", "rejected", q=0.58, p=0.21, chance=0.36),
        Token(2, " waves", "discarded", q=0.64, p=0.5, chance=0.78, parent=0),
        Token(3, " blue", "accepted", q=0.36, p=0.72, chance=1.0),
        Token(4, " light", "accepted", q=0.71, p=0.93, chance=1.0, parent=2),
        Token(5, " waves", "rejected", q=0.17, p=0.02, chance=0.1, parent=2),
    )
    return _sample(2, drafted, WrittenToken(6, " is", 0.83, "bonus"))


def _sample(number: int, drafted: tuple[Token, ...], own: WrittenToken) -> Round:
    judged = tuple(TokenVerdict(token.p or 0.0, token.chance or 0.0) for token in drafted)
    path = tuple(place for place, token in enumerate(drafted) if token.fate == "accepted")
    parents = tuple(token.parent for token in drafted)
    verdict = Verdict("", number, len(path), judged, own, 0, 0, 0, "", parents=parents, path=path)
    last = Token(own.id, own.text, own.origin, p=own.p)
    return Round(number, "drafter", (*drafted, last), verdict)
