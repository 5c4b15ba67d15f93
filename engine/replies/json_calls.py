"""Reads calls that are JSON objects with a name and arguments: Hermes, Qwen, Llama, Mistral."""

import re

from engine.replies.calls import Calls
from engine.replies.incoming import Emit, Incoming, Reading, Unreadable
from engine.replies.json_text import pass_value, read_string, value_of
from engine.replies.literal_calls import python_call

_NAME = re.compile(r"[\w.-]+")
_ARGUMENTS = ("arguments", "parameters")
_BESIDE = ("type", "id")  # other fields that Llama writes into a call


def hermes(incoming: Incoming, calls: Calls) -> Reading[None]:
    """Read `<tool_call>`, one or more objects, `</tool_call>`, which may be missing."""
    yield from incoming.expect("<tool_call>")
    while True:
        yield from incoming.spaces()
        yield from _object(incoming, calls)
        yield from incoming.spaces()
        if (yield from incoming.comes("</tool_call>")):
            incoming.take(len("</tool_call>"))
            return
        if (yield from incoming.peek()) != "{":
            return


def python_tag(incoming: Incoming, calls: Calls) -> Reading[None]:
    """Read `<|python_tag|>` and Llama's objects, or a Python call."""
    yield from incoming.expect("<|python_tag|>")
    yield from incoming.spaces()
    if (yield from incoming.peek()) == "{":
        yield from llama(incoming, calls)
    else:
        yield from python_call(incoming, calls)


def llama(incoming: Incoming, calls: Calls) -> Reading[None]:
    """Read objects with semicolons between them. As no mark precedes them, they must call known
    tools, and have no fields other than those of a call."""
    while True:
        yield from _object(incoming, calls, unmarked=True)
        yield from incoming.spaces()
        if (yield from incoming.peek()) == ";":
            incoming.take(1)
            yield from incoming.spaces()
        elif (yield from incoming.peek()) != "{":
            return


def mistral(incoming: Incoming, calls: Calls) -> Reading[None]:
    """Read `[TOOL_CALLS]` and a list of objects, or a name, `[ARGS]` and its arguments."""
    yield from incoming.expect("[TOOL_CALLS]")
    yield from incoming.spaces()
    letter = yield from incoming.peek()
    if letter == "[":
        yield from _list(incoming, calls)
    elif letter == "{":
        yield from _object(incoming, calls)
    else:
        name = yield from incoming.word(_NAME)
        if (yield from incoming.comes("[CALL_ID]")):
            yield from incoming.expect("[CALL_ID]")
            yield from incoming.word(_NAME)
        yield from incoming.expect("[ARGS]")
        yield from incoming.spaces()
        calls.begin(name)
        yield from pass_arguments(incoming, calls.arguments)
        calls.end()


def _list(incoming: Incoming, calls: Calls) -> Reading[None]:
    yield from incoming.expect("[")
    while True:
        yield from incoming.spaces()
        yield from _object(incoming, calls)
        yield from incoming.spaces()
        if (yield from incoming.peek()) != ",":
            break
        incoming.take(1)
    yield from incoming.expect("]")


def _object(incoming: Incoming, calls: Calls, *, unmarked: bool = False) -> Reading[None]:
    """Read one call. Its arguments are passed on while they arrive, if the name precedes them."""
    yield from incoming.expect("{")
    name, begun = "", False
    waiting: list[str] | None = None
    while True:
        yield from incoming.spaces()
        field = yield from read_string(incoming)
        yield from incoming.spaces()
        yield from incoming.expect(":")
        yield from incoming.spaces()
        if field == "name" and not name:
            name = yield from read_string(incoming)
            if not name or (unmarked and not calls.knows(name)):
                raise Unreadable
        elif field in _ARGUMENTS and not begun and waiting is None:
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
    yield from incoming.expect("}")
    if not name or (unmarked and not begun and waiting is None):
        raise Unreadable
    if not begun:
        calls.begin(name)
        calls.arguments("".join(waiting) if waiting else "{}")
    calls.end()


def pass_arguments(incoming: Incoming, emit: Emit) -> Reading[None]:
    """Pass an object on. Some models write it as a JSON string, or null for an empty one."""
    letter = yield from incoming.peek()
    if letter == "{":
        yield from pass_value(incoming, emit)
    elif letter == '"':
        text = (yield from read_string(incoming)).strip()
        try:
            if not isinstance(value_of(text), dict):
                raise Unreadable
        except ValueError:
            raise Unreadable from None
        emit(text)
    else:
        yield from incoming.expect("null")
        emit("{}")
