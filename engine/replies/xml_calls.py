"""Reads calls in tags, whose values are raw text: Qwen3-Coder, Qwen3.5, GLM.

The tool's schema gives the types of values. So a text stays a text, even `null` or `007`. A value
that does not fit the schema is passed on as text, and the tool may complain.
"""

import re

from engine.replies.calls import Calls
from engine.replies.incoming import Incoming, Reading, Unreadable
from engine.replies.json_text import escaped, value_of
from engine.replies.tools import type_of

_NAME = re.compile(r"[^<>\s]+")
_KEY = re.compile(r"[^<>\n]+")
_PYTHON = {"True": "true", "False": "false", "None": "null"}  # as templates render them


def qwen(incoming: Incoming, calls: Calls) -> Reading[None]:
    """Read `<tool_call>`, functions, `</tool_call>`; these tags may be missing."""
    if (yield from incoming.comes("<tool_call>")):
        yield from incoming.expect("<tool_call>")
        yield from incoming.spaces()
    while True:
        yield from incoming.expect("<function=")
        name = yield from incoming.word(_NAME)
        yield from incoming.expect(">")
        arguments = _Arguments(calls, name)
        while True:
            yield from incoming.spaces()
            if not (yield from incoming.comes("<parameter=")):
                break
            yield from incoming.expect("<parameter=")
            key = yield from incoming.word(_KEY)
            yield from incoming.expect(">")
            if (yield from incoming.peek()) == "\n":
                incoming.take(1)
            yield from arguments.read(incoming, key, ends=("\n</parameter>", "</parameter>"))
        yield from incoming.expect("</function>")
        arguments.end()
        yield from incoming.spaces()
        if (yield from incoming.comes("</tool_call>")):
            yield from incoming.expect("</tool_call>")
            return
        if not (yield from incoming.comes("<function=")):
            return


def glm(incoming: Incoming, calls: Calls) -> Reading[None]:
    """Read `<tool_call>`, a name, keys and values in tags, `</tool_call>`."""
    yield from incoming.expect("<tool_call>")
    yield from incoming.spaces()
    name = yield from incoming.word(_NAME)
    arguments: _Arguments | None = None
    while True:
        yield from incoming.spaces()
        tag = yield from incoming.comes("<arg_key>", "</tool_call>")
        if tag is None:
            raise Unreadable
        if arguments is None:
            arguments = _Arguments(calls, name)
        yield from incoming.expect(tag)
        if tag == "</tool_call>":
            break
        key = yield from incoming.word(_KEY)
        yield from incoming.expect("</arg_key>")
        yield from incoming.spaces()
        yield from incoming.expect("<arg_value>")
        yield from arguments.read(incoming, key, ends=("</arg_value>",))
    arguments.end()


class _Arguments:
    """Writes the arguments of one call as JSON."""

    def __init__(self, calls: Calls, name: str) -> None:
        self._calls, self._tool = calls, calls.tool(name)
        self._before = "{"
        calls.begin(name)

    def read(self, incoming: Incoming, key: str, *, ends: tuple[str, ...]) -> Reading[None]:
        """Read a value and its end. A text is passed on while it arrives, other values when
        whole."""
        types = self._tool.types(self._tool.schema_of(key))
        self._calls.arguments(f'{self._before}"{escaped(key)}": ')
        self._before = ", "
        if types == {"string"}:
            self._calls.arguments('"')
            end = yield from incoming.text_until(
                ends, lambda text: self._calls.arguments(escaped(text))
            )
            self._calls.arguments('"')
        else:
            pieces: list[str] = []
            end = yield from incoming.text_until(ends, pieces.append)
            self._calls.arguments(_typed("".join(pieces), types))
        if not end:
            raise Unreadable
        incoming.take(len(end))

    def end(self) -> None:
        self._calls.arguments("{}" if self._before == "{" else "}")
        self._calls.end()


def _typed(text: str, types: set[str]) -> str:
    """The JSON text of a raw value: "007" with {"string"} gives '"007"'."""
    bare = text.strip()
    bare = _PYTHON.get(bare, bare)
    try:
        kind = type_of(value_of(bare))
    except ValueError:
        return f'"{escaped(text)}"'
    if not types or kind in types or (kind == "integer" and "number" in types):
        return bare
    return f'"{escaped(text)}"'
