"""Marks the words of an answer that are in documents, and the figures that are in none.

Each document has a colour, a line and a letter. Knows the found words and a view; not where the
documents are, nor how they are shown.
"""

from PySide6.QtCore import QObject, Signal

from app.documents.answer_words import MISSING, AnswerWords, letter
from app.markdown.view import TextShade, TextView
from app.theme.palette import LineStyle, Palette
from engine.documents.copied import CopiedSpan

_LINES: tuple[LineStyle, ...] = ("solid", "dash", "dash dot")  # dots: found in no document


def line_of_document(document: int) -> LineStyle:
    """Return the line under words from the document with this number."""
    return _LINES[(document - 1) % len(_LINES)]


def colour_of_document(document: int, colours: Palette) -> str:
    """Return the colour of the document with this number."""
    known = (colours.link, colours.bonus, colours.accepted, colours.forced)
    return known[(document - 1) % len(known)]


class WordMarks(QObject):
    """The marks of one message, over its text while `shown`.

    Signals: `asked(CopiedSpan)`: show the place of these words.
    """

    asked = Signal(CopiedSpan)

    def __init__(self, view: TextView, colours: Palette) -> None:
        super().__init__(view)
        self.shown = False
        self._view, self._colours = view, colours
        self._words = AnswerWords()
        view.chosen.connect(self.choose)

    def set_shown(self, shown: bool) -> None:
        """Show or hide the marks."""
        self.shown = shown
        self._lay()

    def set_words(self, words: AnswerWords) -> None:
        """Set the words that were found in the current text."""
        self._words = words
        self._lay()

    def set_colours(self, colours: Palette) -> None:
        """Use other colours."""
        self._colours = colours
        self._lay()

    def choose(self, position: int) -> bool:
        """Ask for the copied words at this place of the document. Returns whether there are any."""
        number = self._span_at(position)
        if number is not None:
            self.asked.emit(self._words.copied[number])
        return number is not None

    def leads(self, position: int) -> bool:
        """Return whether `choose` would find words at this place of the document."""
        return self._span_at(position) is not None

    def tip(self, position: int) -> str:
        """Return the tooltip for this place of the document; empty for none."""
        number = self._span_at(position)
        if number is not None:
            # A click on a link asks whether to open it.
            how = "Right-click" if self._view.is_link(position) else "Click"
            return f"{self._words.tips[number]}\n\n{how} to see it there"
        source = self._source_at(position)
        for missing in self._words.missing:
            if missing.start <= source < missing.end:
                return (
                    f"{MISSING[missing.kind]} was not found in the documents.\n"
                    "This is only a word search: the words may still be right."
                )
        return ""

    def _span_at(self, position: int) -> int | None:
        """Return the index of the copied span at this place of the document, or None."""
        source = self._source_at(position)
        spans = enumerate(self._words.copied)
        return next((n for n, span in spans if span.start <= source < span.end), None)

    def _source_at(self, position: int) -> int:
        """Return the place in the given text; -1 while nothing is marked."""
        source = self._view.text.source_at(position) if self.shown else None
        return -1 if source is None else source

    def _lay(self) -> None:
        if not self.shown:
            self._view.set_shades(())
            return
        copied = (
            TextShade(
                span.start,
                span.end,
                colour_of_document(number := span.places[0].document, self._colours),
                line_of_document(number),
                letter="".join(map(letter, sorted({p.document for p in span.places}))),
            )
            for span in self._words.copied
        )
        missing = (
            TextShade(each.start, each.end, self._colours.warning, "dot", tinted=False)
            for each in self._words.missing
        )
        self._view.set_shades((*copied, *missing))
