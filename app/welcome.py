"""Shown before there are messages: what Slipstream does, a few questions to begin with, and the
state of the model. Knows the loaded model."""

from PySide6.QtCore import QEvent, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QEnterEvent, QFont, QFontMetrics, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import (
    QAbstractButton,
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.models.formatting import target_name
from app.models.loader import ModelLoader
from app.theme.labels import plain_label
from app.theme.palette import Palette
from app.theme.style import Theme, set_ink
from engine.process.protocol import Loaded
from models import in_words
from models.errors import Problem

# Questions whose answers have lists, code and copied text, which are easy to draft.
EXAMPLES = (
    ("A list", "Give me seven tips for learning a new language."),
    ("Some code", "Write a Python function that says whether a number is prime."),
    ("An explanation", "Explain in simple words why leaves are green."),
    ("A letter", "Make this a polite e-mail: I cannot come to the meeting on Friday."),
)
_WIDEST = 560  # pixels
_PADDING = 12


class Welcome(QWidget):
    """Attribute: `examples`, the cards.

    Signals:
        asked(str): write this question into the composer.
        explanation_asked(): show what the colours and figures mean.
        library_asked(): show the models.
    """

    asked = Signal(str)
    explanation_asked = Signal()
    library_asked = Signal()

    def __init__(self, loader: ModelLoader, theme: Theme) -> None:
        super().__init__()
        self._loader, self._theme = loader, theme
        labels = [plain_label(wraps=True, centred=True) for _ in range(4)]
        self._title, self._words, self._model, self._meaning = labels
        self._title.setText("Slipstream")
        self._words.setText(
            "A small drafter proposes the next tokens, and the target, the model that you chose, "
            "checks them in one pass. The answer is the target\u2019s own, only faster."
        )
        self._meaning.setText(
            "Accepted, rejected and discarded tokens are the drafter\u2019s; all others are the "
            "target\u2019s own."
        )
        self._explain = QPushButton("What am I looking at?")
        self._explain.setFlat(True)
        self._explain.setCursor(Qt.CursorShape.PointingHandCursor)
        self._library = QPushButton("Models for this machine…")
        self.examples = tuple(ExampleCard(title, question) for title, question in EXAMPLES)
        self._arrange()
        for card in self.examples:
            card.asked.connect(self.asked)
        self._explain.clicked.connect(self.explanation_asked)
        self._library.clicked.connect(self.library_asked)
        self._show_stage()
        loader.fetch_began.connect(self._on_fetch)
        loader.fetch_progress.connect(self._on_progress)
        loader.load_requested.connect(self._on_asked)
        loader.loaded_now.connect(self._on_loaded)
        loader.rested.connect(self._on_rested)
        loader.failed.connect(self._on_failed)
        theme.changed.connect(self._follow_theme)
        self._follow_theme()

    def _arrange(self) -> None:
        cards = QGridLayout()
        cards.setSpacing(10)
        for number, card in enumerate(self.examples):
            cards.addWidget(card, number // 2, number % 2)
        links = QHBoxLayout()
        links.setSpacing(12)
        links.addStretch(1)
        links.addWidget(self._library)
        links.addWidget(self._explain)
        links.addStretch(1)
        column = QVBoxLayout()
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(10)
        column.addStretch(2)
        column.addWidget(self._title)
        column.addWidget(self._words)
        column.addSpacing(4)
        column.addLayout(cards)
        column.addSpacing(4)
        column.addWidget(self._meaning)
        column.addSpacing(4)
        column.addWidget(self._model)
        column.addLayout(links)
        column.addStretch(3)
        inner = QWidget()
        inner.setMaximumWidth(_WIDEST)
        inner.setLayout(column)
        row = QHBoxLayout(self)  # between stretches a wrapped line gets the height it needs
        row.addStretch(1)
        row.addWidget(inner, 100)
        row.addStretch(1)

    def _show_stage(self) -> None:
        """Show the state of the model, for a window that is opened later."""
        loader = self._loader
        if loader.loaded is not None:
            self._on_loaded(loader.loaded)
        elif loader.problem is not None:
            self._on_failed(loader.problem)
        elif loader.resting:
            self._on_rested()
        elif loader.fetching:
            self._on_fetch()
        else:
            self._model.setText("The engine is being started.")

    def _on_fetch(self) -> None:
        self._model.setText("Looking for the starter model. You can write meanwhile.")

    def _on_progress(self, done: int, total: int) -> None:
        verb, what = ("Downloading", "the starter model") if self._loader.starter else (
            "Importing", target_name(self._loader.pair.target)
        )  # fmt: skip
        self._model.setText(
            f"{verb} {what}: {in_words.share(done, total)}. You can write meanwhile."
        )

    def _on_asked(self) -> None:
        self._model.setText("Loading the model. You can write meanwhile.")

    def _on_loaded(self, loaded: Loaded) -> None:
        self._model.setText(f"{target_name(loaded.target)} is ready, {loaded.precision}.")

    def _on_rested(self) -> None:
        self._model.setText("The model is unloaded. The next message loads it again.")

    def _on_failed(self, problem: Problem) -> None:
        if self._loader.loaded is None:
            self._model.setText("There is no model yet.")

    def _follow_theme(self) -> None:
        shown, colours = self._theme.font, self._theme.colours
        for card in self.examples:
            card.set_appearance(shown, colours)
        for label, scale, colour in (
            (self._title, 2.0, colours.text),
            (self._words, 1.0, colours.text),
            (self._meaning, 0.92, colours.muted),
            (self._model, 0.92, colours.muted),
        ):
            label.setFont(_scaled(shown, scale, bold=scale > 1))
            set_ink(label, colour)
        self._explain.setFont(_scaled(shown, 0.92))
        palette = self._explain.palette()
        palette.setColor(QPalette.ColorRole.ButtonText, QColor(colours.link))
        self._explain.setPalette(palette)


class ExampleCard(QAbstractButton):
    """A card with a title and a question below it.

    Signals: `asked(str)`: ask this question.
    """

    asked = Signal(str)

    def __init__(self, title: str, question: str) -> None:
        super().__init__()
        self.question = question
        self._title, self._near = title, False
        self.setText(question)
        self.setAccessibleName(f"{title}: {question}")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.clicked.connect(lambda: self.asked.emit(self.question))

    def set_appearance(self, font: QFont, colours: Palette) -> None:
        """Use these colours and this font."""
        self._colours = colours
        self.setFont(font)
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        line = self.fontMetrics().lineSpacing()
        return QSize(240, 3 * line + 2 * _PADDING)  # the title, and the question in two lines

    def heightForWidth(self, width: int) -> int:
        room = QRect(0, 0, width - 2 * _PADDING, 0)
        wrapped = QFontMetrics(_scaled(self.font(), 0.92)).boundingRect(
            room, int(Qt.TextFlag.TextWordWrap), self.question
        )
        title = QFontMetrics(_scaled(self.font(), 1.0, bold=True)).lineSpacing() + 1
        needed = title + wrapped.height() + 2 * (_PADDING - 2)
        return max(needed, self.sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(150, self.sizeHint().height())

    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self._near = True
        self.update()

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._near = False
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = self._colours
        awake = self._near or self.hasFocus()
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setBrush(QColor(colours.hover if awake else colours.card))
            painter.setPen(QColor(colours.link if self.hasFocus() else colours.edge))
            painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
            inside = self.rect().adjusted(_PADDING, _PADDING - 2, -_PADDING, -_PADDING + 2)
            painter.setFont(_scaled(self.font(), 1.0, bold=True))
            painter.setPen(QColor(colours.text))
            painter.drawText(inside, Qt.AlignmentFlag.AlignTop, self._title)
            below = QRect(inside)
            below.setTop(inside.top() + painter.fontMetrics().lineSpacing() + 1)
            painter.setFont(_scaled(self.font(), 0.92))
            painter.setPen(QColor(colours.muted))
            flags = int(Qt.AlignmentFlag.AlignTop) | int(Qt.TextFlag.TextWordWrap)
            painter.drawText(below, flags, self.question)


def _scaled(font: QFont, scale: float, *, bold: bool = False) -> QFont:
    scaled = QFont(font)
    scaled.setPointSizeF(font.pointSizeF() * scale)
    scaled.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
    return scaled
