"""Rules for markdown-it for text that models write and CommonMark lacks: formulas, plain web
addresses, footnotes, highlighted text, safe HTML tags and comments, tables in HTML, and details
that fold.

Knows markdown-it's states and tokens; not how anything looks. A formula is not parsed: only the
marks around it count, by the rules of pandoc.
"""

import re

from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

from models.in_words import CONTROLS

LONGEST_FORMULA = 4_000  # characters
_CLOSING = {"$": "$", "$$": "$$", "\\(": "\\)", "\\[": "\\]"}
_APART = re.compile(  # the beginnings of formulas on lines of their own
    r"\$\$|\\\[|\\begin\{(?:align(?:at)?|equation|gather|multline|eqnarray|[pbBvV]?matrix|cases)\*?\}"
)
# The characters that may not follow a closing dollar: prices and paths of a shell stay text.
_NO_CLOSING = re.compile(r"[\d{]|(?<![\w)\]}']\$)[^\W\d]")
_ADDRESS = re.compile(r"://[^\s<>\"`\\^{}|\[\]]+")
_TRAILING = ".,:;!?'\"*_~"  # at the end of an address: belongs to the sentence
_FOOTNOTE = re.compile(r"\[\^([^\s\[\]^]{1,30})\]")
_STYLED = (
    *("b", "strong", "i", "em", "u", "ins", "mark", "s", "strike", "del", "small", "sub", "sup"),
    *("kbd", "code", "summary", "a", "span", "font", "q"),
)
ON_LINES = (
    *("p", "div", "center", "section", "details", "ul", "ol", "li"),
    *("h1", "h2", "h3", "h4", "h5", "h6"),
)
_NAMES = "|".join((*_STYLED, *ON_LINES, "br", "img"))
_TAG = re.compile(rf"<(/?)({_NAMES})((?:\s[^<>]*|/)?)>", re.IGNORECASE)
_MARKED = re.compile(
    r"(?<![A-Za-z0-9_=])==(?![\s=])(?:[^=`\n]|`[^`\n]*`|=(?!=))+(?<!\s)==(?![A-Za-z0-9_=])"
)
_AFTER_FORMULA = ".,;:"
_DETAILS = re.compile(r"<details(?:\s[^<>]*)?>\s*", re.IGNORECASE)
_SUMMARY = re.compile(r"<summary(?:\s[^<>]*)?>(.*?)(?:</summary>|$)", re.IGNORECASE)
_DETAILS_END = re.compile(r"</details>\s*$", re.IGNORECASE)
_TABLE = re.compile(r"<table(?:\s[^<>]*)?>", re.IGNORECASE)
_CELL = re.compile(
    r"<tr\b[^<>]*>|<(t[hd])\b([^<>]*)>(.*?)(?=</?(?:t[hdr]|thead|tbody|tfoot|table)\b|$)",
    re.IGNORECASE | re.DOTALL,
)
_HTML_RULE = re.compile(r"<hr\s*/?>\s*$", re.IGNORECASE)


def latex_of(written: str) -> tuple[str, bool]:
    """Return the LaTeX of a formula written with its marks, and whether it is a display formula."""
    if written.startswith("\\begin"):
        return written, True
    if written[0] in "`~":
        return "\n".join(written.split("\n")[1:-1]).strip(), True
    opening = next(mark for mark in ("$$", "$", "\\(", "\\[") if written.startswith(mark))
    at = written.rindex(_CLOSING[opening])
    after = written[at + len(opening) :].strip()
    return written[len(opening) : at].strip() + after, opening in ("$$", "\\[")


def formula(state: StateInline, silent: bool) -> bool:
    """Read a formula in a paragraph. An opening dollar has no space after it; a closing one has
    none before it, and neither a digit nor, after a sign, a letter after it."""
    begin, text = state.pos, state.src
    opening = next((mark for mark in ("$$", "$", "\\(", "\\[") if text.startswith(mark, begin)), "")
    if not opening:
        return False
    inside = begin + len(opening)
    end = _find_closing(text, inside, _CLOSING[opening])
    content = text[inside:end] if end >= 0 else ""
    if not can_be_formula(content):
        return False
    after = end + len(opening)
    if opening == "$" and (
        content != content.strip() or _NO_CLOSING.match(text, after) or "\n\n" in content
    ):
        return False
    if not silent:
        token = state.push("formula", "", 0)
        token.content = text[begin:after]
    state.pos = after
    return True


def formula_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Read a formula on lines of its own, in which nothing else is Markdown: a minus starts no
    list.

    It has no empty line. If the text ends before the formula, it is open.
    """
    if state.is_code_block(start_line):
        return False
    first = _row(state, start_line)
    opening = _APART.match(first)
    if opening is None:
        return False
    closing = _CLOSING.get(opening[0]) or opening[0].replace("begin", "end", 1)
    line, rows = start_line, [first[opening.end() :]]
    while (end := _find_closing(rows[-1], 0, closing)) < 0:
        line += 1
        if line >= end_line:
            break
        row = _row(state, line)
        if not row.strip() or state.sCount[line] < state.blkIndent:
            return False
        rows.append(row)
    is_open = end < 0
    if is_open and line < state.env["lines"]:  # a quote has ended, but not the text
        return False
    after, rows[-1] = rows[-1][end + len(closing) :], rows[-1][:end]
    is_formula = not after.strip(_AFTER_FORMULA + " \t") and can_be_formula("\n".join(rows))
    if not is_open and not is_formula:
        return False
    next_line = line if is_open else line + 1
    return silent or _push_lines(state, "formula_block", start_line, next_line, is_open=is_open)


def details(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Read the first lines of details, up to their summary, or the line that ends them. What is
    between them is Markdown like any other."""
    if state.is_code_block(start_line):
        return False
    row = _row(state, start_line)
    if _DETAILS_END.match(row):
        return silent or _push_lines(state, "details_close", start_line, start_line + 1)
    opening = _DETAILS.match(row)
    if opening is None:
        return False
    if silent:
        return True
    line = start_line + 1
    if opening.end() == len(row) and line < end_line and _SUMMARY.match(_row(state, line)):
        line += 1
    _push_lines(state, "details_open", start_line, line)
    token = state.tokens[-1]
    opening = _DETAILS.match(token.content)
    begin = opening.end() if opening else 0
    summary = _SUMMARY.match(token.content, begin)
    token.meta["summary"] = summary.span(1) if summary else (begin, begin)
    begin = summary.end() if summary else begin
    end = _DETAILS_END.search(token.content, begin)
    token.meta["rest"] = begin, end.start() if end else len(token.content)
    token.meta["closed"] = end is not None
    return True


def html_table(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Read the lines of a table in HTML. If the text ends before the table, it is open."""
    if state.is_code_block(start_line) or not _TABLE.match(_row(state, start_line)):
        return False
    if silent:
        return True
    line = start_line
    while line < end_line and "</table>" not in _row(state, line).lower():
        line += 1
    is_open = line >= end_line
    if is_open and line < state.env["lines"]:  # a quote has ended, but not the text
        return False
    next_line = line if is_open else line + 1
    return _push_lines(state, "html_table", start_line, next_line, is_open=is_open)


def html_cells(table: str) -> list[list[tuple[int, int, str, str]]]:
    """Return the rows of a table in HTML. Each cell is its begin and end in the text, its tag, and
    its alignment, which may be empty."""
    rows: list[list[tuple[int, int, str, str]]] = []
    for found in _CELL.finditer(table):
        if not rows or not found[1]:
            rows.append([])
        if found[1]:
            begin, end = found.span(3)
            begin += len(found[3]) - len(found[3].lstrip())
            end = max(begin, end - len(found[3]) + len(found[3].rstrip()))
            aligned = re.search(r"align\W+(left|center|right)", found[2], re.IGNORECASE)
            side = aligned[1].lower() if aligned else ""
            rows[-1].append((begin, end, found[1].lower(), side))
    return [row for row in rows if row]


def html_rule(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Read a rule in HTML."""
    if state.is_code_block(start_line) or not _HTML_RULE.match(_row(state, start_line)):
        return False
    return silent or _push_lines(state, "hr", start_line, start_line + 1)


def _push_lines(
    state: StateBlock, kind: str, line: int, next_line: int, *, is_open: bool = False
) -> bool:
    """Push a token of these lines, with their content."""
    content = state.getLines(line, next_line, state.sCount[line], False).strip()
    token = state.push(kind, "", 0)
    token.content, token.map = content, [line, next_line]
    token.meta["open"] = is_open
    state.line = next_line
    return True


def address(state: StateInline, silent: bool) -> bool:
    """Read a web address without marks. Punctuation that ends a sentence is not part of it."""
    if silent or not state.src.startswith("://", state.pos) or state.linkLevel:
        return False
    scheme = next((name for name in ("https", "http") if state.pending.lower().endswith(name)), "")
    before = state.pending[: len(state.pending) - len(scheme)]
    found = _ADDRESS.match(state.src, state.pos)
    if not scheme or before[-1:].isalnum() or found is None:
        return False
    rest = found[0].rstrip(_TRAILING)
    while rest.endswith(")") and rest.count(")") > rest.count("("):
        rest = rest[:-1].rstrip(_TRAILING)
    written = state.src[state.pos - len(scheme) : state.pos + len(rest)]
    if len(rest) < 4 or not state.md.validateLink(written):
        return False
    state.pending = before
    for kind, nesting in (("link_open", 1), ("text", 0), ("link_close", -1)):
        token = state.push(kind, "a" if nesting else "", nesting)  # type: ignore[arg-type]
        token.meta["from"], token.meta["to"] = state.pos - len(scheme), state.pos + len(rest)
        if nesting == 1:
            token.attrs = {"href": written}
        elif not nesting:
            token.content = written
    state.pos += len(rest)
    return True


def footnote(state: StateInline, silent: bool) -> bool:
    """Read the mark of a footnote in the text; with a colon, before the footnote itself."""
    found = _FOOTNOTE.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        token = state.push("footnote", "", 0)
        token.content = found[1]
    state.pos = found.end()
    if found.start() == 0 and state.src.startswith(":", state.pos):
        state.pos += 1
    return True


def marked(state: StateInline, silent: bool) -> bool:
    """Read the marks of ==highlighted text==. A comparison in code has none."""
    if not state.src.startswith("==", state.pos):
        return False
    last = next((token for token in reversed(state.tokens) if "until" in token.meta), None)
    ends = last is not None and last.meta["until"] == state.pos
    found = None if ends else _MARKED.match(state.src, state.pos, state.posMax)
    if found is None and not ends:
        return False
    if not silent:
        token = state.push("mark_close" if ends else "mark_open", "mark", -1 if ends else 1)
        token.meta["until"] = None if found is None else found.end() - 2
    state.pos += 2
    return True


def _comment(state: StateInline, silent: bool) -> bool:
    """Read a comment in HTML, which shows nothing."""
    end = state.src.find("-->", state.pos + 4) if state.src.startswith("<!--", state.pos) else -1
    if end < 0:
        return False
    if not silent:
        state.push("comment", "", 0).hidden = True
    end += 3
    spaces = state.src[state.pos - 1 : state.pos] == state.src[end : end + 1] == " "
    state.pos = end + spaces  # one of the two is enough
    return True


def safe_tag(state: StateInline, silent: bool) -> bool:
    """Read a tag that only changes how text looks, without its attributes. All other tags are shown
    as text, and so is a tag without its partner, unless it begins a line. A comment shows
    nothing."""
    found = _TAG.match(state.src, state.pos)
    if found is None:
        return _comment(state, silent)
    closing, name, attributes = bool(found[1]), found[2].lower(), found[3]
    kind = f"{name}_{'close' if closing else 'open'}"
    if name == "br":
        kind = "hardbreak"
    elif name == "img":
        return _picture(state, found, silent)
    elif name in ON_LINES:
        if not _has_partner(state, found) and not _begins_line(state):
            return False
        kind = "item" if kind == "li_open" else kind
    elif not _has_partner(state, found):
        return False
    elif name == "a" and not closing:
        address = _attribute("href", attributes)
        if not state.md.validateLink(address):
            return False
    if not silent:
        token = state.push("link_" + kind[2:] if name == "a" else kind, name, 0)
        token.nesting = -1 if closing else 1
        if kind == "a_open":
            token.attrs = {"href": address}
    state.pos = found.end()
    return True


def _has_partner(state: StateInline, found: re.Match[str]) -> bool:
    """Return whether a closing tag was opened before, or an opening one is closed later."""
    name = found[2].lower()
    if not found[1]:
        return f"</{name}>" in state.src[found.end() :].lower()
    return sum(token.nesting for token in state.tokens if token.tag == name) > 0


def _begins_line(state: StateInline) -> bool:
    """Return whether only tags precede this place of its line."""
    row = state.src[state.src.rfind("\n", 0, state.pos) + 1 : state.pos]
    return not _TAG.sub("", row).strip()


def _picture(state: StateInline, found: re.Match[str], silent: bool) -> bool:
    """Read a picture with an address as an image of Markdown."""
    address = _attribute("src", found[3])
    if not state.md.validateLink(address):
        return False
    if not silent:
        token = state.push("image", "img", 0)
        token.content, token.attrs = _attribute("alt", found[3]), {"src": address}
    state.pos = found.end()
    return True


def _attribute(name: str, attributes: str) -> str:
    """Return the value of an attribute of a tag; an empty text if it has none."""
    value = rf"""\s{name}\s*=\s*(?:(["'])(.*?)\1|([^"'\s<>]+))"""
    found = re.search(value, attributes, re.IGNORECASE)
    return (found[2] or found[3] or "") if found else ""


def _row(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _find_closing(text: str, begin: int, mark: str) -> int:
    """Return the place of a closing mark that is not escaped by a backslash; -1 if there is none
    near."""
    at = text.find(mark, begin, begin + LONGEST_FORMULA)
    while at >= 0:
        before = text[begin:at]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return at
        at = text.find(mark, at + 1, begin + LONGEST_FORMULA)
    return -1


def can_be_formula(content: str) -> bool:
    """Return whether a text may be drawn as a formula."""
    return bool(content.strip()) and CONTROLS.search(content) is None
