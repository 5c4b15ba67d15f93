"""A message of the transcript, whose widget exists only near the part in sight.

Holds all that the widget shows, so that it can be removed and built again. Knows its height in the
page; not its neighbours.
"""

import math
from collections.abc import Callable
from datetime import datetime

from PySide6.QtGui import QFontMetricsF

from app.chat.approval_card import Approval
from app.chat.message import Ending, MessageWidget
from app.conversations.answer_figures import AnswerFigures
from app.documents.answer_words import AnswerWords
from app.documents.chips import Chip
from app.markdown.asides import Aside
from app.markdown.formats import Formats
from app.markdown.view import TextMark, TextView
from app.rounds.trace import Piece, PieceKind, TextTally
from engine.conversation.rounds import Round
from engine.request import Role
from engine.stretches import Stretch, said

_AROUND, _AROUND_ANSWER = 40, 66  # pixels of a message next to its text, about
_AROUND_DOCUMENT, _AROUND_PICTURE = 34, 144  # of each of its documents
_ASIDE = 32  # of each of its asides


class MessageRow:
    """Attributes: `role`, `name`, `model`, `created`; `ending`, None while it is written; `branch`,
    the version's number and the number of versions; `figures`; `stretches`, of its text;
    `asides`, in its text; `approval`, a call that the user is asked about; `pieces`, the
    tokens, if known; `reasoning`, its tokens and time, if known; `note`, a line below it;
    `marks`, the hits of a search; `documents` of a question; `words` of an answer that
    documents have or lack, and `marked`, whether they are marked;
    `fades_after` and `calm`, see `mark_newest`; `hidden`, the kinds of tokens that are not
    shown, None as usual; `ahead`, what stands after the text while it is written.

    `widget` is None while it is not built. `top` and `height` are its place in the page, and
    `measured` is False while `height` is an estimate.
    """

    def __init__(
        self,
        role: Role,
        *,
        name: str,
        model: str,
        created: datetime | None,
        build: Callable[["MessageRow"], MessageWidget],
    ) -> None:
        """`build` builds the widget at once, when it is needed."""
        self.role, self.name, self.model, self.created = role, name, model, created
        self.ending: Ending | None = None
        self.branch = (1, 1)
        self.figures: AnswerFigures | None = None
        self.note = ""
        self.pieces: tuple[Piece, ...] | None = None
        self.stretches: tuple[Stretch, ...] = ()
        self.asides: tuple[Aside, ...] = ()
        self.approval: Approval | None = None
        self.reasoning: TextTally | None = None
        self.marks: tuple[TextMark, ...] = ()
        self.documents: tuple[Chip, ...] = ()
        self.words = AnswerWords()
        self.provenance = self.marked = self.calm = False
        self.fades_after = 0.0
        self.hidden: frozenset[PieceKind] | None = None
        self.ahead: Round | str | None = None
        self._share: float | None = None
        self.widget: MessageWidget | None = None
        self.top = self.height = 0
        self.measured = False
        self._build = build
        self._parts: list[str] = []
        self._estimate = (0, 0.0, 0)  # its width, its font's height, and the result

    @property
    def written(self) -> str:
        """The text as it was given."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    @property
    def view(self) -> TextView:
        """The text on the screen. Builds the widget."""
        return (self.widget or self._build(self)).view

    @property
    def bottom(self) -> int:
        """The first line of pixels below it."""
        return self.top + self.height

    @property
    def held(self) -> bool:
        """Whether it has the focus or a selection, so that its widget must stay."""
        if self.widget is None:
            return False
        return self.has_focus or self.widget.view.textCursor().hasSelection()

    @property
    def has_focus(self) -> bool:
        """Whether its text, or a button of it, has the focus of its window."""
        focus = None if self.widget is None else self.widget.window().focusWidget()
        return focus is not None and self.widget is not None and self.widget.isAncestorOf(focus)

    def append(self, delta: str) -> None:
        """Add text."""
        self._parts.append(delta)
        if self.widget is not None:
            self.widget.append(delta)

    def set_stretches(self, stretches: tuple[Stretch, ...]) -> None:
        """Say which stretches the text has, up to its end or further."""
        self.stretches = stretches
        if self.widget is not None:
            self.widget.view.text.set_stretches(stretches)

    def set_asides(self, asides: tuple[Aside, ...]) -> None:
        """Show these asides in the text. The next steps write them."""
        self.asides, self.measured = asides, False
        if self.widget is not None:
            self.widget.view.text.set_asides(asides)

    def set_approval(self, approval: Approval | None) -> None:
        """Ask the user about a call, or no more."""
        self.approval, self.measured = approval, False
        if self.widget is not None:
            self.widget.set_approval(approval)

    def copy(self) -> None:
        """Copy the whole text."""
        (self.widget or self._build(self)).copy()

    def end(self, ending: Ending) -> None:
        """End the text with this ending."""
        self.ending = ending
        if self.widget is not None:
            self.widget.end(ending)

    def set_branches(self, number: int, count: int) -> None:
        """Show that this is version `number` of `count`."""
        self.branch = (number, count)
        if self.widget is not None:
            self.widget.set_branches(number, count)

    def set_figures(self, figures: AnswerFigures | None) -> None:
        """Show the figures of an answer that has ended."""
        self.figures = figures
        if self.widget is not None:
            self.widget.set_figures(figures)

    def set_note(self, note: str) -> None:
        """Show a line below the message; hidden if empty."""
        self.note, self.measured = note, False
        if self.widget is not None:
            self.widget.set_note(note)

    def set_documents(self, documents: tuple[Chip, ...]) -> None:
        """Show the documents that were sent with it."""
        self.documents, self.measured = documents, False
        if self.widget is not None:
            self.widget.set_documents(documents)

    def set_words(self, words: AnswerWords) -> None:
        """Mark words that documents have or lack."""
        self.words, self.measured = words, False
        if self.widget is not None:
            self.widget.set_words(words)

    def set_pieces(self, pieces: tuple[Piece, ...]) -> None:
        """Set the tokens, for the provenance."""
        self.pieces = pieces
        if self.widget is not None:
            self.widget.provenance.set_pieces(pieces)

    def set_reasoning(self, reasoning: TextTally) -> None:
        """Set the tokens and time of the reasoning. The next steps show them in its header."""
        self.reasoning = reasoning
        self._show_reasoning()

    def count_reasoning(self, tokens: int) -> None:
        """Set the number of reasoning tokens so far."""
        if self.widget is not None:
            self.widget.view.text.set_reasoning_figures(tokens=tokens)

    def show_provenance(self, shown: bool) -> None:
        """Show or hide the provenance of the tokens."""
        self.provenance, self.measured = shown, False
        if self.widget is not None:
            self.widget.provenance.set_hidden(self.hidden)
            self.widget.show_tokens(shown)

    def show_ahead(self, shown: Round | str | None, *, share: float | None = None) -> None:
        """Show a round's draft after the text that is being written, or a line before there is
        one; nothing for None."""
        self.ahead, self._share = shown, share
        if self.widget is not None and self.ending is None:
            self.widget.show_ahead(shown, share=share, calm=self.calm)

    def mark_newest(self, *, fades_after: float, calm: bool) -> None:
        """Mark each new token for this number of seconds. If `calm`, nothing moves."""
        self.fades_after, self.calm = fades_after, calm
        if self.widget is not None:
            self.widget.provenance.fades_after = fades_after

    def mark_words(self, marked: bool) -> None:
        """Mark, or do not mark, the words that documents have or lack."""
        self.marked = marked
        if self.widget is not None:
            self.widget.word_marks.set_shown(marked)

    def set_marks(self, marks: tuple[TextMark, ...]) -> None:
        """Mark these places of the text."""
        if marks != self.marks:
            self.marks = marks
            if self.widget is not None:
                self.widget.view.set_marks(marks)

    def set_formats(self, formats: Formats) -> None:
        """Use another font and other colours."""
        self.measured = False
        if self.widget is not None:
            self.widget.set_formats(formats)

    def fill(self, widget: MessageWidget) -> None:
        """Fill a new widget with everything; `step` writes its text."""
        self.widget = widget
        widget.provenance.set_hidden(self.hidden)
        if self.provenance:
            widget.show_tokens(True)
        widget.view.text.set_stretches(self.stretches)
        widget.view.text.set_asides(self.asides)
        if self.written:
            widget.append(self.written)
        if self.pieces is not None:
            widget.provenance.set_pieces(self.pieces)
        widget.provenance.fades_after = self.fades_after
        self._show_reasoning()
        widget.set_documents(self.documents)
        widget.set_approval(self.approval)
        widget.set_words(self.words)
        widget.word_marks.set_shown(self.marked)
        widget.set_branches(*self.branch)
        widget.set_figures(self.figures)
        widget.set_note(self.note)
        if self.ending is not None:
            widget.end(self.ending)
        else:
            self.show_ahead(self.ahead, share=self._share)
        widget.view.set_marks(self.marks)

    def fold(self) -> None:
        """Remove the widget. The height stays; the tokens, which need much memory, do not."""
        if self.widget is not None:
            self.widget.hide()
            self.widget.deleteLater()
            self.widget = None
        self.pieces = None

    def step(self) -> bool:
        """Write some text, for a limited time. Returns whether text is left."""
        return self.widget is not None and self.widget.step()

    def fit(self, width: int, metrics: QFontMetricsF, *, writing: bool) -> None:
        """Set the height at this width. While the text is rewritten, it does not shrink, so that
        the messages in sight do not jump."""
        if self.widget is None:
            if not self.measured:
                self.height = self._estimated(width, metrics)
            return
        height = self.widget.height_at(width)
        self.height = max(height, self.height) if writing else height
        self.measured = not writing

    def _show_reasoning(self) -> None:
        if self.widget is not None and self.reasoning is not None:
            tokens, seconds = self.reasoning.tokens, self.reasoning.seconds
            self.widget.view.text.set_reasoning_figures(tokens=tokens, seconds=seconds)

    def _estimated(self, width: int, metrics: QFontMetricsF) -> int:
        """Estimate the height from the length of the text alone."""
        if self._estimate[:2] != (width, metrics.height()):
            a_row = max(8.0, (width - 40) / metrics.averageCharWidth())
            text = said(self.written, self.stretches)  # reasoning is folded
            blank = text.count("\n\n")
            lines = text.count("\n") + 1 - blank
            rows = lines + 0.4 * blank + max(0.0, len(text) / a_row - 0.6 * lines)
            around = _AROUND_ANSWER if self.role == "assistant" else _AROUND
            around += len(self.asides) * _ASIDE
            for chip in self.documents:
                around += _AROUND_PICTURE if chip.picture else _AROUND_DOCUMENT
            height = around + math.ceil(rows * 1.16 * metrics.height())
            self._estimate = (width, metrics.height(), height)
        return self._estimate[2]
