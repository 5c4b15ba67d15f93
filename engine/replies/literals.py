"""Passes Python's values and Gemma's on as JSON while they arrive.

Models mix these notations with JSON and JavaScript, so all of them are read: quotes of either kind,
bare keys, words in any case, commas at the end. A text is passed on piece by piece, a number or a
word when whole.
"""

import re

from engine.replies.incoming import Emit, Incoming, Reading, Unreadable
from engine.replies.json_text import MOST_NESTED, SCALAR, escaped

_KEY = re.compile(r"[^:=(){}\[\],<]+")
_BARE = re.compile(r"[^,{}\[\]()<]+")
_NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"[-+]?(?:0|[1-9]\d*(?:_\d+)*)", re.ASCII)
_KEY_BEGUN = re.compile(r"\s*(?:[^\W\d]\w{0,64}\s*:?\s*)?")
_KEYED = re.compile(r"\s*[^\W\d]\w*\s*:\s*[\"'<]")  # the next key and a text, without a comma
_WORDS = {"true": "true", "false": "false", "null": "null", "none": "null"}
_PLAIN = {"'": re.compile(r"[^'\\]+"), '"': re.compile(r'[^"\\]+')}
_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "0": "\0",
    "/": "/", "\\": "\\", "'": "'", '"': '"', "\n": "",
}  # fmt: skip
_CODES = {"x": 2, "u": 4, "U": 8}
_HEX = re.compile(r"[0-9a-fA-F]+")


def pass_members(
    incoming: Incoming,
    emit: Emit,
    close: str,
    quote: str = "",
    *,
    keyed: bool = True,
    nested: int = 0,
) -> Reading[None]:
    """Pass `key=value, ...` or `key: value, ...` on as an object, or values without keys as a list,
    up to the bracket `close`. `quote` as for `pass_literal`."""
    opening, closing = "{}" if keyed else "[]"
    before = opening
    while True:
        yield from incoming.spaces()
        if (yield from incoming.peek()) == close:
            break
        emit(before)
        before = ", "
        if keyed:
            yield from _pass_key(incoming, emit, quote)
        yield from pass_literal(incoming, emit, quote, nested=nested)
        yield from incoming.spaces()
        letter = yield from incoming.peek()
        if letter == ",":
            incoming.take(1)
        elif not (keyed and quote) or letter in ("", close):
            break  # a comma is missing only before a key
    emit(closing if before == ", " else opening + closing)


def _pass_key(incoming: Incoming, emit: Emit, quote: str) -> Reading[None]:
    if not (yield from _pass_text(incoming, emit, quote)):
        key = (yield from incoming.word(_KEY)).strip()
        emit(f'"{escaped(key)}"')
    yield from incoming.spaces()
    if not (yield from incoming.comes(":", "=")):
        raise Unreadable
    incoming.take(1)
    emit(": ")


def pass_literal(
    incoming: Incoming, emit: Emit, quote: str = "", *, nested: int = 0
) -> Reading[None]:
    """Pass a value on. With a `quote`, as in Gemma's notation, texts may be in it, too, or bare.
    Raises Unreadable."""
    yield from incoming.spaces()
    letter = yield from incoming.peek()
    if close := {"[": "]", "(": ")", "{": "}"}.get(letter):
        if nested == MOST_NESTED:
            raise Unreadable
        incoming.take(1)
        yield from pass_members(
            incoming, emit, close, quote, keyed=letter == "{", nested=nested + 1
        )
        yield from incoming.expect(close)
    elif not (yield from _pass_text(incoming, emit, quote)):
        word = (yield from incoming.word(_BARE)).strip()
        found = scalar(word)
        if found is None and not quote and not word.isdigit():  # such as 007
            raise Unreadable
        emit(found or f'"{escaped(word)}"')


def _pass_text(incoming: Incoming, emit: Emit, quote: str) -> Reading[bool]:
    """Pass a text in quotes on; return whether there was one."""
    if quote and (yield from incoming.comes(quote)):
        incoming.take(len(quote))
        emit('"')
        if not (yield from incoming.text_until([quote], lambda text: emit(escaped(text)))):
            raise Unreadable
        incoming.take(len(quote))
        emit('"')
        return True
    letter = yield from incoming.peek()
    if letter and letter in "'\"":
        yield from _python_text(incoming, emit)
        return True
    return False


def _python_text(incoming: Incoming, emit: Emit) -> Reading[None]:
    """Read a Python string. Templates do not escape the quotes in texts, nor do models: a quote
    closes the string only if the argument ends after it."""
    quote = yield from incoming.peek()
    if (yield from incoming.peek(3)) == quote * 3:
        quote *= 3
    incoming.take(len(quote))
    emit('"')
    while True:
        if plain := incoming.run(_PLAIN[quote[0]]):
            emit(escaped(plain))
        letter = yield from incoming.peek()
        if not letter:
            raise Unreadable
        if letter == "\\":
            emit(escaped((yield from _python_escape(incoming))))
        elif letter == quote[0]:
            if (yield from _is_last(incoming, quote)):
                incoming.take(len(quote))
                emit('"')
                return
            emit(escaped(incoming.take(1)))


def _is_last(incoming: Incoming, quote: str) -> Reading[bool]:
    if len(quote) == 3:
        return (yield from incoming.peek(3)) == quote
    ahead = 1
    while True:
        ahead += 1
        after = (yield from incoming.peek(ahead))[1:]
        whole = len(after) == ahead - 1
        if whole and _KEY_BEGUN.fullmatch(after):
            continue
        if not after.strip() or after.strip()[0] in ",)]}:=":
            return True
        return bool(_KEYED.fullmatch(after))


def _python_escape(incoming: Incoming) -> Reading[str]:
    """Read an escape; return its character. An unknown escape stays as it is, as in Python."""
    two = yield from incoming.peek(2)
    if len(two) < 2:
        raise Unreadable
    if two[1] in _CODES:
        digits = (yield from incoming.peek(2 + _CODES[two[1]]))[2:]
        if len(digits) < _CODES[two[1]] or not _HEX.fullmatch(digits):
            raise Unreadable
        code = int(digits, 16)
        if code > 0x10FFFF:
            raise Unreadable
        incoming.take(2 + len(digits))
        return chr(code)
    incoming.take(2)
    return _ESCAPES.get(two[1], two)


def scalar(word: str) -> str | None:
    """A number or a word as JSON; None for anything else. Integers are not changed."""
    if found := _WORDS.get(word.lower()):
        return found
    if SCALAR.fullmatch(word):
        return word
    if _INTEGER.fullmatch(word):
        return word.lstrip("+").replace("_", "")
    if _NUMBER.fullmatch(word):
        number = float(word)
        return None if number in (float("inf"), float("-inf")) else repr(number)
    return None
