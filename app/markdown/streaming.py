"""A growing text, divided into finished parts and a tail.

Knows Markdown's blocks through `app.markdown.blocks`; nothing of Qt or time. The same text gives
the same parts in any pieces it arrives in: whether a block is finished follows from the text
alone.

Which stretches of the text are reasoning, and which are calls and marks that are not shown, is
given next to it, as are the asides in it; each stretch of reasoning or content is read for itself.

The work for each part is limited: a list, a table, a quote and a paragraph are cut between their
entries, rows, parts and lines (a line after a sentence), and a fence between its lines. Any other
block of more than `LONGEST_BLOCK` characters is shown as plain text.

A definition, `[name]: address`, changes the text before it: `[text][name]` becomes a link.
Then `reread` says from where the text must be read again.
"""

import re
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from markdown_it.common.utils import normalizeReference

from app.markdown.asides import Aside, items_of
from app.markdown.blocks import Block, BlockReader, within
from app.markdown.cuts import Continued, Cut, column_widths
from app.markdown.inline import is_web
from app.markdown.lines import After, label_line, lines_of, parts_of_line, plain_lines
from app.markdown.page import (
    BREAK,
    BlockStyle,
    Item,
    Style,
    Table,
    TextLine,
    TextRun,
    all_runs,
    beside,
)
from engine.stretches import Kind, Stretch, said

LONGEST_BLOCK = 6_000  # characters
GLANCE = 2_000
FENCE_LINES = 100
_SETTLING_LINES = 2  # the second line shows whether it is a table
_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})([^\n]*)")
_BLANK = re.compile(r"(?:[ \t]*\n)+")
_DEFINITION = re.compile(r" {0,3}\[(?!\^)([^\[\]]+)\]:[ \t]*<?([^\s<>]+)>?(?:[ \t]+\S.*)?[ \t]*")
_TRIED = 3  # places at which a paragraph may be cut
_SENTENCE_END = re.compile(r"[.!?:;]\s+")


@dataclass(frozen=True, slots=True)
class OpenFence:
    """A code block that has not ended. Its closing line is a row of `mark`, of at least that
    length."""

    mark: str
    indent: int
    panel: int
    info: str
    begun: bool  # whether its label is written


@dataclass(frozen=True, slots=True)
class ReadingPlace:
    """How far the text was read: `source` is the first character that is not in a finished part.

    `after`: the line above it. `joined`: it is in a line that was cut. `reasoning`: it is in
    reasoning, whose header is written. `continued`: it is in a block that was cut.
    `folds`: the details that it is in. `asides`: how many are before it.
    """

    source: int = 0
    after: After | None = None
    fence: OpenFence | None = None
    joined: bool = False
    reasoning: bool = False
    continued: Continued | None = None
    folds: tuple[int, ...] = ()
    asides: int = 0

    def anew(self, source: int, after: After | None) -> "ReadingPlace":
        """Return the place at `source`, in nothing that was begun."""
        return ReadingPlace(source, after, asides=self.asides)

    def at(
        self,
        source: int,
        after: After | None,
        *,
        fence: OpenFence | None = None,
        joined: bool = False,
        continued: Continued | None = None,
    ) -> "ReadingPlace":
        """Return the place at `source`, in the same reasoning and details."""
        return replace(
            self, source=source, after=after, fence=fence, joined=joined, continued=continued
        )


@dataclass(frozen=True, slots=True)
class ReasoningSpan:
    """The place of the reasoning in the given text: up to the first content or call. `closed`: it
    has ended."""

    start: int
    end: int
    closed: bool


@dataclass(frozen=True, slots=True)
class FinishedPart:
    """Items, and the place after them where reading continues.

    `closed` are the code blocks that end here.
    """

    items: tuple[Item, ...]
    next: ReadingPlace
    closed: tuple[int, ...] = ()


class _StreamingText:
    """The text so far, and the places of its characters: only carriage returns are left out."""

    def __init__(self) -> None:
        # Joined when read: adding to one string would copy it at each of a thousand pieces.
        self._given_parts, self._parts = [""], [""]
        self._returns: list[int] = []  # in the given text, carriage returns before a "\n"
        self._given = 0
        self._held = ""
        self._stretches: tuple[Stretch, ...] = ()
        self.asides: tuple[Aside, ...] = ()  # in the order of their places

    @property
    def text(self) -> str:
        """The text with uniform line ends."""
        return _joined(self._parts)

    @property
    def given(self) -> str:
        """The text as it was given, with its own line ends."""
        return _joined(self._given_parts)

    @property
    def answer(self) -> str:
        """The text as it was given, without reasoning and marks."""
        return said(self.given, self._stretches)

    def set_stretches(self, stretches: tuple[Stretch, ...]) -> None:
        """Say which stretches the given text has, perhaps before it comes. Earlier ones
        stay, and the last of them may be longer."""
        self._stretches = stretches

    def append(self, delta: str) -> None:
        """Add text. A carriage return at its end waits for the next character."""
        self._given_parts.append(delta)
        delta, self._held = self._held + delta, ""
        if delta.endswith("\r"):
            delta, self._held = delta[:-1], "\r"
        self._returns += (self._given + found.start() for found in re.finditer("\r\n", delta))
        self._given += len(delta)
        self._parts.append(delta.replace("\r\n", "\n").replace("\r", "\n"))

    def place_of(self, given: int) -> int:
        """Return the place in `text` of the character at this place of the given text."""
        return given - bisect_left(self._returns, given)

    def given_at(self, place: int) -> int:
        """Return the place in the given text of the character at this place."""
        return place + sum(given - n <= place for n, given in enumerate(self._returns))


def _joined(parts: list[str]) -> str:
    """Return the sum of the parts, which become one."""
    if len(parts) > 1:
        parts[:] = ["".join(parts)]
    return parts[0]


class StreamingPlainText(_StreamingText):
    """Text that is shown unchanged: the user's."""

    reasoning = None

    has_definitions = False

    def until(self, length: int) -> "StreamingPlainText":
        """Return the beginning of this text, `length` characters as they were given."""
        kept = StreamingPlainText()
        kept.append(self.given[:length])
        return kept

    def kind_at(self, place: int) -> Kind:
        """Return "content": the user writes no reasoning."""
        return "content"

    def finish(self) -> None:
        """End the text. Nothing in it waits for its end."""

    def reread(self) -> int | None:
        """Return None: no text changes the text before it."""
        return None

    def finished(self, place: ReadingPlace) -> FinishedPart | None:
        """Return the next part that later text cannot change; None if there is none yet."""
        begin = place.source
        if len(self.text) - begin <= GLANCE:
            return None
        end = self.text.rfind("\n", begin, begin + GLANCE) + 1
        if not end:
            _, words = next(parts_of_line(self.text[begin : begin + GLANCE + 1], GLANCE))
            end = begin + len(words)
        row = self.text[begin:end]
        items = plain_lines(row, base=begin, after=place.after, joined=place.joined)
        return FinishedPart(tuple(items), ReadingPlace(end, "plain", joined=not row.endswith("\n")))

    def tail(self, place: ReadingPlace) -> tuple[Item, ...]:
        """Return the tail as plain lines. Call this when `finished` returns None."""
        text = self.text[place.source :]
        if not text:
            return ()
        return tuple(plain_lines(text, base=place.source, after=place.after, joined=place.joined))


class StreamingMarkdown(_StreamingText):
    """Text that is read as Markdown."""

    def __init__(self, reader: BlockReader | None = None) -> None:
        """`reader` may be shared by several texts: making one takes a millisecond."""
        super().__init__()
        self._reader = reader or BlockReader()
        self._last: tuple[str, ReadingPlace, list[Block]] = ("", ReadingPlace(), [])
        self._searched = 0  # beginning of the first line that was not searched
        self._ended = False
        self._fence: OpenFence | None = None  # that the search is in
        self._references: dict[str, dict[str, str]] = {}  # as markdown-it has them
        self._reread: int | None = None

    def finish(self) -> None:
        """End the text: its last line is whole."""
        self._ended = True

    def reread(self) -> int | None:
        """Return the place from which the text reads otherwise than at the last call, as later text
        decided it; None if there is none."""
        self._search()
        place, self._reread = self._reread, None
        return place

    def _search(self) -> None:
        """Look through the new lines for what changes the text before them."""
        text = self.text
        while self._searched < len(text):
            end = text.find("\n", self._searched)
            if end < 0 and not self._ended:
                return
            end = end if end >= 0 else len(text)
            self._search_line(text, self._searched, text[self._searched : end])
            self._searched = end + 1

    def _search_line(self, text: str, begin: int, line: str) -> None:
        if self._fence:
            self._fence = None if _closes(self._fence, line) else self._fence
        elif found := _fence_at(line, 0):
            self._fence = OpenFence(found[2], 0, 0, "", begun=False)
        elif (found := _DEFINITION.fullmatch(line)) and is_web(found[2]):
            name = normalizeReference(found[1])
            if name not in self._references:
                self._references[name] = {"href": found[2], "title": ""}
                words = r"\s+".join(map(re.escape, found[1].split()))
                used = re.search(rf"\[\s*{words}\s*\]", text, re.IGNORECASE)
                place = used.start() if used else begin
                self._reread = place if self._reread is None else min(place, self._reread)
                self._last = ("", ReadingPlace(), [])

    def until(self, length: int) -> "StreamingMarkdown":
        """Return the beginning of this text, `length` characters as they were given."""
        kept = StreamingMarkdown(self._reader)
        kept.set_stretches(self._stretches)
        kept.asides = tuple(aside for aside in self.asides if aside.place <= length)
        kept.append(self.given[:length])
        return kept

    @property
    def has_definitions(self) -> bool:
        """Whether a definition was found, which changes the text before it."""
        return bool(self._references)

    @property
    def reasoning(self) -> ReasoningSpan | None:
        """The place of the reasoning; None if there is none."""
        span, given = None, self._given + len(self._held)
        for kind, start, end in self._given_stretches():
            if kind in ("content", "call") and span:
                return replace(span, closed=True)
            if kind == "reasoning":
                span = ReasoningSpan(span.start if span else start, min(end, given), end < given)
        return span if span and span.start < given else None

    def kind_at(self, place: int) -> Kind:
        """Return the kind of the character at this place of `text`."""
        return self._stretch_at(place)[0]

    def _given_stretches(self) -> Iterator[tuple[Kind, int, int]]:
        """Yield the stretches that have begun, cut at asides: their kinds, beginnings and
        ends in the given text. Content without an end comes last."""
        begin = end = 0
        for one in (*self._stretches, Stretch("content", sys.maxsize)):
            end = min(end + one.length, sys.maxsize)
            places = (aside.place for aside in self.asides if begin < aside.place < end)
            for stop in (*places, end):
                if begin >= self._given:
                    return
                yield one.kind, begin, stop
                begin = stop

    def _stretch_at(self, place: int) -> tuple[Kind, int, int]:
        """Return the stretch with the character at this place: its kind, beginning and end in
        `text`. Content without stretches begins and ends nowhere."""
        for kind, begin, end in self._given_stretches():
            stop = self.place_of(min(end, self._given))
            if place < stop or end >= self._given:
                goes_on = end >= self._given and all(end != aside.place for aside in self.asides)
                return kind, self.place_of(begin), sys.maxsize if goes_on else stop
        return "content", 0, sys.maxsize

    def finished(self, place: ReadingPlace) -> FinishedPart | None:
        """Return the next part that later text cannot change; None if there is none yet."""
        if not self._stretches and not self.asides:
            return self._finished(self.text, place)
        fences = (place.fence.panel,) if place.fence else ()
        begun = place.fence or place.joined or place.continued
        if (aside := self._aside_at(place)) is not None:
            if begun:
                return FinishedPart((), place.anew(place.source, place.after), fences)
            items = items_of(aside, place.asides, source=place.source, after=place.after)
            following = ReadingPlace(place.source, "summary", asides=place.asides + 1)
            return FinishedPart(items, following)
        kind, begin, end = self._stretch_at(place.source)
        closed = end <= len(self.text)
        if closed and place.source >= end:
            return None
        left = place.reasoning and kind != "reasoning"
        if place.source == begin and (left or begun):
            after = "reasoning" if left else place.after
            return FinishedPart((), place.anew(begin, after), fences)
        if kind in ("mark", "call"):
            return FinishedPart((), place.anew(end, place.after)) if closed else None
        if kind == "reasoning" and not place.reasoning:
            if place.source >= len(self.text):
                return None
            inside = replace(place, reasoning=True)
            if place.after == "reasoning":  # only marks are between
                return FinishedPart((), inside)
            header = _reasoning_header(begin)
            return FinishedPart((header,), replace(inside, after="reasoning"))
        text = self.text[:end] if closed else self.text
        part = self._finished(text, place)
        if part is None and closed:
            items = self._tail(text, place)
            after = items[-1].block.shape if items else place.after
            following = place.anew(end, "reasoning" if kind == "reasoning" else after)
            part = FinishedPart(items, following, (*fences, *_panels(items)))
        if part is None or kind != "reasoning":
            return part
        return replace(part, items=_reasoned(part.items))

    def tail(self, place: ReadingPlace) -> tuple[Item, ...]:
        """Return the unfinished tail as it would look now. Call this when `finished` returns
        None."""
        if self._stretches and self._stretch_at(place.source)[0] in ("mark", "call"):
            return ()
        items = self._tail(self.text, place)
        return _reasoned(items) if place.reasoning else items

    def _aside_at(self, place: ReadingPlace) -> Aside | None:
        """Return the next aside if it is at this place."""
        if place.asides == len(self.asides):
            return None
        aside = self.asides[place.asides]
        there = aside.place <= self._given and self.place_of(aside.place) <= place.source
        return aside if there else None

    def _finished(self, text: str, place: ReadingPlace) -> FinishedPart | None:
        begin = place.source
        if place.fence:
            return self._finished_fence(text, place, place.fence)
        if place.joined:
            return self._finished_row(text, place)
        if blank := _BLANK.match(text, begin):
            return FinishedPart((), replace(place, source=blank.end()))
        if opening := _fence_at(text, begin):
            if opening.end() == len(text):
                return None
            fence = OpenFence(opening[2], len(opening[1]), begin, opening[3].strip(), begun=False)
            return FinishedPart((), place.at(opening.end() + 1, place.after, fence=fence))
        return self._finished_blocks(text, place)

    def _tail(self, whole: str, place: ReadingPlace) -> tuple[Item, ...]:
        text = whole[place.source :]
        if place.fence:
            last, closed = text.rfind("\n") + 1, 0
            if not (place.joined and last == 0) and _closes(place.fence, text[last:]):
                text, closed = text[:last], len(whole)
            return self._fence_items(text, place, place.fence, closed=closed)
        if place.joined:
            return _row_items(text, place)
        blocks = self._read(text, place)
        return tuple(item for block in blocks for item in block.items)

    def _finished_blocks(self, text: str, place: ReadingPlace) -> FinishedPart | None:
        """Read little text first, and more only if that has no finished block."""
        left = len(text) - place.source
        for size in (GLANCE, LONGEST_BLOCK):
            window = text[place.source : place.source + size]
            if cut := left > size:
                window = window[: window.rfind("\n") + 1 or size]
            if part := self._finished_within(window, place, cut=cut, last=size == LONGEST_BLOCK):
                return part
            if not cut:
                return None
        end = place.source + len(window)
        if window.endswith("\n") and text.find("\n", end, end + LONGEST_BLOCK) < 0:
            # The next line is too long to be read; the lines above it can still be finished.
            if len(text) - end < LONGEST_BLOCK:
                return None
            read = self._read(window, place)
            blocks = list(takewhile(lambda block: block.kind != "fence", read))
            fences = [block.begin for block in read if block.kind == "fence"]
            return _part(blocks, place, min(fences, default=end))
        return self._cut_line(window, place) or self._finished_plain(place, window)

    def _finished_within(
        self, window: str, place: ReadingPlace, *, cut: bool, last: bool
    ) -> FinishedPart | None:
        """Return the blocks that are finished within `window`, or a part of its first block. `cut`:
        the text goes on after it. `last`: more will not be read at once."""
        settled = window.count("\n") - _SETTLING_LINES  # the last line at which a block may begin
        if settled < 0:
            return None
        blocks = self._read(window, place)
        first = blocks[0]
        if first.over and first.cuts[-1].line <= settled:
            return self._cut_off(window, place, first, first.cuts[-1])
        count = 0
        for block, follower in pairwise(blocks):
            if follower.first > settled or block.over or follower.open:
                break
            if block.kind == "fence" or block.open:
                break
            count += 1
        if count:
            return _part(blocks[:count], place, blocks[count].begin)
        if not cut:
            return None
        # The cut of a long list is invisible: it keeps the source's markers.
        if last or first.kind.endswith("list_open"):
            cuts = [one for one in first.cuts if one.line <= settled]
            if cuts:
                return self._cut_off(window, place, first, cuts[-1])
        if last and first.kind in ("paragraph_open", "blockquote_open"):
            return self._cut_paragraph(window, place, first, settled)
        return None

    def _cut_off(
        self, window: str, place: ReadingPlace, block: Block, cut: Cut
    ) -> FinishedPart | None:
        """Return the part of a block that is above `cut`."""
        rows = window.split("\n")
        end = sum(len(row) + 1 for row in rows[: cut.line])
        blocks = self._read_blocks(window[:end], place)
        if len(blocks) != 1:
            return None
        item, continued = blocks[0].items[0], place.continued or Continued()
        if isinstance(item, Table):
            if not continued.header:
                columns = column_widths(item)
                continued = Continued(header="\n".join(rows[:2]) + "\n", columns=columns)
            table = replace(item, columns=continued.columns)
            blocks = [replace(blocks[0], items=(table, *blocks[0].items[1:]))]
        elif block.kind == "blockquote_open":
            continued = _continued(block, place)
        part = _part(blocks, place, place.source + end)
        return replace(part, next=replace(part.next, after=cut.after, continued=continued))

    def _cut_paragraph(
        self, window: str, place: ReadingPlace, block: Block, settled: int
    ) -> FinishedPart | None:
        """Return the lines of a long paragraph, or of a quote of one, up to the last one at which
        nothing, such as bold text, goes on."""
        ends = [
            run.source + 1 - place.source
            for run, following in pairwise(all_runs(block.items))
            if run.text == BREAK and replace(run.style, small=False) == Style()
            if not following.style.href
        ]
        ends = [n for n in ends if window[n - 1] == "\n" and window.count("\n", 0, n) <= settled]
        continued = _continued(block, place) if block.kind == "blockquote_open" else None
        return self._cut_at(ends, window, place, continued)

    def _cut_line(self, window: str, place: ReadingPlace) -> FinishedPart | None:
        """Return the beginning of a paragraph in a line that is too long to be read at once, up to
        the end of a sentence."""
        blocks = self._read_blocks(window, place)
        ends = [
            run.source + found.end() - place.source
            for run in all_runs(item for block in blocks for item in block.items)
            if run.exact and run.style == Style()
            for found in _SENTENCE_END.finditer(run.text)
        ]
        if [block.kind for block in blocks] != ["paragraph_open"]:
            return None
        return self._cut_at(ends, window, place, Continued(joined=True))

    def _cut_at(
        self, ends: Sequence[int], window: str, place: ReadingPlace, continued: Continued | None
    ) -> FinishedPart | None:
        """Return a paragraph up to the last of these ends at which nothing else begins."""
        for end in reversed(ends[-_TRIED:]):
            following = place.at(place.source + end, "row", continued=continued)
            above = self._read_blocks(window[:end], place)
            below = self._read_blocks(window[end:], following)
            if len(above) == 1 and below and _goes_on(above[0].items, below[0].items):
                part = _part(above, place, following.source)
                return replace(part, next=replace(part.next, after="row", continued=continued))
        return None

    def _read(self, text: str, place: ReadingPlace) -> list[Block]:
        """Return the blocks of `text`. If none of them is finished, they become the tail at
        once."""
        if self._last[:2] != (text, place):
            self._last = (text, place, self._read_blocks(text, place))
        return self._last[2]

    def _read_blocks(self, text: str, place: ReadingPlace) -> list[Block]:
        return self._reader.read(
            text,
            base=place.source,
            after=place.after,
            continued=place.continued,
            folds=place.folds,
            references=self._references,
        )

    def _finished_plain(self, place: ReadingPlace, window: str) -> FinishedPart:
        """Return a too large block as plain text, as far as it was looked at."""
        items = plain_lines(window, base=place.source, after=place.after)
        following = place.at(place.source + len(window), "plain", joined=not window.endswith("\n"))
        return FinishedPart(tuple(within(items, place.folds)), following)

    def _finished_row(self, text: str, place: ReadingPlace) -> FinishedPart | None:
        """Return the rest of a line that was cut, or as much of it as is looked at once."""
        begin = place.source
        # Every character of such a line may be a run.
        end = text.find("\n", begin, begin + GLANCE) + 1
        if not end and len(text) - begin <= GLANCE:
            return None
        row = text[begin : end or begin + GLANCE]
        return FinishedPart(
            _row_items(row, place), place.at(begin + len(row), "plain", joined=not end)
        )

    def _finished_fence(
        self, text: str, place: ReadingPlace, fence: OpenFence
    ) -> FinishedPart | None:
        begin = place.source
        limit = begin + LONGEST_BLOCK
        end, lines = begin, 0
        while lines < FENCE_LINES and (stop := text.find("\n", end, limit)) >= 0:
            if not (place.joined and end == begin) and _closes(fence, text[end:stop]):
                items = self._fence_items(text[begin:end], place, fence, closed=stop)
                after = items[-1].block.shape if items else place.after
                return FinishedPart(items, place.at(stop + 1, after), (fence.panel,))
            end, lines = stop + 1, lines + 1
        if lines < FENCE_LINES and len(text) <= limit:
            return None
        joined = end == begin  # one line that is longer than the part looked at
        end = limit if joined else end
        items = self._fence_items(text[begin:end], place, fence)
        return FinishedPart(
            items, place.at(end, "code", fence=replace(fence, begun=True), joined=joined)
        )

    def _fence_items(
        self, text: str, place: ReadingPlace, fence: OpenFence, *, closed: int = 0
    ) -> tuple[Item, ...]:
        """Return the lines of `text`. `closed`: the end of the line that ends the code block."""
        if closed and fence.info == "math" and not fence.begun:  # read as a whole, a formula
            whole = self.text[fence.panel : closed]
            blocks = self._read_blocks(whole, replace(place, source=fence.panel))
            return tuple(item for block in blocks for item in block.items)
        block_style, after = BlockStyle(panel=fence.panel), place.after
        items: list[Item] = []
        if not fence.begun:
            items.append(
                label_line(
                    self.text,
                    fence.info,
                    begin=fence.panel,
                    base=0,
                    block_style=block_style,
                    after=after,
                )
            )
            after = "label"
        content, places, at = "", [], place.source
        for index, row in enumerate(text.split("\n")):
            spare = len(row) - len(row.lstrip(" ")) if index or not place.joined else 0
            spare = min(spare, fence.indent)
            places.append((len(content), at + spare))
            content += row[spare:] + "\n"
            at += len(row) + 1
        content = content.removesuffix("\n")  # `split` adds an empty text after the last line end
        joined = place.joined
        code = replace(block_style, shape="code")
        items += lines_of(
            content, block_style=code, places=tuple(places), after=after, joined=joined
        )
        return tuple(within(items, place.folds))


def _part(blocks: Sequence[Block], place: ReadingPlace, end: int) -> FinishedPart:
    """Return these blocks, which begin at `place`, as a part that ends at `end`."""
    items = tuple(item for block in blocks for item in block.items)
    after = items[-1].block.shape if items else place.after
    folds = blocks[-1].folds if blocks else place.folds
    return FinishedPart(items, replace(place.at(end, after), folds=folds), _panels(items))


def _continued(quote: Block, place: ReadingPlace) -> Continued:
    """Return what a quote that is cut hands on: the colour of its bar. An empty quote has no bar,
    nor has a quote that is too deep to be read."""
    bars = quote.items[0].block.bars[len(place.folds) :] if quote.items else ()
    return Continued(tone=bars[0].tone) if bars else Continued()


def _goes_on(above: Sequence[Item], below: Sequence[Item]) -> bool:
    """Return whether a line below continues the paragraph above, and begins nothing else."""
    last, first = (
        [replace(item.block, above=0, joined=False) for item in items]
        for items in (above[-1:], below[:1])
    )
    return last == first


def _fence_at(text: str, begin: int) -> re.Match[str] | None:
    """Return the line that opens a code block at this place."""
    found = _FENCE.match(text, begin)
    return None if found and found[2][0] == "`" and "`" in found[3] else found


def _panels(items: Sequence[Item]) -> tuple[int, ...]:
    """Return the code blocks that begin in `items`."""
    panels = (item.block.panel for item in items if item.block.shape == "label")
    return tuple(panel for panel in panels if panel is not None)


def _reasoning_header(source: int) -> TextLine:
    run = TextRun("Thinking", Style(role="label"), source, 0)
    return TextLine(BlockStyle("reasoning", reasoning=True), (run,))


def _reasoned(items: Sequence[Item]) -> tuple[Item, ...]:
    """Return `items` as a part of the reasoning, next to its bar."""
    return tuple(
        item if item.block.reasoning else beside(item, 1, reasoning=True) for item in items
    )


def _closes(fence: OpenFence, row: str) -> bool:
    """Return whether a line ends a code block."""
    mark = row.strip(" \t")
    indent = len(row) - len(row.lstrip(" "))
    closing = mark.startswith(fence.mark) and not mark.strip(fence.mark[0])
    return closing and indent < 4 and row[indent : indent + 1] == fence.mark[0]


def _row_items(row: str, place: ReadingPlace) -> tuple[Item, ...]:
    items = plain_lines(row, base=place.source, after=place.after, joined=True) if row else []
    return tuple(within(items, place.folds))
