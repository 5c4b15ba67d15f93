"""Decodes a text file: by its byte order mark, as UTF-8, or by a guess, which is reported."""

import codecs
from dataclasses import dataclass

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
_WESTERN = "cp1252"
_PAIRED = ("cp932", "euc_jp", "gb18030", "big5", "cp949")
_GUESSED = (
    *("cp1250", "cp1251", _WESTERN, "cp1253", "cp1254", "cp1255", "cp1256", "cp874", "koi8_r"),
    *_PAIRED,
)
_FEW = 0.15  # of the bytes
_MOSTLY_RIGHT = 4  # characters of UTF-8 beyond ASCII for each place that is none
_EQUAL = 0.1  # in how coherent two readings are, from 0 to 1


@dataclass(frozen=True, slots=True)
class Decoded:
    """A text, and `remarks` for people on how it was decoded; none for UTF-8."""

    text: str
    remarks: tuple[str, ...] = ()


def decode(data: bytes) -> Decoded:
    """Decode a text file. Raises `Problem` if the file is no text."""
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
        return _decoded(data, encoding, (f"Its encoding is a guess: {encoding}.",))


def _is_damaged_utf_8(data: bytes) -> bool:
    """Whether a text is UTF-8 but for a few bytes: a log that was cut, a row from elsewhere."""
    text = data.decode(errors="replace")
    wrong = text.count("\ufffd")
    right = len(text) - wrong - sum(map(str.isascii, text))
    return right >= wrong * _MOSTLY_RIGHT


def _decoded(data: bytes, encoding: str, remarks: tuple[str, ...]) -> Decoded:
    if not _fits(data, encoding):
        remarks += (f"Bytes that {encoding} does not have are shown as \ufffd.",)
    return Decoded(data.decode(encoding, "replace"), remarks)


def _fits(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


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
        "The file is no text, nor any other kind that can be read.",
        "Attach a PDF, a document of an office program, or a text.",
    )
