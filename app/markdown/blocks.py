"""Converts Markdown blocks to the lines and tables of a page.

markdown-it finds the blocks but not the source of their text, so this is recorded while it reads.
Knows nothing of growing texts (`app.markdown.streaming`) and of Qt.

Reads CommonMark, tables, strikethrough and the rules of `app.markdown.rules`; task lists by their
marks. Does not read raw HTML, which is shown as text, or link definitions, which could change
earlier text. A line end in a paragraph stays a line end, as in most chats.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token
from markdown_it.utils import EnvType

from app.markdown import rules
from app.markdown.inline import WatchedInline, inline_runs, is_web
from app.markdown.page import (
    BREAK,
    OBJECT,
    Alignment,
    BlockStyle,
    Item,
    Shape,
    Style,
    Table,
    TextLine,
    TextRun,
    shown,
    source_runs,
)

LONGEST_LINE = 1_000  # characters; longer code or plain text is cut into several lines
_NESTING = 24  # levels; a list has two
_LIST_LEFT = 24  # pixels
_QUOTE_LEFT = 16
_MOST_CELLS = 600
_MOST_MARKS = 800  # the cost of inline Markdown grows with these
_MARKS = re.compile(r"[*_~`\[\]!<&\\]")
_SPACE = " \t\n\r\x0b\x0c"

After = Shape | Literal["item"]  # what is above: a line of this shape, or the same item of a list

Places = tuple[tuple[int, int], ...]  # places in a content and in the source; both ascending


@dataclass(frozen=True, slots=True)
class Block:
    """A block at the top level: its first line in the text, that line's place in the source, and
    the block's lines on the page.

    `entries` are the first lines of a list's items. An `open` block holds a formula that the text
    ends in: later text decides whether it is a formula, and where the block before it ends.
    """

    first: int
    begin: int
    items: tuple[Item, ...]
    fence: bool
    open: bool
    entries: tuple[int, ...]


class BlockReader:
    """Reads blocks. Holds only the parser, no text."""

    def __init__(self) -> None:
        self._md = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING})
        self._md.inline = WatchedInline()
        self._md.enable(["table", "strikethrough"]).disable(["reference", "html_block"])
        self._md.disable(["html_inline", "fragments_join"])
        interrupts = {"alt": ["paragraph", "reference", "blockquote", "list"]}
        self._md.block.ruler.before("table", "formula_block", rules.formula_block, interrupts)  # type: ignore[arg-type]
        self._md.validateLink = is_web  # type: ignore[assignment]

    def read(self, text: str, *, base: int, after: After | None) -> list[Block]:
        """Return the blocks of `text`, which begins at `base` in the source, below a line of shape
        `after`. A block that is nested too deep is shown as plain text."""
        state = _State(text, self._md, {}, [])
        self._md.block.tokenize(state, 0, state.lineMax)
        blocks: list[Block] = []
        for tokens in _top_level(state.tokens):
            first, last = tokens[0].map or (0, 0)
            begin, end = state.line_starts[first], state.line_starts[last]
            if _too_much(tokens, text[begin:end]):
                items = plain_lines(text[begin:end], base=base + begin, after=after)
            else:
                builder = _Builder(self._md, state, base=base, after=after)
                items = builder.build(tokens)
            fence = tokens[0].type == "fence"
            entries = (
                (token.map or [0])[0]
                for token in tokens
                if token.type == "list_item_open" and token.level == 1
            )
            open = any(token.meta.get("open", False) for token in tokens)
            blocks.append(Block(first, base + begin, tuple(items), fence, open, tuple(entries)))
            after = items[-1].block.shape if items else after
        return blocks


def space_above(shape: Shape, after: After | None) -> int:
    """Return the pixels between a line and the line before it; 0 at the top of a page."""
    if after is None:
        return 12 if shape == "label" else 0
    if shape == after and shape in ("code", "plain"):
        return 0
    if shape == "code" and after == "label":
        return 6
    below_code = 14 if after in ("code", "label") else 0
    return below_code + {"heading": 18, "label": 20, "rule": 14}.get(shape, 9)


def plain_lines(
    text: str, *, base: int, after: After | None, joined: bool = False, shape: Shape = "plain"
) -> list[Item]:
    """Return `text` as plain lines. `joined`: it continues a line."""
    items: list[Item] = []
    place = base
    for row in text.removesuffix("\n").split("\n"):
        for begin, part in parts_of_line(row, LONGEST_LINE):
            block_style = BlockStyle(
                shape, above=space_above(shape, after), joined=joined or begin > 0
            )
            runs = tuple(shown(part, Style(), place + begin, len(part))) if part else ()
            items.append(TextLine(block_style, runs))
            after, joined = shape, False
        place += len(row) + 1
    return items


def parts_of_line(line: str, most: int) -> Iterator[tuple[int, str]]:
    """Divide a line into parts of at most `most` characters, with their places. Parts end with a
    space if possible, as each is shown as a line."""
    begin = 0
    while len(line) - begin > most:
        end = line.rfind(" ", begin, begin + most) + 1 or begin + most
        yield begin, line[begin:end]
        begin = end
    yield begin, line[begin:]


def code_lines(
    text: str, *, block_style: BlockStyle, places: Places, after: After | None, joined: bool = False
) -> Iterator[TextLine]:
    """Return the lines of a code block, or of a part of it. `places` are their places in the
    source.

    `joined`: the first continues the line before.
    """
    begin = 0
    for row in text.removesuffix("\n").split("\n") if text else ():
        for cut in range(0, max(1, len(row)), LONGEST_LINE):
            part = row[cut : cut + LONGEST_LINE]
            runs = located(
                list(shown(part, Style(code=True), begin + cut, len(part))) if part else [], places
            )
            yield TextLine(
                replace(
                    block_style,
                    shape="code",
                    above=space_above("code", after),
                    joined=joined or cut > 0,
                ),
                tuple(runs),
            )
            after, joined = "code", False
        begin += len(row) + 1


def label_line(
    text: str, info: str, *, begin: int, base: int, block_style: BlockStyle, after: After | None
) -> TextLine:
    """Return the label line above a code block that begins at `begin` in `text`: its language."""
    language = info.split(maxsplit=1)[0][:40] if info.strip() else ""
    place = text.find(language, begin) if language else -1
    style = Style(role="label")
    if place < 0:
        runs = [TextRun("code", style, base + begin, 0)]
    else:
        runs = list(shown(language, style, base + place, len(language)))
    return TextLine(
        replace(block_style, shape="label", above=space_above("label", after)), tuple(runs)
    )


def located(runs: Sequence[TextRun], places: Places) -> list[TextRun]:
    """Return the runs of a content with their sources, cut where the content has gaps in the
    source."""
    found: list[TextRun] = []
    starts = [start for start, _ in places]
    for run in runs:
        index = max(0, bisect_right(starts, run.source) - 1)
        while run.exact and index + 1 < len(starts) and starts[index + 1] < run.end:
            cut = starts[index + 1] - run.source
            begin, end = _place(places, index, run.source), places[index + 1][1]
            # Spaces that replace a part of a tab are longer than it, and share its place.
            found.append(TextRun(run.text[:cut], run.style, begin, min(cut, end - begin)))
            run = TextRun(run.text[cut:], run.style, run.source + cut, run.length - cut)
            index += 1
        begin, end = _place(places, index, run.source), 0
        if run.length and not run.exact:  # perhaps over a line end
            index = bisect_right(starts, run.end - 1) - 1
        end = _place(places, index, run.end) if run.length else begin
        if index + 1 < len(places):
            end = min(end, places[index + 1][1])
        found.append(replace(run, source=begin, length=end - begin))
    return found


def _place(places: Places, index: int, offset: int) -> int:
    start, place = places[index]
    return place + offset - start


class _State(StateBlock):
    """Records in the tokens' `meta` where their contents come from, when the rules ask for them."""

    def __init__(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> None:
        super().__init__(src, md, env, tokens)
        self.line_starts = [*self.bMarks[:-1], len(src)]  # quotes move the others
        self.env["lines"] = self.lineMax
        self._text = ""
        self._places: Places = ((0, 0),)
        self._row = Token("", "", 0)

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        token = super().push(ttype, tag, nesting)
        parent = self.tokens[-2] if len(self.tokens) > 1 else token
        if ttype == "tr_open":
            self._row = token
        elif ttype == "list_item_open":
            token.meta["start"] = self.bMarks[self.line] + self.tShift[self.line]
        elif ttype == "inline" and parent.markup.startswith("#"):
            self._note_line(token, (parent.map or [0])[0], skip=len(parent.markup))
        elif ttype == "inline" and parent.type in ("th_open", "td_open"):
            self._note_line(token, (self._row.map or [0])[0], skip=0)
        elif ttype in ("inline", "formula_block"):
            token.meta["text"], token.meta["places"] = self._text, self._places
        return token

    def _note_line(self, token: Token, line: int, *, skip: int) -> None:
        start = self.bMarks[line] + self.tShift[line] + skip
        token.meta["text"] = self.src[start : self.eMarks[line]]
        token.meta["places"] = ((0, start),)

    def getLines(self, begin: int, end: int, indent: int, keepLastLF: bool) -> str:
        rows: list[str] = []
        places: list[tuple[int, int]] = []
        length = 0
        for line in range(begin, end):
            row = super().getLines(line, line + 1, indent, keepLastLF or line + 1 < end)
            start = self.eMarks[line] + row.endswith("\n") - len(row)
            made = 0  # of spaces that replace a part of a tab
            while self.src[start + made] != row[made] if made < len(row) else False:
                made += 1
            if made:
                places.append((length, start + made - 1))
            places.append((length + made, start + made))
            rows.append(row)
            length += len(row)
        self._text, self._places = "".join(rows), tuple(places) or ((0, 0),)
        if self.tokens and self.tokens[-1].type in ("fence", "code_block"):
            self.tokens[-1].meta.setdefault("places", self._places)
        return self._text


def _top_level(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    begin = 0
    for index, token in enumerate(tokens):
        if token.level == 0 and token.nesting <= 0:
            yield tokens[begin : index + 1]
            begin = index + 1


def _too_much(tokens: Sequence[Token], text: str) -> bool:
    """Return whether a block would take long to show, or is nested too deep for markdown-it."""
    if tokens[0].type in ("fence", "code_block", "formula_block"):
        return False
    cells = sum(token.type in ("th_open", "td_open") for token in tokens)
    too_many = cells > _MOST_CELLS or len(_MARKS.findall(text)) > _MOST_MARKS
    return too_many or any(
        token.type in ("list_item_open", "blockquote_open") and token.level + 1 >= _NESTING
        for token in tokens
    )


class _Builder:
    """Goes through the tokens of one block and collects its lines."""

    def __init__(self, md: MarkdownIt, state: _State, *, base: int, after: After | None) -> None:
        self._md = md
        self._state = state
        self._base = base
        self._after = after
        self._items: list[Item] = []
        self._left = 0
        self._bars: tuple[int, ...] = ()
        self._lists: list[Token] = []
        self._marker: tuple[TextRun, ...] = ()
        self._new_list = False

    def build(self, tokens: Sequence[Token]) -> list[Item]:
        index = 0
        while index < len(tokens):
            token = tokens[index]
            match token.type:
                case "bullet_list_open" | "ordered_list_open":
                    self._new_list = not self._lists and self._after != "item"
                    self._lists.append(token)
                    self._left += _LIST_LEFT
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
                    self._left -= _LIST_LEFT
                case "list_item_open":
                    self._write_marker()
                    if not self._new_list and self._after == "text":
                        self._after = "item"
                    self._new_list = False
                    self._open_item(token)
                case "list_item_close":
                    self._write_marker()
                case "blockquote_open":
                    self._write_marker()
                    self._bars += (self._left,)
                    self._left += _QUOTE_LEFT
                case "blockquote_close":
                    self._bars = self._bars[:-1]
                    self._left -= _QUOTE_LEFT
                case "paragraph_open":
                    self._write_text(tokens[index + 1], "text", tight=token.hidden)
                    index += 2
                case "heading_open":
                    self._write_text(tokens[index + 1], "heading", level=int(token.tag[1]))
                    index += 2
                case "hr":
                    self._write_marker()
                    self._add(TextLine(self._block_style("rule"), ()))
                case "fence" | "code_block":
                    self._write_code(token)
                case "formula_block":
                    self._write_formula(token)
                case "table_open":
                    stop = next(
                        at for at in range(index, len(tokens)) if tokens[at].type == "table_close"
                    )
                    self._write_table(tokens[index : stop + 1])
                    index = stop
            index += 1
        return self._items

    def _block_style(self, shape: Shape, *, tight: bool = False) -> BlockStyle:
        above = space_above(shape, self._after)
        if tight and self._after == "item" and shape == "text":
            above = 3
        return BlockStyle(shape, above=above, left=self._left, bars=self._bars)

    def _add(self, item: Item) -> None:
        self._items.append(item)
        self._after = item.block.shape

    def _open_item(self, token: Token) -> None:
        """Keep the item's marker for its first line."""
        if token.info:
            shown_as, length = token.info + token.markup, len(token.info) + 1
        else:
            shown_as, length = "\u2022\u25e6\u25aa"[min(2, len(self._lists) - 1)], 1
        source = self._base + token.meta["start"]
        self._marker = (TextRun(shown_as, Style(role="marker"), source, length),)

    def _write_marker(self) -> None:
        """Write a line for a marker without text beside it."""
        if self._marker:
            self._add(
                TextLine(replace(self._block_style("text", tight=True), hanging=True), self._hang())
            )

    def _hang(self) -> tuple[TextRun, ...]:
        """Return the marker, and the step to the beginning of the text."""
        marker, self._marker = self._marker, ()
        end = marker[0].end
        return (*marker, TextRun("\t", Style(role="marker"), end, 0))

    def _write_text(
        self, token: Token, shape: Shape, *, level: int = 0, tight: bool = False
    ) -> None:
        block_style = replace(
            self._block_style(shape, tight=tight), level=level, hanging=bool(self._marker)
        )
        runs = self._inline(token, Style(bold=shape == "heading"))
        if self._marker:
            box = {"[ ] ": "\u2610", "[x] ": "\u2611", "[X] ": "\u2611"}.get(token.content[:4])
            if box and shape == "text":
                runs = self._inline(token, Style(), skip=4)
                marker = self._marker[0]
                length = self._place(token, 3) - marker.source
                self._marker = (replace(marker, text=box, length=length),)
            runs = [*self._hang(), *runs]
        if runs or not token.content:
            self._add_lines(block_style, runs)

    def _add_lines(self, block_style: BlockStyle, runs: Sequence[TextRun]) -> None:
        """Write a paragraph. Each display formula gets its own line."""
        if not runs:
            self._add(TextLine(block_style, ()))
        while runs:
            apart = next((n for n, run in enumerate(runs) if _is_apart(run)), len(runs))
            if text := _trimmed(runs[:apart]):
                self._add(TextLine(block_style, tuple(text)))
            if apart < len(runs):
                self._add(TextLine(self._formula_style(), (runs[apart],)))
            block_style = replace(self._block_style(block_style.shape), level=block_style.level)
            runs = runs[apart + 1 :]

    def _formula_style(self) -> BlockStyle:
        return replace(self._block_style("formula"), alignment="center")

    def _write_formula(self, token: Token) -> None:
        """Write a display formula; the source of an open one."""
        self._write_marker()
        text, places = token.content, self._places(token)
        if token.meta["open"]:
            self._add(
                TextLine(self._block_style("text"), tuple(located(source_runs(text), places)))
            )
            return
        run = TextRun(OBJECT, Style(formula=text), 0, len(text))
        self._add(TextLine(self._formula_style(), tuple(located([run], places))))

    def _places(self, token: Token) -> Places:
        """Return the places of the token's content in the source."""
        before = token.meta["text"].index(token.content)  # spaces at its ends were removed
        return tuple((start - before, self._base + at) for start, at in token.meta["places"])

    def _place(self, token: Token, offset: int) -> int:
        start, place = self._places(token)[0]
        return place + offset - start

    def _inline(self, token: Token, style: Style, *, skip: int = 0) -> list[TextRun]:
        places = tuple((start - skip, at) for start, at in self._places(token))
        return located(inline_runs(self._md, token.content[skip:], style), places)

    def _write_code(self, token: Token) -> None:
        self._write_marker()
        places = tuple((at, self._base + place) for at, place in token.meta["places"])
        start = self._state.line_starts[(token.map or [0])[0]]
        block_style = replace(self._block_style("label"), panel=self._base + start)
        label = label_line(
            self._state.src,
            token.info,
            begin=start,
            base=self._base,
            block_style=block_style,
            after=self._after,
        )
        self._add(label)
        for line in code_lines(
            token.content, block_style=block_style, places=places, after="label"
        ):
            self._add(line)

    def _write_table(self, tokens: Sequence[Token]) -> None:
        self._write_marker()
        rows: list[tuple[TextLine, ...]] = []
        cells: list[TextLine] = []
        for index, token in enumerate(tokens):
            match token.type:
                case "tr_open":
                    cells = []
                case "tr_close":
                    rows.append(tuple(cells))
                case "inline":
                    cells.append(self._cell(token, tokens[index - 1], column=len(cells)))
        self._add(Table(self._block_style("text"), tuple(rows)))

    def _cell(self, token: Token, opening: Token, *, column: int) -> TextLine:
        style = str(opening.attrGet("style") or "")
        alignment = cast(Alignment, style.removeprefix("text-align:"))
        block_style = BlockStyle(alignment=alignment)
        columns = _cells(token.meta["text"])
        if not token.content or column >= len(columns):
            return TextLine(block_style, ())
        text, places = columns[column]
        before = text.index(token.content)
        start = self._base + token.meta["places"][0][1]
        moved = tuple((at - before, start + place) for at, place in places)
        bold = Style(bold=opening.type == "th_open")
        return TextLine(
            block_style, tuple(located(inline_runs(self._md, token.content, bold), moved))
        )


def _is_apart(run: TextRun) -> bool:
    return bool(run.style.formula) and rules.latex_of(run.style.formula)[1]


def _trimmed(runs: Sequence[TextRun]) -> Sequence[TextRun]:
    """Return a line without the empty text at its ends, beside a tag or a formula."""
    first, end = 0, len(runs)
    while first < end and runs[first].text == BREAK:
        first += 1
    while first < end and runs[end - 1].text == BREAK:
        end -= 1
    kept = list(runs[first:end])
    if kept and kept[0].exact and kept[0].style.role == "text" and not kept[0].style.code:
        text = kept[0].text.lstrip(" ")
        spare = len(kept[0].text) - len(text)
        kept[0] = TextRun(text, kept[0].style, kept[0].source + spare, len(text))
    return kept if any(run.text for run in kept) else []


def _cells(row: str) -> list[tuple[str, Places]]:
    """Return the cells of a table's row, as markdown-it cuts them, and their places in it.

    A bar after a backslash is text; the backslash is not.
    """
    cells: list[tuple[str, Places]] = []
    text, places = "", [(0, 0)]
    for place, character in enumerate(row):
        escaped = place > 0 and row[place - 1] == "\\"
        if character == "|" and not escaped:
            cells.append((text, tuple(places)))
            text, places = "", [(0, place + 1)]
        elif character == "|":
            text = text[:-1] + "|"
            places.append((len(text) - 1, place))
        else:
            text += character
    cells.append((text, tuple(places)))
    if cells and not cells[0][0].strip(_SPACE):
        cells.pop(0)
    if cells and not cells[-1][0].strip(_SPACE):
        cells.pop()
    return cells
