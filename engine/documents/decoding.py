"""Decodes a text: by its byte order mark, the encoding it declares, as UTF-8, or by a guess.

A guess is reported, and so is the number of characters that could not be read.
"""

import codecs
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from charset_normalizer import from_bytes

from models.errors import Problem

_MARKS = (  # the longer one first: one begins with another
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PLAIN = bytes([*range(7, 14), 27, *range(32, 256)])  # all but most control characters
_DAMAGED = 0.02  # the largest share of control characters in a text; other files have more
_SAMPLE_BYTES = 50_000
_WESTERN, _MAC = "cp1252", "mac_roman"
_LATIN = (_WESTERN, "cp1250", "cp1254")
_AFTER_LETTERS = "’‘”“»›…–—™®©°ªº²³"  # noqa: RUF001
_PAIRED = ("cp932", "euc_jp", "gb18030", "big5", "cp949")
_GUESSED = (
    *("cp1250", "cp1251", _WESTERN, "cp1253", "cp1254", "cp1255", "cp1256", "cp874", "koi8_r"),
    *_PAIRED,
)
_MEANT = {  # as in browsers, old names mean what writers of them use: Windows' supersets
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874",
    "tis-620": "cp874", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932",
    "euc_kr": "cp949", "big5": "big5hkscs", "euc_jp": "euc_jis_2004",
}  # fmt: skip
_OF_TEXT = re.compile(r"(utf|cp|iso|koi8|mac|gb|big5|euc|hz|johab|shift|tis|ascii)[\w-]*")
_SPELLED = (  # labels of the web that Python does not know, and how it spells them
    (re.compile(r"^(?:x-)+|^unicode-1-1-|-[ie]$|:\d{4}$|[\s\"']"), ""),
    (re.compile(r"^(?:windows|dos)-(?=\d+$)"), "cp"),
    (re.compile(r"^iso[-_]?8859[-_]?"), "iso8859-"),
)
_IN_SEVEN_BITS = re.compile(rb"\x1b\$[@B]([^\x1b\n]*)|\x1b\([BJ]")
_FEW = 0.15  # of the bytes
_MOSTLY_RIGHT = 4  # characters of UTF-8 beyond ASCII for each place that is none
_EQUAL = 0.1  # in how coherent two readings are, from 0 to 1


@dataclass(frozen=True, slots=True)
class Decoded:
    """A text, and `remarks` for people on how it was decoded; none for UTF-8."""

    text: str
    remarks: tuple[str, ...] = ()


def decode(data: bytes) -> Decoded:
    """Decode a text file. Raises `Problem` if the file is not text."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decoded(data, encoding, ())
    controls = data.translate(None, delete=_PLAIN)
    if b"\0" in controls and len(controls) > len(data) * _DAMAGED / 10:
        raise _no_text()
    try:
        return Decoded(data.decode())
    except UnicodeDecodeError:
        if len(controls) > len(data) * _DAMAGED:
            raise _no_text() from None
        if _is_damaged_utf_8(data):
            return _decoded(data, "utf-8", ())
        encoding = _guess(data)
        if encoding in _LATIN and _odd(data, _MAC) < _odd(data, encoding):
            encoding = _MAC
        return _decoded(data, encoding, (f"Its encoding is a guess: {encoding}.",))


def decode_declared(data: bytes, label: str | None) -> Decoded:
    """Decode a text by the encoding that it declares; as any text if that is none of texts, or if
    the text has a byte order mark. Raises `Problem`."""
    marked = any(data.startswith(mark) for mark, _ in _MARKS)
    name = (label or "").lower()
    for written, spelled in _SPELLED:
        name = written.sub(spelled, name)
    with suppress(LookupError, ValueError):
        name = codecs.lookup(name).name
        if _OF_TEXT.fullmatch(name) and not marked:
            return _decoded(data, _MEANT.get(name, name), ())
    return decode(data)


def _is_damaged_utf_8(data: bytes) -> bool:
    """Whether a text is UTF-8 but for a few bytes: a log that was cut, a row from elsewhere."""
    text = data.decode(errors="replace")
    wrong = text.count("\ufffd")
    right = len(text) - wrong - sum(map(str.isascii, text))
    return right >= wrong * _MOSTLY_RIGHT


def _decoded(data: bytes, encoding: str, remarks: tuple[str, ...]) -> Decoded:
    if encoding == "iso2022_jp" and not _fits(data, encoding):  # signs that Windows adds: ①
        data = _IN_SEVEN_BITS.sub(lambda text: bytes(each | 0x80 for each in text[1] or b""), data)
        encoding = "euc_jis_2004"
    text = data.decode(encoding, "replace")
    if wrong := text.count("\ufffd") * (not _fits(data, encoding)):
        remarks += (
            f"{wrong:,} invalid character{'s' * (wrong > 1)} of {encoding}, shown as \ufffd.",
        )
    return Decoded(text, remarks)


def _fits(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _odd(data: bytes, encoding: str) -> int:
    """The number of places at which a small letter is before a sign or a capital, as in "CafŽ"."""
    text = data[:_SAMPLE_BYTES].decode(encoding, "replace")
    after = (each for before, each in pairwise(text) if before.islower() and each > "\x7f")
    return sum(not each.islower() and each not in _AFTER_LETTERS for each in after)


def _guess(data: bytes) -> str:
    """The likeliest encoding; Western European if only a few accents speak for another one."""
    sample = data[:_SAMPLE_BYTES]
    sample = sample[: sample.rfind(b"\n") + 1] or sample  # no character is cut in two
    matches = from_bytes(sample, cp_isolation=[*_GUESSED])
    best = matches.best()
    if best is None:
        return _WESTERN
    if best.encoding in _PAIRED and _fits(data, best.encoding):  # by chance it hardly would
        return best.encoding
    beyond_ascii = sum(byte >= 0x80 for byte in sample)
    if best.coherence == 0 and beyond_ascii < len(sample) * _FEW:
        return _WESTERN
    for match in matches:
        if _WESTERN in match.could_be_from_charset and match.coherence >= best.coherence - _EQUAL:
            return _WESTERN
    return best.encoding


def _no_text() -> Problem:
    return Problem(
        "The file is not text, and its format is not supported.",
        "Attach a PDF, an office document or a text file.",
    )
