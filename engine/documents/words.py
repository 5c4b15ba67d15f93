"""Says what a word is, wherever words are looked for, and splits a text into words to compare.

A word is of letters and digits with all marks on them: "\\w" ends at vowel signs and points.
Words, numbers and signs with a meaning of their own are compared; punctuation, line breaks and
formatting are not. So a page with hyphens at line ends has the same words as an answer in Markdown;
markers, links and citations are skipped in both. Scripts without spaces give a word for each
character. Knows texts; no documents.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

_BLOCKS = (*range(0x300, 0x3100), *range(0xA66F, 0xABFA), *range(0xFB1E, 0xFF1A))
_KINDS = {code: unicodedata.category(chr(code)) for code in _BLOCKS}
MARKS = "".join(chr(code) for code, kind in _KINDS.items() if kind[0] == "M") + (
    "\U00011100-\U00011102\U00011127-\U00011134\U0001e944-\U0001e94a"  # Chakma, Adlam
)
"""The marks on letters, for a class of a pattern: vowel signs, points, accents."""
WORD = rf"[\w{MARKS}]"
LETTERS = rf"[^\W\d_]+(?:[{MARKS}]+[^\W\d_]*)*"
UNSPACED = (  # Thai, Lao, Burmese, Khmer and their kin, Chinese, Japanese
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u1aaf\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff"
    r"\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua9e0-\ua9ff\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9f"
    r"\U00020000-\U0003ffff"
)
"""Scripts without spaces, for a class of a pattern."""
OTHER_WORDS = (
    r"\u0590-\u109f\u1100-\u1cff\u2e80-\ua63f\ua800-\ud7ff\uf900-\uffef\U00020000-\U0003ffff"
)
"""Scripts in which an index that knows no marks has other words, for a class of a pattern."""
_LETTERS = rf"[^\W_{UNSPACED}]+"
_HYPHENS = r"-\u00ad\u2010\u2011\ufffe"  # PDFium has the last one at the ends of lines
_HIDDEN = r"\u00ad\u200b-\u200d\u2060"
_WORD = re.compile(
    rf"""
    ^[ \t>*_#-]*\d{{1,3}}[.)](?=[ \t*])    # passed over: the number of an item,
    | ^[ \t]*(?:>|[+][ ])                  # a quote or a bullet that could be a sign,
    | ^[ \t]*(?:```|~~~)\w*                # a fence,
    | \[\^?\d{{1,3}}\]                     # a citation,
    | \]\([^()\s]*\)                       # where a link leads,
    | <br[ ]?/?>
    | (                                    # compared: a word or a number
        (?:(?<![^\s(\[=:,<>|])[-\u2212](?=\d))?
        {_LETTERS}
        (?:
            [{MARKS}]+(?:{_LETTERS})?
            | (?:
                [*]{{0,3}}['\u2019\u02bc\u05f3\uff07][*]{{0,3}}
                | (?<=\d)[.,\u066b\u066c\uff0c\uff0e](?=\d)
                | (?<!\d)[{_HYPHENS}] | [{_HYPHENS}](?!\d)
                | (?<!\d)[{_HYPHENS}][ \t]*\r?\n\s{{0,9}}(?!\d)
                | [{_HIDDEN}]+
                | (?<!\d)(?:[*]{{1,3}}|`|~~)(?!\d)
                | \\?_+
            )
            {_LETTERS}
        )*
        | (?=\w)[{UNSPACED}][{MARKS}]*
        | [=+<>%\u066a\uff05\u2030\u00a7\u00a3\u00a5\u0e3f\u20a0-\u20cf]
        | [\u00d7\u00f7\u00b1\u2264\u2265\u2260\u2248\u00b0]
        | [$](?=\d)
    )
    """,
    re.VERBOSE | re.MULTILINE,
)
_DROPPED = re.compile(rf"[{_HYPHENS}*`~\\\s]+")
_ALONE = re.compile(rf"[{UNSPACED}]")
_INVISIBLE = (
    "\u00ad\u034f\u0640\u180b-\u180f\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef"
)
_DIGITS = {code: str(int(chr(code))) for code, kind in _KINDS.items() if kind == "Nd"}
# Nuktas, points of Hebrew, Arabic and Syriac, and accents that their letter has not taken up.
_OPTIONAL = (
    e for e in map(chr, _KINDS) if (n := unicodedata.combining(e)) > 199 or n == 7 or 9 < n < 37
)
_PLAIN = {
    **{chr(code): digit for code, digit in _DIGITS.items()},
    **dict(zip("\u2019\u02bc\u05f3\u05f4\u066a\u066b\u066c", "''''%.,", strict=True)),
    **{chr(0xD7A + n): f"{each}\u0d4d" for n, each in enumerate("ണനരലളക")},  # also with a joiner
    "\u09ce": "ত\u09cd",
}
_CHANGED = re.compile(f"[{''.join((*_PLAIN, *_OPTIONAL))}{_INVISIBLE}]")
_INSIDE = re.compile(r"[^\S\n]*[,*_'\u2019()/&-]*[^\S\n]*")  # ends no sentence and no line
_ACCENTED = (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
_WITHOUT_ACCENTS = _DIGITS | {
    code: unicodedata.normalize("NFKD", chr(code))[0] for code in _ACCENTED
}
_GERMAN = re.compile("das|de[mnrs]|die|eine?|für|im|ist|mit|nicht|sich|und|von|wird")
_GERMAN_SHARE = 0.1  # of the words, in a text that is German


@dataclass(frozen=True, slots=True)
class Word:
    """A word at `start` to `end` of a text, and the `form` in which it is compared."""

    start: int
    end: int
    form: str

    @property
    def halves(self) -> int:
        """The weight in half words: 2 for a word, 1 for a character of a script without spaces, 0
        for a sign."""
        if not self.form[-1].isalnum() and not self.form[0].isalnum():
            return 0
        return 1 if _ALONE.match(self.form) else 2


def words(text: str) -> list[Word]:
    """The words of a text, in order."""
    return [Word(start, end, form_of(text[start:end])) for start, end in ranges(text)]


def ranges(text: str) -> Iterator[tuple[int, int]]:
    """Yield the range (start, end) of each word."""
    for match in _WORD.finditer(text):
        if match.lastindex:
            yield match.span()


def end_of(text: str, start: int) -> int:
    """The end of the word that begins at `start`."""
    match = _WORD.match(text, start)
    return match.end() if match else start


def form_of(written: str) -> str:
    """The form in which a word is compared: without case, points, hyphens and formatting."""
    sign = "-" if written[0] in "-\u2212" else ""
    form = plain(_DROPPED.sub("", written.replace("\u2212", "")))
    return sign + (plain(form.casefold()) or written)


def plain(text: str, form: Literal["NFKC", "NFKD"] = "NFKC") -> str:
    """A text as words are looked for: in one spelling of each letter, without points and
    invisible characters, with the digits 0 to 9. Without any accents if `form` is "NFKD"."""
    if text.isascii():
        return text
    return _CHANGED.sub(lambda each: _PLAIN.get(each[0], ""), unicodedata.normalize(form, text))


def searched(text: str) -> tuple[str, Sequence[int]]:
    """A text without case, accents and points, and for each of its characters the index of the
    original."""
    if text.isascii():
        return text.lower(), range(len(text))
    parts = [_searched(character) for character in text]
    places = [place for place, part in enumerate(parts) for _ in part]
    return "".join(parts), places


@lru_cache(maxsize=1 << 12)
def _searched(character: str) -> str:
    return plain(character, "NFKD").casefold()


def without_accents(text: str) -> str:
    """A text whose Latin letters have no accents, with the digits 0 to 9, of the same length."""
    return text.translate(_WITHOUT_ACCENTS)


def folded(text: str) -> str:
    """The same without capitals."""
    return without_accents(text).lower()


def names(text: str, found: Sequence[Word]) -> list[int]:
    """The indices of words that are names, by their capitals inside sentences; [] for German,
    which capitalizes all nouns."""
    if sum(_GERMAN.fullmatch(word.form) is not None for word in found) > _GERMAN_SHARE * len(found):
        return []
    return [
        number
        for number, (before, word) in enumerate(pairwise(found), start=1)
        if word.end - word.start > 1
        and text[word.start].isupper()
        and text[word.start + 1] not in "'\u2019"  # I'm
        and _INSIDE.fullmatch(text, before.end, word.start)
    ]
