"""Lines of plain text, of code and of its label; and where the characters of a content stand in the
source.

Knows lines; no Markdown.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from app.markdown.page import BlockStyle, Item, Shape, Style, TextLine, TextRun, shown

LONGEST_LINE = 1_000  # characters; longer code or plain text is cut into several lines

# The line above: a line of this shape, the same list's item before, or the same paragraph's line.
After = Shape | Literal["item", "row"]

Places = tuple[tuple[int, int], ...]  # places in a content and in the source; both ascending


def space_above(shape: Shape, after: After | None) -> int:
    """Return the pixels between a line and the line before it; 0 at the top of a page."""
    if after is None:
        return 12 if shape == "label" else 0
    if after == "row" or (shape == after and shape in ("code", "plain")):
        return 0
    if shape == "code" and after == "label":
        return 6
    if after == "heading" and shape in ("text", "heading", "summary"):
        return 5 if shape != "heading" else 12
    below_code = 14 if after in ("code", "label") else 0
    return below_code + {"heading": 22, "label": 20, "rule": 16}.get(shape, 10)


def plain_lines(text: str, *, base: int, after: After | None, joined: bool = False) -> list[Item]:
    """Return `text`, which begins at `base` in the source, as plain lines."""
    block, places = BlockStyle("plain"), ((0, base),)
    return list(lines_of(text, block_style=block, places=places, after=after, joined=joined))


def lines_of(
    text: str, *, block_style: BlockStyle, places: Places, after: After | None, joined: bool = False
) -> Iterator[TextLine]:
    """Return the lines of plain text or code, or of a part of it. `places` are their places in the
    source.

    `joined`: the first continues the line before.
    """
    begin, style = 0, Style(code=block_style.shape == "code")
    for row in text.removesuffix("\n").split("\n") if text else ():
        for cut, part in parts_of_line(row, LONGEST_LINE):
            runs = shown(part, style, begin + cut, len(part)) if part else ()
            above = space_above(block_style.shape, after)
            block = replace(block_style, above=above, joined=joined or cut > 0)
            yield TextLine(block, tuple(located(list(runs), places)))
            after, joined = block_style.shape, False
        begin += len(row) + 1


def parts_of_line(line: str, most: int) -> Iterator[tuple[int, str]]:
    """Divide a line into parts of at most `most` characters, with their places. Parts end with a
    space if possible, as each is shown as a line."""
    begin = 0
    while len(line) - begin > most:
        end = line.rfind(" ", begin, begin + most) + 1 or begin + most
        yield begin, line[begin:end]
        begin = end
    yield begin, line[begin:]


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
        if language == "mermaid":
            end = base + place + len(language)
            runs.append(TextRun(": the source of a diagram", style, end, 0))
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
