"""A growing text, cut into parts that are finished and a tail that is not.

Knows Markdown's blocks by `app.markdown.blocks`, and nothing of Qt or time. The same text gives the
same parts, however it arrived: that a block is finished follows from the text alone.

The work for one part is bounded: a list is cut between its entries, a fence between its lines,
and any other block of more than `LONGEST_BLOCK` characters is shown as the text it is.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from app.markdown.blocks import After, Block, BlockReader, code_lines, label_line, plain_lines
from app.markdown.page import BlockStyle, Item

LONGEST_BLOCK = 6_000  # characters
GLANCE = 2_000
FENCE_LINES = 100
_SETTLING_LINES = 2  # a table is known by its second line
_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})([^\n]*)")
_BLANK = re.compile(r"(?:[ \t]*\n)+")


@dataclass(frozen=True, slots=True)
class OpenFence:
    """A code block that has not ended. Its closing line is a row of `mark`, at least as many."""

    mark: str
    indent: int
    panel: int
    info: str
    begun: bool  # whether its label was shown


@dataclass(frozen=True, slots=True)
class ReadingPlace:
    """Where the reading stands: `source` is the first character that is not in a finished part.

    `after`: what stands above it. `joined`: within a line that was cut.
    """

    source: int = 0
    after: After | None = None
    fence: OpenFence | None = None
    joined: bool = False


@dataclass(frozen=True, slots=True)
class FinishedPart:
    """Items, and where the reading goes on behind them.

    `closed` are code blocks that ended here: nothing will be added to them.
    """

    items: tuple[Item, ...]
    next: ReadingPlace
    closed: tuple[int, ...] = ()


class _StreamingText:
    """The text so far, and its characters' places: only carriage returns are left out."""

    def __init__(self) -> None:
        # Joined when it is read: adding to one string would copy it at each of a thousand pieces.
        self._parts = [""]
        self._returns: list[int] = []  # in the text that was given, those before a "\n"
        self._lone: list[int] = []  # in the text that was given, those without one
        self._given = 0
        self._held = ""

    @property
    def text(self) -> str:
        """The text, with all its line ends alike."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0]

    @property
    def given(self) -> str:
        """The text as it was given, with the line ends that it had."""
        characters = list(self.text)
        for lone in self._lone:
            characters[self.place_of(lone)] = "\r"
        for place in map(self.place_of, self._returns):
            characters[place] = "\r\n"
        return "".join(characters) + self._held

    def append(self, delta: str) -> None:
        """More text. A last carriage return waits for what it is."""
        delta, self._held = self._held + delta, ""
        if delta.endswith("\r"):
            delta, self._held = delta[:-1], "\r"
        for found in re.finditer("\r(\n?)", delta):
            (self._returns if found[1] else self._lone).append(self._given + found.start())
        self._given += len(delta)
        self._parts.append(delta.replace("\r\n", "\n").replace("\r", "\n"))

    def place_of(self, given: int) -> int:
        """Where in `text` the character stands that was given at this place."""
        return given - bisect_left(self._returns, given)

    def given_at(self, place: int) -> int:
        """Where in the text that was given the character of this place stands."""
        return place + sum(given - n <= place for n, given in enumerate(self._returns))


class StreamingPlainText(_StreamingText):
    """Text that is shown as it is: what a person wrote."""

    def finished(self, place: ReadingPlace) -> FinishedPart | None:
        """The next part that no more text can change; None where there is none yet."""
        begin = place.source
        if len(self.text) - begin <= GLANCE:
            return None
        end = self.text.rfind("\n", begin, begin + GLANCE) + 1 or begin + GLANCE
        row = self.text[begin:end]
        items = plain_lines(row, base=begin, after=place.after, joined=place.joined)
        return FinishedPart(tuple(items), ReadingPlace(end, "plain", joined=not row.endswith("\n")))

    def tail(self, place: ReadingPlace) -> tuple[Item, ...]:
        """What stands behind the finished parts. For when there is no next."""
        text = self.text[place.source :]
        if not text:
            return ()
        return tuple(plain_lines(text, base=place.source, after=place.after, joined=place.joined))


class StreamingMarkdown(_StreamingText):
    """Text that is read as Markdown."""

    def __init__(self) -> None:
        super().__init__()
        self._reader = BlockReader()
        self._last: tuple[str, ReadingPlace, list[Block]] = ("", ReadingPlace(), [])

    def finished(self, place: ReadingPlace) -> FinishedPart | None:
        """The next part that no more text can change; None where there is none yet."""
        text, begin = self.text, place.source
        if place.fence:
            return self._finished_fence(place, place.fence)
        if place.joined:
            return self._finished_row(place)
        if blank := _BLANK.match(text, begin):
            return FinishedPart((), replace(place, source=blank.end()))
        opening = _FENCE.match(text, begin)
        if opening and not (opening[2][0] == "`" and "`" in opening[3]):
            if opening.end() == len(text):
                return None
            fence = OpenFence(opening[2], len(opening[1]), begin, opening[3].strip(), begun=False)
            return FinishedPart((), replace(place, source=opening.end() + 1, fence=fence))
        return self._finished_blocks(place)

    def tail(self, place: ReadingPlace) -> tuple[Item, ...]:
        """What stands behind the finished parts, as it looks now. For when there is no next."""
        text = self.text[place.source :]
        if place.fence:
            last = text.rfind("\n") + 1
            if not (place.joined and last == 0) and _closes(place.fence, text[last:]):
                text = text[:last]
            return self._fence_items(text, place, place.fence)
        if place.joined:
            return tuple(_row_items(text, place))
        blocks = self._read(text, place)
        return tuple(item for block in blocks for item in block.items)

    def _finished_blocks(self, place: ReadingPlace) -> FinishedPart | None:
        """Looks at little, and at more only where that holds no finished block."""
        left = len(self.text) - place.source
        for size in (GLANCE, LONGEST_BLOCK):
            window = self.text[place.source : place.source + size]
            if cut := left > size:
                window = window[: window.rfind("\n") + 1 or size]
            if part := self._finished_within(window, place, cut=cut):
                return part
            if not cut:
                return None
        end = place.source + len(window)
        if window.endswith("\n") and self.text.find("\n", end, end + LONGEST_BLOCK) < 0:
            # The next line is too long to be read; what stands above it need not suffer.
            if len(self.text) - end < LONGEST_BLOCK:
                return None
            blocks = list(takewhile(lambda block: not block.fence, self._read(window, place)))
            fences = [block.begin for block in self._read(window, place) if block.fence]
            return _part(blocks, ReadingPlace(min(fences, default=end), place.after))
        return self._finished_plain(place, window)

    def _finished_within(
        self, window: str, place: ReadingPlace, *, cut: bool
    ) -> FinishedPart | None:
        settled = window.count("\n") - _SETTLING_LINES  # the last line where a block may begin
        if settled < 0:
            return None
        blocks = self._read(window, place)
        count = 0
        for block, follower in pairwise(blocks):
            if follower.first > settled or block.fence or block.open or follower.open:
                break
            count += 1
        if count:
            return _part(blocks[:count], ReadingPlace(blocks[count].begin, place.after))
        # Nobody sees where a long list is cut: its markers are those of the source.
        stops = [line for line in blocks[0].entries[1:] if line <= settled] if cut else []
        if not stops:
            return None
        end = sum(len(row) + 1 for row in window.split("\n")[: stops[-1]])
        blocks = self._reader.read(window[:end], base=place.source, after=place.after)
        part = _part(blocks, ReadingPlace(place.source + end))
        return replace(part, next=replace(part.next, after="item"))

    def _read(self, text: str, place: ReadingPlace) -> list[Block]:
        """The blocks of `text`; where nothing in it is finished, it is at once the tail."""
        if self._last[:2] != (text, place):
            blocks = self._reader.read(text, base=place.source, after=place.after)
            self._last = (text, place, blocks)
        return self._last[2]

    def _finished_plain(self, place: ReadingPlace, window: str) -> FinishedPart:
        """A block that is too much, as far as it is looked at."""
        items = plain_lines(window, base=place.source, after=place.after)
        end = place.source + len(window)
        return FinishedPart(
            tuple(items), ReadingPlace(end, "plain", joined=not window.endswith("\n"))
        )

    def _finished_row(self, place: ReadingPlace) -> FinishedPart | None:
        """The rest of a line that was cut, or as much of it as is looked at once."""
        begin = place.source
        # Of such a line every character may be a run of its own.
        end = self.text.find("\n", begin, begin + GLANCE) + 1
        if not end and len(self.text) - begin <= GLANCE:
            return None
        row = self.text[begin : end or begin + GLANCE]
        next = ReadingPlace(begin + len(row), "plain", joined=not end)
        return FinishedPart(tuple(_row_items(row, place)), next)

    def _finished_fence(self, place: ReadingPlace, fence: OpenFence) -> FinishedPart | None:
        text, begin = self.text, place.source
        limit = begin + LONGEST_BLOCK
        end, lines = begin, 0
        while lines < FENCE_LINES and (stop := text.find("\n", end, limit)) >= 0:
            if not (place.joined and end == begin) and _closes(fence, text[end:stop]):
                items = self._fence_items(text[begin:end], place, fence)
                after = items[-1].block.shape if items else place.after
                return FinishedPart(items, ReadingPlace(stop + 1, after), (fence.panel,))
            end, lines = stop + 1, lines + 1
        if lines < FENCE_LINES and len(text) <= limit:
            return None
        joined = end == begin  # one line, longer than what is looked at
        end = limit if joined else end
        items = self._fence_items(text[begin:end], place, fence)
        return FinishedPart(
            items, ReadingPlace(end, "code", fence=replace(fence, begun=True), joined=joined)
        )

    def _fence_items(self, text: str, place: ReadingPlace, fence: OpenFence) -> tuple[Item, ...]:
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
        content = content.removesuffix("\n")  # what split found behind the last line's end
        joined = place.joined
        items += code_lines(
            content, block_style=block_style, places=tuple(places), after=after, joined=joined
        )
        return tuple(items)


def _part(blocks: Sequence[Block], next: ReadingPlace) -> FinishedPart:
    items = tuple(item for block in blocks for item in block.items)
    panels = (item.block.panel for item in items if item.block.shape == "label")
    closed = tuple(panel for panel in panels if panel is not None)
    return FinishedPart(
        items, replace(next, after=items[-1].block.shape if items else next.after), closed
    )


def _closes(fence: OpenFence, row: str) -> bool:
    """Whether a line ends a code block."""
    mark = row.strip(" \t")
    indent = len(row) - len(row.lstrip(" "))
    closing = mark.startswith(fence.mark) and not mark.strip(fence.mark[0])
    return closing and indent < 4 and row[indent : indent + 1] == fence.mark[0]


def _row_items(row: str, place: ReadingPlace) -> list[Item]:
    return plain_lines(row, base=place.source, after=place.after, joined=True) if row else []
