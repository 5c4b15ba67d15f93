"""A growing text in a Qt document: finished parts stay, and only the tail is rewritten.

In the tail, only what differs is rewritten. `step` does a limited piece of work, so that no text,
however long, makes the window wait. `ranges` maps characters of the text to places in the document.
Knows pages and documents; no widgets, no time.
"""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from operator import attrgetter

from PySide6.QtGui import QTextCharFormat, QTextCursor, QTextDocument, QTextTable

from app.markdown.asides import Aside, index_of, text_of
from app.markdown.copying import block_text
from app.markdown.formats import JOINED, PANEL, Formats
from app.markdown.formulas import FORMULA, laid_out_format
from app.markdown.highlight import highlight, panel_blocks
from app.markdown.lines import space_above
from app.markdown.page import (
    OBJECT,
    BlockStyle,
    Item,
    RejectedSpan,
    Shape,
    SourceMap,
    Style,
    Table,
    TextLine,
    TextRun,
    all_runs,
    end_of,
    utf16,
    with_formulas_as_source,
    with_rejected,
)
from app.markdown.streaming import (
    ReadingPlace,
    ReasoningSpan,
    StreamingMarkdown,
    StreamingPlainText,
)
from app.markdown.table_writer import TableWriter, only_grew
from engine.stretches import Stretch

FOLD_ADDRESS = "fold:"  # of a link that folds something, before its number
REASONING = -1  # its number; details have their place in the text, asides lower numbers
_LAST_LINE = re.compile(r"[^\n]*\s*\Z")
_LONGEST_ENDING = 200  # characters
_COUNTING_WIDTH = 32  # characters of its header for any count, so that nothing moves
_FOLDED, _UNFOLDED = "\u25b8", "\u25be"


@dataclass(frozen=True, slots=True)
class DocumentMark:
    """How to return to an earlier state of the document: its end, and whether that was an empty
    block.

    `rejected` is the number of rejected spans written so far.
    """

    position: int
    fresh: bool
    spans: int
    rejected: int


class TextDocument:
    """Writes into `document`, which must be empty, and which nothing else may change.

    `stream` says how the text is read. The result does not depend on the pieces in which it
    arrives. Attribute: `rewritten`, the number of times that a part was removed to be rewritten.
    """

    def __init__(
        self,
        document: QTextDocument,
        formats: Formats,
        stream: StreamingMarkdown | StreamingPlainText,
    ) -> None:
        self.document = document
        self._formats = formats
        self._stream = stream
        self._map = SourceMap()
        self.rewritten = 0
        self._place = ReadingPlace()
        self._passed: list[tuple[ReadingPlace, DocumentMark]] = [
            (self._place, DocumentMark(0, True, 0, 0))
        ]
        self._tail: list[tuple[Item, DocumentMark]] = []
        self._fresh = True
        self._stale = False
        self._complete = False
        self._given_rejected: list[RejectedSpan] = []
        self._rejected: list[RejectedSpan] = []  # at their places in `text`
        self._reasoning_title = ""
        self._reasoning_figures = ("", "")  # so far, and its time
        self._chosen: dict[int, bool] = {}  # what the user folded and unfolded
        self._ended: set[int] = set()  # details whose end is in a finished part
        self._tail_ends: set[int] = set()  # those whose end is in the tail
        self._hidden: dict[int, tuple[int, int]] = {}  # the beginning and end of folded details
        self._tables = TableWriter(document, write=self._write_runs, note=self._note_line)
        self._formulas_drawn = True
        self._formulas: set[str] = set()  # those in the text, as written
        self._first_formula = -1  # the place of the first of them
        self._panels: dict[int, tuple[int, str]] = {}  # the place of its label, and its language
        self._to_colour: deque[int] = deque()
        self._coloured: set[int] = set()
        self._colouring: tuple[int, Iterator[None]] | None = None  # a panel, and its work
        document.setUndoRedoEnabled(False)
        document.setDocumentMargin(0)
        document.setDefaultFont(formats.font)
        self._truncate(self._passed[0][1])

    @property
    def given(self) -> str:
        """The text as it was given."""
        return self._stream.given

    @property
    def last_line(self) -> str:
        """The end of the given text from its last line with words on, "\n" for any line end."""
        found = _LAST_LINE.search(self._stream.text[-_LONGEST_ENDING:])
        return found[0] if found else ""

    @property
    def ends_in_aside(self) -> bool:
        """Whether nothing is shown after an aside yet."""
        last = self._stream.asides[-1:]
        return any(self._stream.place_of(one.place) >= len(self._stream.text) for one in last)

    def gap_below(self, shape: Shape) -> float:
        """Return the pixels between a line of this shape and a paragraph below it."""
        paragraph = BlockStyle(above=space_above("text", shape))
        return self._formats.block(paragraph).topMargin()

    def append(self, delta: str) -> None:
        """Add text. `step` shows it."""
        self._stream.append(delta)
        self._stale = True

    def cut(self, length: int) -> None:
        """Keep the first `length` characters of the given text. More text may follow, and it has
        not ended. Takes effect with the next steps."""
        whole, self._stream = self._stream, self._stream.until(length)
        changed = whole.has_definitions or self._ends  # the text before the cut
        self._ended, self._complete, self._stale = set(), False, True
        self._rewind(0 if changed else self._stream.place_of(length))

    def set_stretches(self, stretches: tuple[Stretch, ...]) -> None:
        """Say which stretches the text has: see `StreamingMarkdown`."""
        self._stream.set_stretches(stretches)

    def set_asides(self, asides: tuple[Aside, ...]) -> None:
        """Show these asides in the text, in the order of their places."""
        pairs = zip_longest(self._stream.asides, asides)
        changed = [one.place for pair in pairs if pair[0] != pair[1] for one in pair if one]
        if changed:
            self._stream.asides = asides
            self._rewind(self._stream.place_of(min(changed)))
            self._stale = True

    def finish(self) -> None:
        """End the text, and so colour code that was not closed."""
        self._stream.finish()
        self._complete = self._stale = True

    def set_rejected(self, rejected: list[RejectedSpan]) -> None:
        """Show these spans in the text, in the order of their places in the given text.

        Everything before the first change stays.
        """
        old = self._given_rejected
        same = len(old)
        if rejected[:same] != old:
            same = next(n for n, (a, b) in enumerate(zip_longest(old, rejected)) if a != b)
        if same == len(rejected) == len(old):
            return
        place_of = self._stream.place_of
        gone = self._rejected[same:]
        new = [replace(span, source=place_of(span.source)) for span in rejected[same:]]
        self._given_rejected = list(rejected)
        self._rejected[same:] = new
        self._rewind(min(span.source for span in (*gone, *new)))
        self._stale = True

    @property
    def answer(self) -> str:
        """The text as it was given, without reasoning and marks."""
        return self._stream.answer

    @property
    def reasoning(self) -> ReasoningSpan | None:
        """The place of the model's reasoning in the given text; None if there is none."""
        return self._stream.reasoning

    def set_reasoning_figures(self, *, tokens: int, seconds: float | None = None) -> None:
        """Show the length of the reasoning in its header, and its time once it has ended."""
        took = "" if seconds is None else f", {seconds:.{0 if seconds >= 10 else 1}f} s"
        counted = f", {tokens:,} {'token' if tokens == 1 else 'tokens'}"
        self._reasoning_figures = (counted, took)

    def fold(self, number: int) -> None:
        """Fold or unfold the details with this number, or `REASONING`. Takes effect with the next
        steps."""
        self._chosen[number] = not self._is_folded(number)
        if number != REASONING:
            index = index_of(number)
            place_of = self._stream.place_of
            self._rewind(number if index < 0 else place_of(self._stream.asides[index].place))
            self._stale = True

    def hides(self, place: int) -> bool:
        """Whether this character of the given text is in folded reasoning or details."""
        return self._fold_around(place) is not None

    def reveal(self, place: int) -> None:
        """Unfold what hides this character of the given text. Takes effect with the next steps."""
        number = self._fold_around(place)
        if number is not None:
            self.fold(number)

    def _fold_around(self, place: int) -> int | None:
        """Return the number of the folded details that have this character of the given text."""
        inside = self._stream.place_of(place)
        if self._stream.kind_at(inside) == "reasoning" and self._is_folded(REASONING):
            return REASONING
        hidden = (number for number, span in self._hidden.items() if span[0] <= inside < span[1])
        return min(hidden, default=None)

    def show_formulas(self, drawn: bool) -> None:
        """Draw the formulas, or show their source, so that each token is visible."""
        if drawn != self._formulas_drawn:
            self._formulas_drawn = drawn
            if self._formulas:
                self._rewind(self._first_formula)
                self._stale = True

    def refresh_formulas(self, laid_out: frozenset[str]) -> bool:
        """Give these formulas, whose outlines are now known, their room. Returns False if the text
        has none of them."""
        layouts = self._formats.formulas
        if layouts is None or self._formulas.isdisjoint(laid_out):
            return False
        cursor = self.document.find(OBJECT)
        while not cursor.isNull():
            characters = cursor.charFormat()
            if characters.property(FORMULA) in laid_out:
                cursor.setCharFormat(laid_out_format(characters, layouts.find))
            cursor = self.document.find(OBJECT, cursor)
        return True

    def set_formats(self, formats: Formats) -> None:
        """Rewrite everything in other colours or another font."""
        self._formats = formats
        self.document.setDefaultFont(formats.font)
        self._rewind(0)
        self._stale = True

    def step(self) -> bool:
        """Do a piece of the waiting work. Returns False if there is none."""
        reread = self._stream.reread()
        title = self._title_of_reasoning()
        if reread is not None or not self._retitled(title):
            self._rewind(reread if reread is not None and title == self._reasoning_title else 0)
            self._stale = True
        self._reasoning_title = title
        part = self._stream.finished(self._place)
        if part is not None:
            if self._ends_anew(part.items, finished=True):
                return True
            mark = self._passed[-1][1]
            if part.items:
                # Those after its last character belong to the text that follows.
                written = bisect_right(
                    self._rejected,
                    end_of(part.items) or -1,
                    mark.rejected,
                    key=attrgetter("source"),
                )
                items = self._visible(part.items)
                self._write(with_rejected(items, self._rejected_in(mark.rejected, written)))
                self._tail.clear()
                mark = self._mark(rejected=written)
            self._place, self._stale = part.next, True
            self._passed.append((self._place, mark))
            self._to_colour += part.closed
            return True
        if self._stale:
            self._stale = False
            tail = self._stream.tail(self._place)
            if self._ends_anew(tail, finished=False):
                self._stale = True
                return True
            items = self._visible(tail)
            rejected = self._rejected_in(self._passed[-1][1].rejected, len(self._rejected))
            self._write(with_rejected(items, rejected))
            if self._complete:
                waiting = {*self._to_colour, *self._coloured}
                if self._colouring is not None:
                    waiting.add(self._colouring[0])
                self._to_colour += [panel for panel in self._panels if panel not in waiting]
            return True
        return self._colour()

    def settle(self) -> None:
        """Do all waiting work."""
        while self.step():
            pass

    def ranges(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ranges of the document with the characters from `start` to `end` of the given
        text."""
        place_of = self._stream.place_of
        return self._map.ranges(place_of(start), place_of(end))

    def source_at(self, position: int) -> int | None:
        """Return the character of the given text at this place of the document, or None."""
        place = self._map.source_at(position)
        return None if place is None else self._stream.given_at(place)

    def source_before(self, position: int) -> int:
        """Return the end of the given text that is shown before this place of the document."""
        return self._stream.given_at(self._map.source_before(position))

    def settled_until(self) -> int:
        """Return the end of the given text that will not be rewritten."""
        return self._stream.given_at(self._place.source)

    def panels(self) -> dict[int, int]:
        """Return the code blocks: their numbers, and their beginnings in the document."""
        return {panel: position for panel, (position, _) in self._panels.items()}

    def code(self, panel: int) -> str:
        """Return the text of a code block as it was written, or all of an aside's text."""
        if panel < 0:
            return text_of(self._stream.asides, panel)
        if panel not in self._panels:
            return ""
        text = ""
        for block in panel_blocks(self.document, self._panels[panel][0]):
            text += ("" if block.blockFormat().property(JOINED) else "\n") + block_text(block)
        return text.removeprefix("\n")

    def _title_of_reasoning(self) -> str:
        """Return the header of the reasoning, which also shows whether it is folded; empty without
        one."""
        span = self._stream.reasoning
        if span is None:
            return ""
        ended = span.closed or self._complete
        counted, took = self._reasoning_figures
        words = f"Thinking{counted}{took}" if ended else f"Thinking{counted}\u2026"
        if counted and not ended:
            words = words.ljust(_COUNTING_WIDTH)
        return f"{self._arrow(REASONING)} {words}"

    def _retitled(self, title: str) -> bool:
        """Replace the header's title if nothing after it moves. Returns whether that was
        possible."""
        old = self._reasoning_title
        if title == old:
            return True
        if not old or len(title) != len(old) or title[0] != old[0]:
            return False
        cursor = self.document.find(old)
        if cursor.isNull() or cursor.charFormat().anchorHref() != f"{FOLD_ADDRESS}{REASONING}":
            return False
        while not cursor.isNull():
            cursor.insertText(title, cursor.charFormat())
            cursor = self.document.find(old, cursor)
        return True

    def _is_folded(self, number: int) -> bool:
        """Return whether this is folded: as the user chose, otherwise once it has ended. An aside
        is folded at first."""
        span = self._stream.reasoning
        closed = span is not None and span.closed if number == REASONING else number in self._ends
        closed = closed or number < REASONING
        return self._chosen.get(number, closed)

    def _arrow(self, number: int) -> str:
        return _FOLDED if self._is_folded(number) else _UNFOLDED

    @property
    def _ends(self) -> set[int]:
        return self._ended | self._tail_ends

    def _ends_anew(self, items: Sequence[Item], *, finished: bool) -> bool:
        """Note which details end in `items`. Returns whether text before them must be rewritten,
        as it is folded now."""
        ends, before = {i.block.folds[-1] for i in items if i.block.shape == "fold_end"}, self._ends
        self._ended |= ends if finished else set()
        self._tail_ends = (self._tail_ends if finished else ends) - self._ended
        changed = (before ^ self._ends) - self._chosen.keys()
        place = self._place
        if changed:
            self._rewind(min(changed))
        return self._place != place

    def _visible(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return `items` as they are shown: without folded lines, and with their headers."""
        shown: list[Item] = []
        for item in items:
            block = item.block
            around = block.folds[:-1] if block.shape == "summary" else block.folds
            folded = [number for number in around if self._is_folded(number)]
            for run in all_runs([item]) if folded else ():
                start, end = self._hidden.get(folded[0], (run.source, run.end))
                self._hidden[folded[0]] = min(start, run.source), max(end, run.end)
            if block.shape == "reasoning":
                shown.append(self._header(item))
            elif (
                folded
                or block.shape == "fold_end"
                or (block.reasoning and self._is_folded(REASONING))
            ):
                continue
            else:
                shown.append(self._summary(item) if block.shape == "summary" else item)
        items = shown
        for run in all_runs(items):
            if run.style.formula:
                if not self._formulas or run.source < self._first_formula:
                    self._first_formula = run.source
                self._formulas.add(run.style.formula)
        drawn = self._formulas_drawn and self._formats.formulas is not None
        return items if drawn else with_formulas_as_source(items)

    def _rejected_in(self, first: int, following: int) -> list[RejectedSpan]:
        """Return the visible ones of these spans: none in calls, in folded reasoning, or in its
        marks."""
        shown = [
            one
            for one in self._rejected[first:following]
            if self._stream.kind_at(one.source) != "call"
            if not any(start <= one.source < end for start, end in self._hidden.values())
        ]
        if self._reasoning_title.startswith(_FOLDED):
            shown = [one for one in shown if self._stream.kind_at(one.source) == "content"]
        return shown

    def _header(self, item: Item) -> TextLine:
        run, span = next(all_runs([item])), self._stream.reasoning
        style = replace(run.style, href=f"{FOLD_ADDRESS}{REASONING}")
        first = span is None or run.source <= self._stream.place_of(span.start)
        title = self._reasoning_title if first else f"{self._arrow(REASONING)} Thinking"
        return TextLine(item.block, (replace(run, text=title, style=style),))

    def _summary(self, item: Item) -> TextLine:
        """Return the summary of details as a link that folds them."""
        number, runs = item.block.folds[-1], tuple(all_runs([item]))
        arrow = TextRun(f"{self._arrow(number)} ", Style(role="label"), runs[0].source, 0)
        address = f"{FOLD_ADDRESS}{number}"
        return TextLine(
            item.block,
            tuple(replace(run, style=replace(run.style, href=address)) for run in (arrow, *runs)),
        )

    def _mark(self, *, rejected: int) -> DocumentMark:
        return DocumentMark(
            self.document.characterCount() - 1, self._fresh, len(self._map), rejected
        )

    def _rewind(self, source: int) -> None:
        """Remove everything from the part with this place on."""
        self._hidden = {n: span for n, span in self._hidden.items() if n < source}
        if source > self._place.source:
            return
        while len(self._passed) > 1 and self._passed[-1][0].source >= source:
            self._passed.pop()
            self.rewritten += 1
        self._place, mark = self._passed[-1]
        self._tail.clear()
        self._truncate(mark)

    def _truncate(self, mark: DocumentMark) -> None:
        cursor = QTextCursor(self.document)
        cursor.beginEditBlock()
        cursor.setPosition(mark.position)
        # If the remaining block is empty, Qt would give it the format of the removed text.
        block, characters = cursor.blockFormat(), cursor.blockCharFormat()
        if mark.fresh:
            block, characters = self._formats.gap()
        # The remaining block may be the last removed one, and have its colours.
        colours = [] if mark.fresh else cursor.block().layout().formats()
        # Of a code block that continues after the mark, only the first lines stay.
        cut = cursor.block().next().blockFormat().property(PANEL)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        cursor.setBlockFormat(block)
        cursor.setBlockCharFormat(characters)
        cursor.block().layout().setFormats(colours)
        cursor.endEditBlock()
        self._fresh = mark.fresh
        self._map.drop(mark.spans)
        gone = {n for n, (position, _) in self._panels.items() if position >= mark.position}
        for panel in gone:
            del self._panels[panel]
        if gone:
            self._to_colour = deque(panel for panel in self._to_colour if panel in self._panels)
        unfinished = {*gone, cut}
        self._coloured -= unfinished
        if self._colouring is not None and self._colouring[0] in unfinished:
            self._colouring = None

    def _write(self, items: Sequence[Item]) -> None:
        """Write `items` as the tail."""
        same = 0
        for (old, _), new in zip(self._tail, items, strict=False):
            if old != new:
                break
            same += 1
        cursor = QTextCursor(self.document)
        cursor.beginEditBlock()
        if same < len(self._tail):
            old, mark = self._tail[same]
            new_item = items[same] if same < len(items) else None
            if (
                isinstance(old, TextLine)
                and isinstance(new_item, TextLine)
                and old.block == new_item.block
            ):
                if same + 1 < len(self._tail):
                    self._truncate(self._tail[same + 1][1])
                self._map.drop(mark.spans)
                self._amend(old, new_item, self._line_start(mark))
                self._note_panel(new_item, self._line_start(mark))
                self._tail[same:] = [(new_item, mark)]
                same += 1
            elif (
                isinstance(old, Table) and isinstance(new_item, Table) and only_grew(old, new_item)
            ):
                if same + 1 < len(self._tail):
                    self._truncate(self._tail[same + 1][1])
                self._map.drop(mark.spans)
                self._tables.extend(old, new_item, mark.position + 1, self._formats)
                self._tail[same:] = [(new_item, mark)]
                self._fresh = True
                same += 1
            else:
                self._truncate(mark)
                del self._tail[same:]
        for item in items[same:]:
            self._tail.append((item, self._mark(rejected=self._passed[-1][1].rejected)))
            if isinstance(item, TextLine):
                self._write_line(item)
            else:
                self._tables.append(item, self._formats, fresh=self._fresh)
                self._fresh = True
        self._fit_page()
        cursor.endEditBlock()

    def set_room(self, *, width: int, beside: int) -> None:
        """Use a page of this width, and leave `beside` pixels at the right of prose; tables and
        code may use them."""
        if (width, beside) == (self._tables.width, self._tables.beside):
            return
        self._tables.fit(width=width, beside=beside)
        self._fit_page()

    @property
    def tables(self) -> list[QTextTable]:
        """The tables, from the first to the last."""
        return self._tables.tables

    def _fit_page(self) -> None:
        """Set the margins of the page, with the room above its first line: Qt gives that none."""
        page = self.document.rootFrame()
        layout = page.frameFormat()
        layout.setRightMargin(self._tables.beside)
        layout.setTopMargin(self.document.firstBlock().blockFormat().topMargin())
        if layout != page.frameFormat():
            page.setFrameFormat(layout)

    def _line_start(self, mark: DocumentMark) -> int:
        return mark.position if mark.fresh else mark.position + 1

    def _amend(self, old: TextLine, new: TextLine, position: int) -> None:
        """Change one line, the document's last, into another of the same style."""
        cursor = QTextCursor(self.document)
        count = 0
        for before, after in zip(old.runs, new.runs, strict=False):
            if before != after:
                break
            position = self._map.append(after, position)
            count += 1
        rest = list(new.runs[count:])
        if count < len(old.runs) and rest and _grew(old.runs[count], rest[0]):
            kept = len(old.runs[count].text)
            grown = rest.pop(0)
            cursor.setPosition(position + utf16(old.runs[count].text))
            cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
            cursor.insertText(grown.text[kept:], self._formats.characters(grown.style, new.block))
            self._map.append(grown, position)
        else:
            cursor.setPosition(position)
            cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
            cursor.removeSelectedText()
        self._write_runs(cursor, new, rest)

    def _write_line(self, line: TextLine) -> None:
        cursor = QTextCursor(self.document)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        block = self._formats.block(line.block)
        characters = self._formats.characters(Style(code=line.block.shape == "code"), line.block)
        if self._fresh:
            cursor.setBlockFormat(block)
            cursor.setBlockCharFormat(characters)
        else:
            cursor.insertBlock(block, characters)  # an empty line is as high as others
        self._fresh = False
        self._note_panel(line, cursor.position())
        self._write_runs(cursor, line)

    def _note_panel(self, line: TextLine, position: int) -> None:
        """Note the language of a code block, if this line, written there, is its label."""
        if line.block.shape == "label" and line.block.panel is not None:
            language = line.runs[0].text if line.runs and line.runs[0].length else ""
            self._panels[line.block.panel] = (position, language)

    def _write_runs(
        self, cursor: QTextCursor, line: TextLine, runs: Sequence[TextRun] | None = None
    ) -> None:
        """Write a line, or these last runs of it."""
        for run in line.runs if runs is None else runs:
            self._map.append(run, cursor.position())
            cursor.insertText(run.text, self._characters(run, line))

    def _characters(self, run: TextRun, line: TextLine) -> QTextCharFormat:
        layouts = self._formats.formulas
        if not run.style.formula or layouts is None:
            return self._formats.characters(run.style, line.block)
        return self._formats.formula(run.style, line.block, layouts=layouts)

    def _note_line(self, line: TextLine, position: int) -> None:
        for run in line.runs:
            position = self._map.append(run, position)

    def _colour(self) -> bool:
        """Do a piece of colouring a code block. Returns False if there is none to colour."""
        if self._colouring is not None:
            panel, slices = self._colouring
            if next(slices, self) is self:
                self._colouring = None
                self._coloured.add(panel)
            return True
        if not self._to_colour:
            return False
        panel = self._to_colour.popleft()
        if panel in self._panels and panel not in self._coloured:
            position, language = self._panels[panel]
            slices = highlight(
                self.document,
                position,
                language=language,
                colours=self._formats.colours.syntax,
            )
            self._colouring = (panel, slices)
        return True


def _grew(old: TextRun, new: TextRun) -> bool:
    """Return whether a run only became longer."""
    return (
        old.style == new.style
        and old.source == new.source
        and old.exact
        and new.exact
        and new.text.startswith(old.text)
    )
