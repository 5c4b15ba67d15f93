"""Rules for markdown-it for text that models write and CommonMark lacks: formulas, plain web
addresses, footnotes, and safe HTML tags.

Knows markdown-it's states and tokens; not how anything looks. A formula is not parsed: only the
marks around it count, by the rules of pandoc.
"""

import re

from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

from models.in_words import CONTROLS

LONGEST_FORMULA = 4_000  # characters
_CLOSING = {"$": "$", "$$": "$$", "\\(": "\\)", "\\[": "\\]"}
_ADDRESS = re.compile(r"://[^\s<>\"`\\^{}|\[\]]+")
_TRAILING = ".,:;!?'\"*_~"  # at the end of an address: belongs to the sentence
_FOOTNOTE = re.compile(r"\[\^([^\s\[\]^]{1,30})\]")
_TAG = re.compile(r"<(/?)(sub|sup|kbd|br|details|summary)\s*(/?)>", re.IGNORECASE)
_STYLED = ("sub", "sup", "kbd", "summary")
_AFTER_FORMULA = ".,;:"


def latex_of(written: str) -> tuple[str, bool]:
    """Return the LaTeX of a formula written with its marks, and whether it is a display formula."""
    opening = next(mark for mark in ("$$", "$", "\\(", "\\[") if written.startswith(mark))
    at = written.rindex(_CLOSING[opening])
    after = written[at + len(opening) :].strip()
    return written[len(opening) : at].strip() + after, opening in ("$$", "\\[")


def formula(state: StateInline, silent: bool) -> bool:
    """Read a formula in a paragraph. An opening dollar has no space after it; a closing one has
    none before it and no digit after it, so that prices are no formulas."""
    begin, text = state.pos, state.src
    opening = next((mark for mark in ("$$", "$", "\\(", "\\[") if text.startswith(mark, begin)), "")
    if not opening:
        return False
    inside = begin + len(opening)
    end = _find_closing(text, inside, _CLOSING[opening])
    content = text[inside:end] if end >= 0 else ""
    if not _can_be_formula(content):
        return False
    after = end + len(opening)
    if opening == "$" and (
        content != content.strip() or text[after : after + 1].isdigit() or "\n\n" in content
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
    opening = first[:2]
    if opening not in ("$$", "\\["):
        return False
    line, rows = start_line, [first[2:]]
    while (end := _find_closing(rows[-1], 0, _CLOSING[opening])) < 0:
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
    after, rows[-1] = rows[-1][end + 2 :], rows[-1][:end]
    is_formula = not after.strip(_AFTER_FORMULA + " \t") and _can_be_formula("\n".join(rows))
    if not is_open and not is_formula:
        return False
    if silent:
        return True
    next_line = line if is_open else line + 1
    content = state.getLines(start_line, next_line, state.sCount[start_line], False).strip()
    token = state.push("formula_block", "", 0)
    token.content, token.map = content, [start_line, next_line]
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


def safe_tag(state: StateInline, silent: bool) -> bool:
    """Read a tag without attributes that only changes how text looks. All other tags are shown as
    text, and so is a tag without its partner."""
    found = _TAG.match(state.src, state.pos)
    if found is None:
        return False
    closing, name = found[1], found[2].lower()
    if name in _STYLED:
        opened = [t.type == f"{name}_open" for t in state.tokens if t.tag == name]
        is_open = sum(1 if opens else -1 for opens in opened) > 0
        if closing and not is_open:
            return False
        if not closing and (is_open or f"</{name}>" not in state.src[found.end() :].lower()):
            return False
    if not silent:
        kind = "hardbreak" if name == "br" else f"{name}_{'close' if closing else 'open'}"
        state.push(kind, name, 0)
    state.pos = found.end()
    return True


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


def _can_be_formula(content: str) -> bool:
    return bool(content.strip()) and CONTROLS.search(content) is None
