"""Converts Markdown blocks to the lines and tables of a page.

markdown-it finds the blocks but not the source of their text, so this is recorded while it reads.
Knows nothing of growing texts (`app.markdown.streaming`) and of Qt.

Reads CommonMark, tables, strikethrough and the rules of `app.markdown.rules`; task lists and
admonitions by their marks. Raw HTML that is unknown is shown as text. Links by reference get their
addresses from the caller, as a definition may come later than the link; it is shown as a small
line. A line end in a paragraph stays a line end, as in most chats.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, cast

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token
from markdown_it.utils import EnvType

from app.markdown import rules
from app.markdown.cuts import (
    Continued,
    Cut,
    find_cuts,
    too_much,
    without_header,
)
from app.markdown.inline import inline_runs, parser
from app.markdown.lines import (
    After,
    Places,
    label_line,
    lines_of,
    located,
    plain_lines,
    space_above,
)
from app.markdown.page import (
    BAR_LEFT,
    BREAK,
    OBJECT,
    Alignment,
    Bar,
    BlockStyle,
    Item,
    Shape,
    Style,
    Table,
    TextLine,
    TextRun,
    Tone,
    beside,
    source_runs,
    with_block,
)

_LIST_LEFT = 24  # pixels
_NUMBERS_LEFT, _DIGIT = 30, 8.5  # of a list with numbers of at most two digits; for each more
_DEFINITION = re.compile(r" {0,3}\[[^\[\]]+\]:\s")
_ADMONITION = re.compile(r"\[!([A-Za-z]+)\][+-]?[ \t]*([^\n]*)(?:\n|$)")
_TONES: dict[str, Tone] = {
    **dict.fromkeys(("note", "info", "abstract", "question", "example"), "note"),
    **dict.fromkeys(("tip", "hint", "success"), "tip"),
    "important": "important",
    **dict.fromkeys(("warning", "attention"), "warning"),
    **dict.fromkeys(("caution", "danger", "error", "bug"), "caution"),
}
BOXES = {"[ ] ": "\u2610", "[x] ": "\u2611", "[X] ": "\u2611"}
_BULLETS = "\u2022\u25e6\u2013"  # each lighter than the one around it
_SPACE = " \t\n\r\x0b\x0c"
_STRONG = re.compile(r"[^\W\d_]")  # a letter


@dataclass(frozen=True, slots=True)
class Block:
    """A block at the top level: its first line in the text, that line's place in the source, and
    the block's lines on the page.

    An `open` block is a formula or an HTML table that the text ends in: later text decides whether
    it is, and where the block before it ends. `cuts` are where the block may be cut; a block
    that is too long to be shown at once, `over`, must be cut at the last of them. `folds`: the
    details that are open after it.
    """

    first: int
    begin: int
    items: tuple[Item, ...]
    kind: str
    open: bool
    cuts: tuple[Cut, ...] = ()
    over: bool = False
    folds: tuple[int, ...] = ()


class BlockReader:
    """Reads blocks. Holds only the parser, no text."""

    def __init__(self) -> None:
        self._md = parser().disable("reference")

    def read(
        self,
        text: str,
        *,
        base: int,
        after: After | None,
        continued: Continued | None = None,
        folds: tuple[int, ...] = (),
        references: Mapping[str, Any] | None = None,
    ) -> list[Block]:
        """Return the blocks of `text`, which begins at `base` in the source, below a line of shape
        `after`, in the details `folds`. A block that is nested too deep is shown as plain text.

        `continued`: the first block is the next part of a block that was cut. `references`: the
        addresses of links, as markdown-it has them.
        """
        header = continued.header if continued else ""
        text, base = header + text, base - len(header)
        state = _State(text, self._md, {}, [])
        self._md.block.tokenize(state, 0, state.lineMax)
        blocks: list[Block] = []
        for tokens in _top_level(state.tokens):
            first, last = tokens[0].map or (0, 0)
            begin, end = state.line_starts[first], state.line_starts[last]
            cuts, over = find_cuts(tokens, text, state.line_starts)
            if too_much(tokens, text[begin:end], cuts):
                items = plain_lines(text[begin:end], base=base + begin, after=after)
                cuts, over = (), False
            else:
                builder = _Builder(
                    self._md,
                    state,
                    base=base,
                    after=after,
                    references=references or {},
                    continued=(not blocks and continued) or Continued(),
                )
                items = builder.build(tokens)
            if header and not blocks:
                items, begin = [without_header(items[0]), *items[1:]], len(header)
            items, folds = _folded(items, folds)
            lines = header.count("\n")
            blocks.append(
                Block(
                    max(0, first - lines),
                    base + begin,
                    tuple(_directed(items)),
                    tokens[0].type,
                    any(token.meta.get("open", False) for token in tokens),
                    tuple(Cut(cut.line - lines, cut.after) for cut in cuts),
                    over,
                    folds,
                )
            )
            after = items[-1].block.shape if items else after
        return blocks


def within(items: Sequence[Item], folds: tuple[int, ...]) -> list[Item]:
    """Return `items` as parts of these details, next to their bars."""
    return [beside(item, len(folds), folds=folds) if folds else item for item in items]


def _folded(items: list[Item], folds: tuple[int, ...]) -> tuple[list[Item], tuple[int, ...]]:
    """Return the items of one block in the details `folds`, and the details that are open after
    it."""
    shapes = [item.block.shape for item in items]
    if "summary" in shapes:
        inner = (*folds, *items[0].block.folds)
        summary = with_block(within(items[:1], folds)[0], folds=inner)
        rest = [item for item in items[1:] if item.block.shape != "fold_end"]
        end = [with_block(item, folds=inner) for item in items[1:] if item not in rest]
        return [summary, *within(rest, inner), *end], folds if end else inner
    if "fold_end" in shapes:
        end = [with_block(item, folds=folds) for item in items]
        return (end, folds[:-1]) if folds else ([], ())
    return within(items, folds), folds


def _directed(items: Sequence[Item]) -> Iterator[Item]:
    """Iterate over `items` with their directions. A line without a letter goes as the one
    before."""
    rtl = False
    for item in items:
        if item.block.shape in ("text", "heading", "summary") and isinstance(item, TextLine):
            rtl = _is_rtl(item.runs, otherwise=rtl)
            item = with_block(item, rtl=True) if rtl else item
        yield item


def _is_rtl(runs: Sequence[TextRun], *, otherwise: bool) -> bool:
    """Return whether the first letter outside of code is of a script from right to left."""
    texts = (run.text for run in runs if run.style.role == "text")
    if not any(map(_STRONG.search, texts)):
        return otherwise
    plain = [run.text for run in runs if run.style.role == "text" and not run.style.code]
    for character in "".join(plain):
        kind = unicodedata.bidirectional(character)
        if kind in ("L", "R", "AL"):
            return kind != "L"
    return False


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
        elif ttype in ("inline", "formula_block", "details_open", "html_table"):
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


class _Builder:
    """Goes through the tokens of one block and collects its lines."""

    def __init__(
        self,
        md: MarkdownIt,
        state: _State,
        *,
        base: int,
        after: After | None,
        references: Mapping[str, Any],
        continued: Continued,
    ) -> None:
        self._md = md
        self._state = state
        self._base = base
        self._after = after
        self._env = {"references": references}
        self._continued = continued
        self._items: list[Item] = []
        self._left = 0
        self._bars: tuple[Bar, ...] = ()
        self._lists: list[int] = []  # the room at the left of each
        self._bullets = 0  # of the lists that are open, those without numbers
        self._marker: tuple[TextRun, ...] = ()
        self._new_list = False

    def build(self, tokens: Sequence[Token]) -> list[Item]:
        index = 0
        while index < len(tokens):
            token = tokens[index]
            match token.type:
                case "bullet_list_open" | "ordered_list_open":
                    self._new_list = not self._lists and self._after != "item"
                    self._lists.append(_room_for_numbers(tokens[index:]))
                    self._bullets += token.type == "bullet_list_open"
                    self._left += self._lists[-1]
                case "bullet_list_close" | "ordered_list_close":
                    self._left -= self._lists.pop()
                    self._bullets -= token.type == "bullet_list_close"
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
                    titled = admonition(tokens[index + 1 : index + 3])
                    tone = titled[1] if titled else ""
                    tone, self._continued = tone or self._continued.tone, Continued()
                    self._bars += (Bar(self._left, tone),)
                    self._left += BAR_LEFT
                    if titled:
                        self._write_admonition(tokens[index + 2], *titled)
                        index += 3
                case "blockquote_close":
                    self._bars = self._bars[:-1]
                    self._left -= BAR_LEFT
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
                case "details_open":
                    self._write_summary(token)
                case "details_close":
                    if not token.level:
                        self._add(TextLine(BlockStyle("fold_end"), ()))
                case "html_table":
                    self._write_html_table(token)
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
        joined = self._continued.joined and self._after == "row"
        return BlockStyle(shape, above=above, left=self._left, bars=self._bars, joined=joined)

    def _add(self, item: Item) -> None:
        self._items.append(item)
        self._after = item.block.shape

    def _open_item(self, token: Token) -> None:
        """Keep the item's marker for its first line."""
        if token.info:
            shown_as, length = token.info + token.markup, len(token.info) + 1
        else:
            shown_as, length = _BULLETS[min(len(_BULLETS), self._bullets) - 1], 1
        source = self._base + token.meta["start"]
        self._marker = (TextRun(shown_as, Style(role="marker"), source, length),)

    def _write_marker(self) -> None:
        """Write a line for a marker without text next to it."""
        if self._marker:
            block_style = self._block_style("text", tight=True)
            self._add(TextLine(replace(block_style, marker=self._marker[0].text), self._hang()))

    def _hang(self) -> tuple[TextRun, ...]:
        """Return the marker, and the step to the beginning of the text."""
        marker, self._marker = self._marker, ()
        end = marker[0].end
        return (*marker, TextRun("\t", Style(role="marker"), end, 0))

    def _write_text(
        self, token: Token, shape: Shape, *, level: int = 0, tight: bool = False
    ) -> None:
        block_style = replace(self._block_style(shape, tight=tight), level=level)
        defines = all(map(_DEFINITION.match, token.content.split("\n")))
        runs = self._inline(token, Style(bold=shape == "heading", small=defines))
        if self._marker:
            box = BOXES.get(token.content[:4])
            if box and shape == "text":
                runs = self._inline(token, Style(), skip=4)
                marker = self._marker[0]
                length = self._place(token, 3) - marker.source
                self._marker = (replace(marker, text=box, length=length),)
            block_style = replace(block_style, marker=self._marker[0].text)
            runs = [*self._hang(), *runs]
        if runs or not token.content:
            self._add_lines(block_style, runs)

    def _write_admonition(
        self, token: Token, length: int, tone: Tone, kind: str, title: str
    ) -> None:
        """Write the title of an admonition, and the paragraph after it. `length` is that of its
        first line."""
        style = Style(bold=True, tone=tone)
        first = token.content[:length].rstrip("\n")
        if title:
            begin = first.rindex(title)
            runs = self._inline(token, style, skip=begin, end=begin + len(title))
        else:
            run = TextRun(kind.capitalize(), style, 0, len(first))
            runs = located([run], self._places(token))
        self._add(TextLine(self._block_style("text"), tuple(runs)))
        if rest := self._inline(token, Style(), skip=length):
            self._after = "heading"
            self._add_lines(self._block_style("text"), rest)

    def _write_summary(self, token: Token) -> None:
        """Write the summary of details, which folds them, and the text on its line."""
        self._write_marker()
        begin, end = token.meta["summary"]
        runs = self._inline(token, Style(bold=True), skip=begin, end=end)
        if not runs:
            runs = located([TextRun("Details", Style(bold=True), 0, 0)], self._places(token))
        block_style = self._block_style("summary")
        if token.level:  # within a list or a quote, nothing folds
            block_style = replace(block_style, shape="text")
        else:
            block_style = replace(block_style, folds=(self._place(token, 0),))
        self._add(TextLine(block_style, tuple(runs)))
        begin, end = token.meta["rest"]
        if inside := self._inline(token, Style(), skip=begin, end=end):
            self._add_lines(self._block_style("text"), inside)
        if token.meta["closed"] and not token.level:
            self._add(TextLine(BlockStyle("fold_end"), ()))

    def _write_html_table(self, token: Token) -> None:
        """Write a table in HTML; its source if it has no cells."""
        self._write_marker()
        rows: list[list[TextLine]] = []
        for cells in rules.html_cells(token.content):
            rows.append([])
            for begin, end, tag, aligned in cells:
                runs = _trimmed(self._inline(token, Style(bold=tag == "th"), skip=begin, end=end))
                block_style = BlockStyle(alignment=cast(Alignment, aligned))
                rows[-1].append(TextLine(block_style, tuple(runs)))
        if not rows:
            self._add_lines(self._block_style("text"), self._inline(token, Style()))
            return
        width = max(map(len, rows))
        empty = TextLine(BlockStyle(), ())
        table = tuple((*row, *[empty] * (width - len(row))) for row in rows)
        self._add(Table(self._block_style("text"), table))

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

    def _inline(
        self, token: Token, style: Style, *, skip: int = 0, end: int | None = None
    ) -> list[TextRun]:
        """Return the runs of a token's content from `skip` to `end`."""
        while skip < len(token.content) and token.content[skip] in _SPACE:
            skip += 1
        places = tuple((start - skip, at) for start, at in self._places(token))
        content = token.content[skip:end].rstrip(_SPACE)
        return located(inline_runs(self._md, content, style, self._env), places)

    def _write_code(self, token: Token) -> None:
        self._write_marker()
        places = tuple((at, self._base + place) for at, place in token.meta["places"])
        first, last = token.map or (0, 0)
        start = self._state.line_starts[first]
        closed = token.content.endswith("\n") and last - first == token.content.count("\n") + 2
        if token.info.strip() == "math" and closed and rules.can_be_formula(token.content):
            self._write_math(token, self._state.src.find(token.markup, start), places)
            return
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
        code = replace(block_style, shape="code")
        for line in lines_of(token.content, block_style=code, places=places, after="label"):
            self._add(line)

    def _write_math(self, token: Token, start: int, places: Places) -> None:
        """Write a formula in a fence that begins at `start`. In a quote or a list, only its content
        is one piece of the source."""
        written = f"{token.markup}math\n{token.content}{token.markup}"
        run = TextRun(OBJECT, Style(formula=written), 0, len(token.content))
        if self._state.src.startswith(written, start):
            run, places = replace(run, length=len(written)), ((0, self._base + start),)
        self._add(TextLine(self._formula_style(), tuple(located([run], places))))

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
        columns = self._continued.columns
        self._add(Table(self._block_style("text"), tuple(rows), columns))

    def _cell(self, token: Token, opening: Token, *, column: int) -> TextLine:
        style = str(opening.attrGet("style") or "")
        alignment = cast(Alignment, style.removeprefix("text-align:"))
        block_style = BlockStyle(alignment=alignment)
        row = token.meta["text"]
        columns = _cells(row)
        if not token.content or column >= len(columns):
            return TextLine(block_style, ())
        begin, end = columns[column]
        begin += len(row[begin:end]) - len(row[begin:end].lstrip())
        start = self._base + token.meta["places"][0][1] + begin
        escaped = enumerate(re.finditer(r"\\\|", row[begin:end]))
        places = ((0, start), *((bar.start() - n, start + bar.end() - 1) for n, bar in escaped))
        bold = Style(bold=opening.type == "th_open")
        runs = inline_runs(self._md, token.content, bold, self._env)
        return TextLine(block_style, tuple(located(runs, places)))


def _room_for_numbers(tokens: Sequence[Token]) -> int:
    """Return the pixels at the left of a list, whose tokens these begin with: its numbers need
    them."""
    longest, level = 0, tokens[0].level
    for token in tokens:
        if token.level == level and token.nesting < 0:
            break
        if token.level == level + 1 and token.type == "list_item_open":
            longest = max(longest, len(token.info))
    return round(_NUMBERS_LEFT + _DIGIT * max(0, longest - 2)) if longest else _LIST_LEFT


def admonition(tokens: Sequence[Token]) -> tuple[int, Tone, str, str] | None:
    """Return the length of the first line of an admonition, its tone, kind and title; None if the
    paragraph in these tokens begins none."""
    if not tokens or tokens[0].type != "paragraph_open":
        return None
    found = _ADMONITION.match(tokens[1].content)
    tone = _TONES.get(found[1].lower()) if found else None
    return (found.end(), tone, found[1], found[2].strip()) if found and tone else None


def _is_apart(run: TextRun) -> bool:
    return bool(run.style.formula) and rules.latex_of(run.style.formula)[1]


def _trimmed(runs: Sequence[TextRun]) -> Sequence[TextRun]:
    """Return a line without the empty text at its ends, next to a tag or a formula."""
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


def _cells(row: str) -> list[tuple[int, int]]:
    """Return where the cells of a table's row begin and end, as markdown-it cuts it. A bar after a
    backslash is text; the backslash is not."""
    bars = (found.start() for found in re.finditer(r"(?<!\\)\|", row))
    cells = [(begin + 1, end) for begin, end in pairwise((-1, *bars, len(row)))]
    if not row[slice(*cells[0])].strip():
        del cells[0]
    if cells and not row[slice(*cells[-1])].strip():
        del cells[-1]
    return cells
