"""A growing text, divided into finished parts and a tail.

Knows Markdown's blocks through `app.markdown.blocks`; nothing of Qt or time. The same text gives
the same parts in whatever pieces it arrives: whether a block is finished follows from the text
alone.

Text before the answer between marks such as `<think>` and `</think>` is the model's reasoning. Some
models get the opening mark in the prompt and write only the closing mark: then all text before it
becomes reasoning, and the text must be read again from its beginning.

The work for each part is limited: a list is cut between its entries, a fence between its lines, and
any other block of more than `LONGEST_BLOCK` characters is shown as plain text.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from app.markdown.blocks import (
    After,
    Block,
    BlockReader,
    code_lines,
    label_line,
    parts_of_line,
    plain_lines,
)
from app.markdown.page import BlockStyle, Item, Style, TextLine, TextRun

LONGEST_BLOCK = 6_000  # characters
GLANCE = 2_000
FENCE_LINES = 100
_SETTLING_LINES = 2  # the second line shows whether it is a table
_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})([^\n]*)")
_BLANK = re.compile(r"(?:[ \t]*\n)+")
_REASONING = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "[THINK]": "[/THINK]",
    "<|channel|>analysis<|message|>": "<|end|><|start|>assistant<|channel|>final<|message|>",
}
_OPENING = re.compile(rf"\s*({'|'.join(map(re.escape, _REASONING))})")
_LONE_CLOSING = re.compile(r"^</think>[ \t]*\n", re.MULTILINE)
_REASONING_LEFT = 16  # pixels


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

    `after`: what is above it. `joined`: it is in a line that was cut. `reasoning`: the mark that
    ends the current reasoning; empty outside of it.
    """

    source: int = 0
    after: After | None = None
    fence: OpenFence | None = None
    joined: bool = False
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class ReasoningSpan:
    """The place of the reasoning in the given text, without its marks. `closed`: it has ended."""

    start: int
    end: int
    closed: bool


@dataclass(frozen=True, slots=True)
class FinishedPart:
    """Items, and the place behind them where reading continues.

    `closed` are the code blocks that end here.
    """

    items: tuple[Item, ...]
    next: ReadingPlace
    closed: tuple[int, ...] = ()


class _StreamingText:
    """The text so far, and the places of its characters: only carriage returns are left out."""

    def __init__(self) -> None:
        # Joined when read: adding to one string would copy it at each of a thousand pieces.
        self._parts = [""]
        self._returns: list[int] = []  # in the given text, carriage returns before a "\n"
        self._lone: list[int] = []  # in the given text, those without a "\n"
        self._given = 0
        self._held = ""

    @property
    def text(self) -> str:
        """The text with uniform line ends."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0]

    @property
    def given(self) -> str:
        """The text as it was given, with its own line ends."""
        characters = list(self.text)
        for lone in self._lone:
            characters[self.place_of(lone)] = "\r"
        for place in map(self.place_of, self._returns):
            characters[place] = "\r\n"
        return "".join(characters) + self._held

    def append(self, delta: str) -> None:
        """Add text. A carriage return at its end waits for the next character."""
        delta, self._held = self._held + delta, ""
        if delta.endswith("\r"):
            delta, self._held = delta[:-1], "\r"
        for found in re.finditer("\r(\n?)", delta):
            (self._returns if found[1] else self._lone).append(self._given + found.start())
        self._given += len(delta)
        self._parts.append(delta.replace("\r\n", "\n").replace("\r", "\n"))

    def place_of(self, given: int) -> int:
        """Return the place in `text` of the character at this place of the given text."""
        return given - bisect_left(self._returns, given)

    def given_at(self, place: int) -> int:
        """Return the place in the given text of the character at this place."""
        return place + sum(given - n <= place for n, given in enumerate(self._returns))


class StreamingPlainText(_StreamingText):
    """Text that is shown unchanged: a person's."""

    restarted = False
    reasoning = None

    @property
    def answer(self) -> str:
        """The text as it was given: a person writes no reasoning."""
        return self.given

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
        self._searched = 0  # beginning of the last line that was searched
        self._seen = 0  # length of the text at the last search
        self._lone_end = -1  # where found

    @property
    def restarted(self) -> bool:
        """Whether the text turned out to begin with reasoning, so that it must be read again."""
        text = self.text
        if self._lone_end < 0 and self._seen < len(text) and not _OPENING.match(text):
            self._seen = len(text)
            found = _LONE_CLOSING.search(text, self._searched)
            if found and "<think>" not in text[: found.start()]:
                self._lone_end = found.start()
            self._searched = text.rfind("\n") + 1
        return self._lone_end >= 0

    @property
    def reasoning(self) -> ReasoningSpan | None:
        """The place of the reasoning; None if there is none."""
        found = self._opening()
        if found is None:
            return None
        start, mark = found
        end = self.text.find(mark, start)
        closed = end >= 0
        end = end if closed else len(self.text)
        if closed and not self.text[start:end].strip():
            return None
        return ReasoningSpan(self.given_at(start), self.given_at(end), closed)

    @property
    def answer(self) -> str:
        """The text as it was given, without the reasoning and its marks."""
        span, given = self.reasoning, self.given
        if span is None:
            return given
        mark = self._opening()
        behind = span.end + len(mark[1]) if mark and span.closed else span.end
        return given[behind:].lstrip()

    def finished(self, place: ReadingPlace) -> FinishedPart | None:
        """Return the next part that later text cannot change; None if there is none yet."""
        if part := self._begun_reasoning(place):
            return part
        if not place.reasoning:
            return self._finished(self.text, place)
        end = self.text.find(place.reasoning, place.source)
        closed = end >= 0
        text = self.text[:end] if closed else _without_begun(self.text, place.reasoning)
        part = self._finished(text, place)
        if part is not None:
            part = replace(part, next=replace(part.next, reasoning=place.reasoning))
        elif closed:
            after = ReadingPlace(end + len(place.reasoning), "reasoning")
            fences = (place.fence.panel,) if place.fence else ()
            items = self._tail(text, place)
            part = FinishedPart(items, after, (*fences, *_panels(items)))
        return replace(part, items=_reasoned(part.items)) if part else None

    def tail(self, place: ReadingPlace) -> tuple[Item, ...]:
        """Return the unfinished tail as it would look now. Call this when `finished` returns
        None."""
        if found := self._opening_at(place):
            return (_reasoning_header(found[0]),)
        items = self._tail(self.text, place)
        return _reasoned(items) if place.reasoning else items

    def _opening(self) -> tuple[int, str] | None:
        """The beginning of the reasoning, and the mark that ends it."""
        if self.restarted:
            return 0, "</think>"
        found = _OPENING.match(self.text)
        return (found.end(), _REASONING[found[1]]) if found else None

    def _begun_reasoning(self, place: ReadingPlace) -> FinishedPart | None:
        """Return the header if the reasoning begins here; nothing for empty reasoning."""
        found = self._opening_at(place)
        if found is None:
            return None
        begin, mark = found
        end = self.text.find(mark, begin)
        inside = self.text[begin:end] if end >= 0 else _without_begun(self.text, mark)[begin:]
        if inside.strip():
            behind = ReadingPlace(begin, "reasoning", reasoning=mark)
            return FinishedPart((_reasoning_header(begin),), behind)
        return FinishedPart((), ReadingPlace(end + len(mark))) if end >= 0 else None

    def _opening_at(self, place: ReadingPlace) -> tuple[int, str] | None:
        """Return `_opening` if the reading has reached it, or nothing stands before this place."""
        if place.reasoning or place.after or place.fence or place.joined:
            return None
        found = self._opening()
        if found is None or place.source > found[0] or self.text[: place.source].strip():
            return None
        return found

    def _finished(self, text: str, place: ReadingPlace) -> FinishedPart | None:
        begin = place.source
        if place.fence:
            return self._finished_fence(text, place, place.fence)
        if place.joined:
            return self._finished_row(text, place)
        if blank := _BLANK.match(text, begin):
            return FinishedPart((), replace(place, source=blank.end()))
        opening = _FENCE.match(text, begin)
        if opening and not (opening[2][0] == "`" and "`" in opening[3]):
            if opening.end() == len(text):
                return None
            fence = OpenFence(opening[2], len(opening[1]), begin, opening[3].strip(), begun=False)
            return FinishedPart((), replace(place, source=opening.end() + 1, fence=fence))
        return self._finished_blocks(text, place)

    def _tail(self, whole: str, place: ReadingPlace) -> tuple[Item, ...]:
        text = whole[place.source :]
        if place.fence:
            last = text.rfind("\n") + 1
            if not (place.joined and last == 0) and _closes(place.fence, text[last:]):
                text = text[:last]
            return self._fence_items(text, place, place.fence)
        if place.joined:
            return tuple(_row_items(text, place))
        blocks = self._read(text, place)
        return tuple(item for block in blocks for item in block.items)

    def _finished_blocks(self, text: str, place: ReadingPlace) -> FinishedPart | None:
        """Read little text first, and more only if that has no finished block."""
        left = len(text) - place.source
        for size in (GLANCE, LONGEST_BLOCK):
            window = text[place.source : place.source + size]
            if cut := left > size:
                window = window[: window.rfind("\n") + 1 or size]
            if part := self._finished_within(window, place, cut=cut):
                return part
            if not cut:
                return None
        end = place.source + len(window)
        if window.endswith("\n") and text.find("\n", end, end + LONGEST_BLOCK) < 0:
            # The next line is too long to be read; the lines above it can still be finished.
            if len(text) - end < LONGEST_BLOCK:
                return None
            blocks = list(takewhile(lambda block: not block.fence, self._read(window, place)))
            fences = [block.begin for block in self._read(window, place) if block.fence]
            return _part(blocks, ReadingPlace(min(fences, default=end), place.after))
        return self._finished_plain(place, window)

    def _finished_within(
        self, window: str, place: ReadingPlace, *, cut: bool
    ) -> FinishedPart | None:
        settled = window.count("\n") - _SETTLING_LINES  # the last line at which a block may begin
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
        # The cut of a long list is invisible: its markers are those of the source.
        stops = [line for line in blocks[0].entries[1:] if line <= settled] if cut else []
        if not stops:
            return None
        end = sum(len(row) + 1 for row in window.split("\n")[: stops[-1]])
        blocks = self._reader.read(window[:end], base=place.source, after=place.after)
        part = _part(blocks, ReadingPlace(place.source + end))
        return replace(part, next=replace(part.next, after="item"))

    def _read(self, text: str, place: ReadingPlace) -> list[Block]:
        """Return the blocks of `text`. If none of them is finished, they become the tail at
        once."""
        if self._last[:2] != (text, place):
            blocks = self._reader.read(text, base=place.source, after=place.after)
            self._last = (text, place, blocks)
        return self._last[2]

    def _finished_plain(self, place: ReadingPlace, window: str) -> FinishedPart:
        """Return a too large block as plain text, as far as it was looked at."""
        items = plain_lines(window, base=place.source, after=place.after)
        end = place.source + len(window)
        return FinishedPart(
            tuple(items), ReadingPlace(end, "plain", joined=not window.endswith("\n"))
        )

    def _finished_row(self, text: str, place: ReadingPlace) -> FinishedPart | None:
        """Return the rest of a line that was cut, or as much of it as is looked at once."""
        begin = place.source
        # Every character of such a line may be a run.
        end = text.find("\n", begin, begin + GLANCE) + 1
        if not end and len(text) - begin <= GLANCE:
            return None
        row = text[begin : end or begin + GLANCE]
        next = ReadingPlace(begin + len(row), "plain", joined=not end)
        return FinishedPart(tuple(_row_items(row, place)), next)

    def _finished_fence(
        self, text: str, place: ReadingPlace, fence: OpenFence
    ) -> FinishedPart | None:
        begin = place.source
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
        joined = end == begin  # one line that is longer than the part looked at
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
        content = content.removesuffix("\n")  # `split` adds an empty text after the last line end
        joined = place.joined
        items += code_lines(
            content, block_style=block_style, places=tuple(places), after=after, joined=joined
        )
        return tuple(items)


def _part(blocks: Sequence[Block], next: ReadingPlace) -> FinishedPart:
    items = tuple(item for block in blocks for item in block.items)
    after = items[-1].block.shape if items else next.after
    return FinishedPart(items, replace(next, after=after), _panels(items))


def _panels(items: Sequence[Item]) -> tuple[int, ...]:
    """Return the code blocks that begin in `items`."""
    panels = (item.block.panel for item in items if item.block.shape == "label")
    return tuple(panel for panel in panels if panel is not None)


def _reasoning_header(source: int) -> TextLine:
    run = TextRun("Reasoning", Style(role="label"), source, 0)
    return TextLine(BlockStyle("reasoning", reasoning=True), (run,))


def _reasoned(items: Sequence[Item]) -> tuple[Item, ...]:
    """Return `items` as a part of the reasoning, beside its bar."""
    return tuple(
        item
        if item.block.reasoning
        else replace(
            item,
            block=replace(
                item.block,
                reasoning=True,
                left=item.block.left + _REASONING_LEFT,
                bars=(0, *(bar + _REASONING_LEFT for bar in item.block.bars)),
            ),
        )
        for item in items
    )


def _without_begun(text: str, mark: str) -> str:
    """Return `text` without a beginning of `mark` at its end."""
    begun = next((n for n in range(len(mark) - 1, 0, -1) if text.endswith(mark[:n])), 0)
    return text[: len(text) - begun]


def _closes(fence: OpenFence, row: str) -> bool:
    """Return whether a line ends a code block."""
    mark = row.strip(" \t")
    indent = len(row) - len(row.lstrip(" "))
    closing = mark.startswith(fence.mark) and not mark.strip(fence.mark[0])
    return closing and indent < 4 and row[indent : indent + 1] == fence.mark[0]


def _row_items(row: str, place: ReadingPlace) -> list[Item]:
    return plain_lines(row, base=place.source, after=place.after, joined=True) if row else []
