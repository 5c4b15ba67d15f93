"""Reads calls by the row of a family, with arguments of any form.

All arguments are passed on as JSON while they arrive, if the name precedes them. In tags values are
raw text, and the tool's schema gives their types: a text stays a text, even `null` or `007`; a
value that does not fit the schema is passed on as text, and the tool may complain.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from engine.replies.calls import Calls
from engine.replies.families import CallRow, pieces
from engine.replies.incoming import Emit, Incoming, Reading, Unreadable
from engine.replies.json_text import (
    MOST_NESTED,
    escaped,
    pass_arguments,
    pass_value,
    read_string,
    value_of,
)
from engine.replies.literals import pass_literal, pass_members, scalar
from engine.replies.tools import Tool, part_of, type_of

_NAME = re.compile(r"[\w.-]+")
_NAME_IN_TAGS = re.compile(r'[^<>\s"]+')
_ID = re.compile(r"[\w.:-]+")
_WORD = re.compile(r"\w+")
_KEY = re.compile(r'[^<>\n"]+')
_NAME_FIELDS = ("name", "tool_name")
_ARGUMENT_FIELDS = ("arguments", "parameters")
_BESIDE = ("type", "id")  # other fields that Llama writes into a call
_PYTHON = {"True": "true", "False": "false", "None": "null"}  # as templates render them


def read_calls(incoming: Incoming, calls: Calls, row: CallRow) -> Reading[None]:
    """Read a call from its first mark on, or all calls up to the closing mark. Marks after the
    arguments may be missing. Raises Unreadable."""
    yield from expect_mark(incoming, row.opening)
    between = "".join(pieces(row.between.replace("{gap}", "")))
    while True:
        yield from _READERS[row.form](incoming, calls, row)
        yield from incoming.spaces()
        if between and (yield from incoming.comes(between)):
            incoming.take(len(between))
            continue
        next_call = pieces(row.begin)[:1] if row.opening else ()
        if next_call and (yield from incoming.comes(*next_call)):
            continue
        lines = row.between == "\n" and not row.begin  # each call is a line
        if not lines or (yield from incoming.comes(*pieces(row.closing)[:1])) or incoming.over:
            break
    yield from _take_mark(incoming, row.closing)
    again = [mark for mark in pieces(row.end + row.closing) if len(mark) > 2 and mark[0] in "<["]
    while again and (yield from incoming.comes(*again)):
        yield from _take_mark(incoming, (yield from incoming.comes(*again)) or "")


def expect_mark(incoming: Incoming, mark: str) -> Reading[str]:
    """Take a mark; return the word at its {text} or {type}. Raises Unreadable."""
    found = ""
    for piece in pieces(mark):
        yield from incoming.spaces()
        if piece == "{id}":
            yield from incoming.word(_ID)
        elif piece in ("{text}", "{type}"):
            found = yield from incoming.word(_WORD)
        elif piece != "{gap}":
            yield from incoming.expect(piece)
    return found


def _take_mark(incoming: Incoming, mark: str) -> Reading[None]:
    """Take as much of a mark as is there."""
    for piece in pieces(mark):
        yield from incoming.spaces()
        if piece == "{gap}":
            continue
        if not (yield from incoming.comes(piece)):
            break
        incoming.take(len(piece))
    incoming.remember()  # the text that follows belongs to no call


def _object(incoming: Incoming, calls: Calls, row: CallRow) -> Reading[None]:
    """Read objects between the marks of one call; Hermes' models may write several."""
    begin, end = row.begin.partition("{")[0], row.end.partition("}")[2]
    yield from expect_mark(incoming, begin)
    while True:
        yield from incoming.spaces()
        yield from _fields(incoming, calls, unmarked=row.unmarked)
        yield from incoming.spaces()
        if not begin or (yield from incoming.peek()) != "{":
            break
    yield from _take_mark(incoming, end)


def _fields(incoming: Incoming, calls: Calls, *, unmarked: bool) -> Reading[None]:
    """Read one call. If no mark precedes it, it must call a known tool, and have no fields other
    than a call has. Its braces may be doubled, as the template of Qwen2.5-Coder shows them."""
    doubled = yield from incoming.comes("{{")
    yield from incoming.expect("{{" if doubled else "{")
    name, begun = "", False
    waiting: list[str] | None = None
    while True:
        yield from incoming.spaces()
        field = yield from read_string(incoming)
        yield from incoming.spaces()
        yield from incoming.expect(":")
        yield from incoming.spaces()
        if field in _NAME_FIELDS and not name:
            name = yield from read_string(incoming)
            if not name or (unmarked and not calls.knows(name)):
                raise Unreadable
        elif field in _ARGUMENT_FIELDS and not begun and waiting is None:
            if name:
                begun = True
                calls.begin(name)
                yield from pass_arguments(incoming, calls.arguments)
            else:
                waiting = []
                yield from pass_arguments(incoming, waiting.append)
        elif unmarked and field not in _BESIDE:
            raise Unreadable
        else:
            yield from pass_value(incoming, lambda text: None)
        yield from incoming.spaces()
        if (yield from incoming.peek()) != ",":
            break
        incoming.take(1)
    yield from incoming.expect("}}" if doubled else "}")
    if not name or (unmarked and not begun and waiting is None):
        raise Unreadable
    if not begun:
        calls.begin(name)
        calls.arguments("".join(waiting) if waiting else "{}")
    calls.end()


def _named(incoming: Incoming, row: CallRow) -> Reading[str]:
    """Read the name of a call and the marks around it."""
    yield from expect_mark(incoming, row.begin)
    yield from incoming.spaces()
    name = yield from incoming.word(_NAME_IN_TAGS if row.key[0] else _NAME)
    yield from expect_mark(incoming, row.named)
    yield from incoming.spaces()
    return name


def _json(incoming: Incoming, calls: Calls, row: CallRow) -> Reading[None]:
    name = yield from _named(incoming, row)
    calls.begin(name)
    yield from pass_arguments(incoming, calls.arguments)
    calls.end()
    yield from _take_mark(incoming, row.end)


def _values(incoming: Incoming, calls: Calls, row: CallRow) -> Reading[None]:
    """Read a call in Python's notation, or Gemma's calls between their marks, each with its word.
    The end of `name.call(...)`, which Llama writes for its own tools, does not belong to the
    name."""
    name = yield from _named(incoming, row)
    word = row.begin.removeprefix(row.trigger)
    while True:
        if row.unmarked and not calls.knows(name):
            raise Unreadable
        closes = ")" if row.form == "python" else ""
        while row.form == "literals" and len(closes) < 2 and (yield from incoming.comes("{", "(")):
            closes = {"{": "}", "(": ")"}[incoming.take(1)] + closes  # one may be in another
            yield from incoming.spaces()
        if not closes:
            raise Unreadable
        calls.begin(name if calls.knows(name) else name.removesuffix(".call") or name)
        yield from pass_members(incoming, calls.arguments, closes[0], row.quote)
        for close in closes:
            yield from incoming.spaces()
            yield from incoming.expect(close)
        calls.end()
        yield from incoming.spaces()
        next_call = yield from incoming.comes(*(f"{comma}{word}" for comma in ("", ",", ", ")))
        if not word or not next_call:
            break
        incoming.take(len(next_call))
        name = yield from incoming.word(_NAME)
    yield from _take_mark(incoming, row.end.removeprefix(closes[-1]))


def _tags(incoming: Incoming, calls: Calls, row: CallRow) -> Reading[None]:
    name = yield from _named(incoming, row)
    key, end = pieces(row.key[0])[0], pieces(row.end)[0]
    if not (yield from incoming.comes(key, end)):
        raise Unreadable
    calls.begin(name)
    before = "{"
    while (yield from incoming.comes(key)):
        before = yield from _value(incoming, calls, row, name=name, before=before)
        yield from incoming.spaces()
    yield from incoming.expect(end)
    calls.arguments("{}" if before == "{" else "}")
    calls.end()
    yield from _take_mark(incoming, row.end.partition(end)[2])


def _value(
    incoming: Incoming, calls: Calls, row: CallRow, *, name: str, before: str
) -> Reading[str]:
    """Read a key, its value and its end; returns the text before the next key. A text is passed
    on while it arrives, other values when whole."""
    opening, keyed, closing = row.key
    yield from expect_mark(incoming, opening)
    key = yield from incoming.word(_KEY)
    kind = yield from expect_mark(incoming, keyed)
    tool = calls.tool(name)
    types = tool.types(tool.schema_of(key))
    if kind:
        types = {"string"} if kind in ("true", "string") else types - {"string"}
    calls.arguments(f'{before}"{escaped(key)}": ')
    end = pieces(closing)[0]
    unclosed = [f"{opening}{name}{pieces(keyed)[0]}" for name in tool.properties if name != key]
    unclosed.append((row.end + row.closing).strip())
    unclosed = [] if calls.certain else [*unclosed, *(f"\n{mark}" for mark in unclosed)]
    ends = [end, *unclosed]
    if keyed.endswith("\n"):
        ends.append(f"\n{end}")
        if (yield from incoming.peek()) == "\n":
            incoming.take(1)
    if row.quote and (yield from incoming.comes(row.quote)):
        incoming.take(len(row.quote))
        ends, unclosed = [f"]]>{end}"], []
    if types == {"string"}:
        calls.arguments('"')
        found = yield from incoming.text_until(ends, lambda text: calls.arguments(escaped(text)))
        calls.arguments('"')
    else:
        parts: list[str] = []
        found = yield from incoming.text_until(ends, parts.append)
        calls.arguments(_typed("".join(parts), types))
    if not found:
        raise Unreadable
    if found not in unclosed:
        incoming.take(len(found))
    return ", "


def _nested(incoming: Incoming, calls: Calls, row: CallRow) -> Reading[None]:
    name = yield from _named(incoming, row)
    if not (yield from _opens(incoming, row)):
        yield from incoming.expect(pieces(row.end)[0])
        calls.begin(name)
        calls.arguments("{}")
    else:
        calls.begin(name)
        tool = calls.tool(name)
        yield from _members(incoming, calls.arguments, row, (tool, tool.parameters))
        yield from incoming.expect(pieces(row.end)[0])
    calls.end()
    yield from _take_mark(incoming, row.end.partition(pieces(row.end)[0])[2])


def _opens(incoming: Incoming, row: CallRow) -> Reading[bool]:
    """Whether a first tag is next, not a last one."""
    opening, _, closing = row.key
    here = yield from incoming.peek(len(closing))
    return here.startswith(opening) and here != closing


def _members(
    incoming: Incoming,
    emit: Emit,
    row: CallRow,
    known: tuple[Tool, Mapping[str, Any]],
    *,
    nested: int = 0,
) -> Reading[None]:
    """Read nested tags, beginning with the next, as an object; as a list if they are items and
    the schema in `known` does not say that it is an object."""
    if nested == MOST_NESTED:
        raise Unreadable
    tool, schema = known
    opening, after, closing = row.key
    item = f"{opening}item{after}"
    is_list = (yield from incoming.peek(len(item))) == item and tool.types(schema) != {"object"}
    before = "[" if is_list else "{"
    while (yield from _opens(incoming, row)):
        incoming.take(len(opening))
        key = yield from incoming.word(_KEY)
        yield from incoming.expect(after)
        properties = part_of(schema, "properties", dict)
        inner = tool.resolved(schema.get("items") if is_list else properties.get(key))
        emit(before if is_list else f'{before}"{escaped(key)}": ')
        before = ", "
        parts: list[str] = []
        yield from incoming.text_until([opening], parts.append)
        text, types = "".join(parts), tool.types(inner)
        if not text.strip() and (yield from _opens(incoming, row)):
            yield from _members(incoming, emit, row, (tool, inner), nested=nested + 1)
        elif text or not types or "string" in types:
            emit(_typed(text, types))
        else:
            emit("[]" if "array" in types else "{}" if "object" in types else "null")
        yield from incoming.expect(f"{closing}{key}{after}")
        yield from incoming.spaces()
    emit("]" if is_list else "}")


def _typed(text: str, types: set[str]) -> str:
    """The JSON text of a raw value: "007" with {"string"} gives '"007"'."""
    with suppress(ValueError):  # a number with too many digits
        for spelling in _spellings(text.strip(), known=bool(types)):
            kind = type_of(value_of(spelling))
            if not types or kind in types or (kind == "integer" and "number" in types):
                return spelling
    return f'"{escaped(text)}"'


def _spellings(text: str, *, known: bool) -> Iterator[str]:
    """Yield the JSON texts that a raw value can mean. Only where a schema has its type: words
    in any case, numbers of any notation, and a value within quotes."""
    word = _PYTHON.get(text, text)
    with suppress(ValueError):
        value = value_of(word)
        yield word
        if known and isinstance(value, str):
            yield from _spellings(value.strip(), known=True)
    if text[:1] in ("{", "[") and (found := _from_python(text)):
        yield found
    if known and (number := scalar(text)):
        yield number
        with suppress(ValueError, OverflowError):
            yield from [str(int(float(number)))] * float(number).is_integer()
    if known and len(text) > 1 and text[0] == text[-1] == "'":
        yield from _spellings(text[1:-1].strip(), known=True)


def _from_python(text: str) -> str:
    """The JSON text of a Python value, as some models write objects; "" if it is none."""
    incoming, found = Incoming(), list[str]()
    incoming.add(text)
    incoming.end()
    try:
        for _ in pass_literal(incoming, found.append):
            pass
    except Unreadable:
        return ""
    return "".join(found) if incoming.over else ""


_READERS = {
    "object": _object,
    "json": _json,
    "tags": _tags,
    "nested": _nested,
    "python": _values,
    "literals": _values,
}
