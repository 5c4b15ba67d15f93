"""Checks JSON text while it arrives, and passes it on piece by piece."""

import json
import re
from typing import Any

from engine.replies.incoming import Emit, Incoming, Reading, Unreadable

MOST_NESTED = 128
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_WORD = re.compile(r"[-+.0-9A-Za-z]+")
SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null", re.ASCII)
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_SPACE = " \t\r\n"


def _space(incoming: Incoming, emit: Emit) -> Reading[str]:
    """Pass JSON's white space on; return the character after it, without taking it."""
    while (letter := (yield from incoming.peek())) and letter in _SPACE:
        emit(incoming.take(1))
    return letter


def pass_value(incoming: Incoming, emit: Emit) -> Reading[None]:
    """Pass one JSON value on while it arrives. Raises Unreadable if it is not JSON.

    A line break within a string, which JSON does not allow, is passed on as its escape.
    """
    open_ends: list[str] = []
    while True:
        letter = yield from _space(incoming, emit)
        if letter and letter in "{[":
            if len(open_ends) == MOST_NESTED:
                raise Unreadable
            emit(incoming.take(1))
            open_ends.append("}" if letter == "{" else "]")
            letter = yield from _space(incoming, emit)
            if letter != open_ends[-1]:
                if open_ends[-1] == "}":
                    yield from _pass_name(incoming, emit)
                continue
        elif letter == '"':
            yield from pass_string(incoming, emit)
        else:
            yield from _pass_scalar(incoming, emit)
        while open_ends:
            letter = yield from _space(incoming, emit)
            if letter == ",":
                emit(incoming.take(1))
                if open_ends[-1] == "}":
                    yield from _pass_name(incoming, emit)
                break
            if letter != open_ends[-1]:
                raise Unreadable
            emit(incoming.take(1))
            open_ends.pop()
        else:
            return


def read_string(incoming: Incoming) -> Reading[str]:
    """Read a whole JSON string. Raises Unreadable, also for half a character in it."""
    pieces: list[str] = []
    yield from pass_string(incoming, pieces.append)
    text: str = json.loads("".join(pieces))
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise Unreadable
    return text


def pass_string(incoming: Incoming, emit: Emit) -> Reading[None]:
    """Pass a JSON string on, with its quotes."""
    yield from incoming.expect('"')
    emit('"')
    while True:
        if plain := incoming.run(_PLAIN):
            emit(plain)
        letter = yield from incoming.peek()
        if letter == '"':
            emit(incoming.take(1))
            return
        if letter == "\\":
            two = yield from incoming.peek(2)
            if two[1:] == "u":
                if not _HEX.fullmatch((yield from incoming.peek(6))[2:]):
                    raise Unreadable
                emit(incoming.take(6))
            elif two[1:] and two[1] in '"\\/bfnrt':
                emit(incoming.take(2))
            else:
                raise Unreadable
        elif letter and letter < " ":
            emit(json.dumps(incoming.take(1))[1:-1])
        elif not letter:
            raise Unreadable


def _pass_name(incoming: Incoming, emit: Emit) -> Reading[None]:
    yield from _space(incoming, emit)
    yield from pass_string(incoming, emit)
    if (yield from _space(incoming, emit)) != ":":
        raise Unreadable
    emit(incoming.take(1))


def _pass_scalar(incoming: Incoming, emit: Emit) -> Reading[None]:
    word = yield from incoming.word(_WORD)
    if not SCALAR.fullmatch(word):
        raise Unreadable
    emit(word)


def escaped(text: str) -> str:
    """The text as it is written within a JSON string; half a character as its escape."""
    half = any("\ud800" <= letter <= "\udfff" for letter in text)
    return json.dumps(text, ensure_ascii=half)[1:-1]


def value_of(text: str) -> Any:
    """Parse a JSON text. Raises ValueError for anything else, also for NaN."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


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
