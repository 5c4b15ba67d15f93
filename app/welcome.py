"""Shown before there are messages: what drafting looks like, a few questions to begin with, and the
state of the model. Knows the loaded model."""

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QFrame,
    QGridLayout,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QWidget,
)

from app.layout import FREE, Free, column_of, row_of
from app.models.formatting import target_name
from app.models.loader import ModelLoader
from app.replay.first_page import RecordedLoop, read_recording
from app.theme.labels import ElidedLabel, plain_label
from app.theme.style import Theme, colours_of, motion_is_reduced, scaled_font, zoomed
from app.theme.widgets import Card
from engine.process.protocol import Loaded
from models import in_words
from models.errors import Problem

# Questions whose answers have lists, code and copied text, which are easy to draft.
EXAMPLES = (
    ("A list", "Give me seven tips for learning a new language."),
    ("Some code", "Write a Python function that says whether a number is prime."),
    ("An explanation", "Why do birds sing in the morning?"),
    ("A letter", "Make this a polite e-mail: I cannot come to the meeting on Friday."),
)
_WORDS = "A small model guesses ahead, yours checks. The same answer, sooner."
_WIDEST, _BESIDE = 600, 12  # pixels, at the normal size of the text; next to everything
_LOW, _LOWER = 470, 390  # pixels, without room for the title, and for more than two examples


class Welcome(QScrollArea):
    """Attributes: `examples`, the cards; `loop`, which shows what drafting is.

    Signals:
        asked(str): send this question.
        explanation_asked(): show what the colours and figures mean.
        library_asked(): show the models.
    """

    asked = Signal(str)
    explanation_asked = Signal()
    library_asked = Signal()

    def __init__(self, loader: ModelLoader, theme: Theme) -> None:
        super().__init__()
        self._loader, self._theme = loader, theme
        recording = read_recording()
        self._title = plain_label("Slipstream", wraps=True, centred=True)
        self._words = plain_label(_WORDS, wraps=True, centred=True, tone="muted")
        self._question = plain_label(recording.question, tone="muted")
        self._gain = plain_label(wraps=True, tone="muted")
        self._model = ElidedLabel(Qt.TextElideMode.ElideRight, least=120, tone="muted")
        self.loop = RecordedLoop(recording, still=motion_is_reduced())
        steps = len(recording.replay)
        self._gain.setText(f"A real answer: {recording.tokens} tokens in {steps} steps")
        self._gain.setToolTip(f"Recorded with {in_words.short_model(recording.target)}")
        self._explain, self._library = _link("What am I looking at?"), _link("Library")
        self._stage = Card(radius=10)
        self.examples = tuple(ExampleCard(*each, ask=self.asked.emit) for each in EXAMPLES)
        self._arrange()
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
        below = row_of((self._gain, 1), self._explain)
        column_of(self._question, self.loop, below, on=self._stage, margins=(20, 14, 20, 10), gap=6)
        cards = QGridLayout()
        cards.setSpacing(10)
        for number, card in enumerate(self.examples):
            cards.addWidget(card, number // 2, number % 2)
        model = row_of(FREE, self._model, self._library, FREE)
        self._inner = QWidget()
        parts = (self._title, self._words, 6, self._stage, cards, model)
        column_of(Free(2), *parts, Free(3), on=self._inner, margins=0, gap=10)
        page = QWidget()
        # between stretches a wrapped line gets the height it needs
        row_of(FREE, (self._inner, 100), FREE, on=page)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName("Start")
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # what has the focus is scrolled to
        self.setWidgetResizable(True)
        self.setWidget(page)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        for label in (self._title, self._words):
            label.setVisible(self.height() > _LOW)
        for card in self.examples[2:]:
            card.setVisible(self.height() > _LOWER)
        self._break_words()

    def _break_words(self) -> None:
        """Break the line between its sentences where it has no room, not before its last word."""
        room = min(self._inner.maximumWidth(), self.viewport().width() - 2 * _BESIDE)
        fits = self._words.fontMetrics().horizontalAdvance(_WORDS) < room
        self._words.setText(_WORDS if fits else _WORDS.replace(". ", ".\n"))

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
            self._model.setText("Starting the engine.")

    def _on_fetch(self) -> None:
        name = target_name(self._loader.pair.target)
        what = "Looking for the starter model" if self._loader.starter else f"Importing {name}"
        self._model.setText(f"{what}. You can start writing.")

    def _on_progress(self, done: int, total: int) -> None:
        verb, what = ("Downloading", "the starter model") if self._loader.starter else (
            "Importing", target_name(self._loader.pair.target)
        )  # fmt: skip
        self._model.setText(f"{verb} {what}: {in_words.share(done, total)}. You can start writing.")

    def _on_asked(self) -> None:
        self._model.setText("Loading the model. You can start writing.")

    def _on_loaded(self, loaded: Loaded) -> None:
        name = in_words.short_model(target_name(loaded.target))
        tail = ", a small starter model" if self._loader.starter else ""
        self._model.setText(f"{name}{tail}, is ready." if tail else f"{name} is ready.")

    def _on_rested(self) -> None:
        self._model.setText("The model is unloaded. Your next message reloads it.")

    def _on_failed(self, problem: Problem) -> None:
        if self._loader.loaded is None:
            self._model.setText("No model is loaded.")

    def _follow_theme(self) -> None:
        shown = self._theme.interface_font
        for card in self.examples:
            card.set_font(shown)
        self.loop.setFont(scaled_font(self._theme.font, 1.25))
        self._title.setFont(scaled_font(shown, 2.0, bold=True))
        self._words.setFont(scaled_font(shown, 1.15))
        self._question.setFont(shown)
        for part in (self._gain, self._model, self._explain, self._library):
            part.setFont(scaled_font(shown, 0.92))
        self._inner.setMaximumWidth(zoomed(self._question, _WIDEST))
        self._break_words()


class ExampleCard(QAbstractButton):
    """A card with a title and a question below it."""

    def __init__(self, title: str, question: str, *, ask: Callable[[str], object]) -> None:
        super().__init__()
        self.question = question
        self.setAccessibleName(f"{title}: {question}")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        self._title = plain_label(title)
        self._words = plain_label(question, wraps=True, tone="muted")
        for label in (self._title, self._words):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        column_of(self._title, self._words, FREE, on=self, margins=(12, 10, 12, 10), gap=1)
        self.clicked.connect(lambda: ask(question))

    def set_font(self, font: QFont) -> None:
        """Use this font, and a smaller one for the question."""
        self._title.setFont(scaled_font(font, bold=True))
        self._words.setFont(scaled_font(font, 0.92))

    def sizeHint(self) -> QSize:
        return QSize(240, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(150, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, focused = colours_of(self), self.hasFocus()
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            awake = focused or self.underMouse()
            painter.setBrush(QColor(colours.hover if awake else colours.paper))
            painter.setPen(QColor(colours.link if focused else colours.edge))
            painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)


def _link(text: str) -> QPushButton:
    """Return a button that looks like a link."""
    link = QPushButton(text)
    link.setFlat(True)
    link.setCursor(Qt.CursorShape.PointingHandCursor)
    return link
