"""The words of an answer that stand in documents, marked in its text; and those that stand in none.

Each document has a colour, a line and a letter. Knows what was found and a view; not where the
documents are, nor how they are shown.
"""

from PySide6.QtCore import QObject, Signal

from app.documents.answer_words import MISSING, AnswerWords, letter
from app.markdown.view import TextShade, TextView
from app.theme.palette import LineStyle, Palette
from engine.documents.copied import CopiedSpan

_LINES: tuple[LineStyle, ...] = ("solid", "dash", "dash dot")  # dots: stands in none


def line_of_document(document: int) -> LineStyle:
    """The line under what stands in the document of this number."""
    return _LINES[(document - 1) % len(_LINES)]


def colour_of_document(document: int, colours: Palette) -> str:
    """The colour of the document of this number, as text."""
    known = (colours.link, colours.bonus, colours.accepted, colours.forced)
    return known[(document - 1) % len(known)]


class WordMarks(QObject):
    """The marks of one message, over its text while `shown`.

    Signals: `asked(CopiedSpan)`: the person wants to see where this stands.
    """

    asked = Signal(CopiedSpan)

    def __init__(self, view: TextView, colours: Palette) -> None:
        super().__init__(view)
        self.shown = False
        self._view, self._colours = view, colours
        self._words = AnswerWords()
        view.chosen.connect(self.choose)

    def set_shown(self, shown: bool) -> None:
        """Mark the words, or show the text alone."""
        self.shown = shown
        self._lay()

    def set_words(self, words: AnswerWords) -> None:
        """What was found of the text as it is now."""
        self._words = words
        self._lay()

    def set_colours(self, colours: Palette) -> None:
        """Other colours."""
        self._colours = colours
        self._lay()

    def choose(self, position: int) -> bool:
        """Ask for what stands at this place of the document; False where nothing does."""
        number = self._span_at(position)
        if number is not None:
            self.asked.emit(self._words.copied[number])
        return number is not None

    def leads(self, position: int) -> bool:
        """Whether something can be asked for at this place of the document."""
        return self._span_at(position) is not None

    def tip(self, position: int) -> str:
        """What is known of the word at this place of the document; empty for nothing."""
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
                    "This is a word search: it may be right all the same."
                )
        return ""

    def _span_at(self, position: int) -> int | None:
        """The number of the copied span at this place of the document, from 0."""
        source = self._source_at(position)
        spans = enumerate(self._words.copied)
        return next((n for n, span in spans if span.start <= source < span.end), None)

    def _source_at(self, position: int) -> int:
        """A place of the text as it was given; -1 while nothing is marked."""
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
