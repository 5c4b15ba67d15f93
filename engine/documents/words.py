"""Splits a text into words, each with its place and a form in which words are compared.

Words, numbers and signs with a meaning of their own are compared; punctuation, line breaks and
formatting are not. So a page with hyphens at line ends has the same words as an answer in Markdown;
markers, links and citations are skipped in both. Scripts without spaces give a word for each
character. Knows texts; no documents.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

# Marks that stand on letters; where they are vowels, the letters with them.
_MARKS = (
    r"\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    r"\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0dff"
    r"\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f"
)
_SINGLE = (  # Thai, Lao, Burmese, Khmer, Chinese, Japanese
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_LETTERS = rf"[^\W_{_SINGLE}]+"
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
            [{_MARKS}]+(?:{_LETTERS})?
            | (?:
                [*]{{0,3}}['\u2019\u02bc][*]{{0,3}}
                | (?<=\d)[.,](?=\d)
                | (?<!\d)[{_HYPHENS}] | [{_HYPHENS}](?!\d)
                | (?<!\d)[{_HYPHENS}][ \t]*\r?\n\s{{0,9}}(?!\d)
                | [{_HIDDEN}]+
                | (?<!\d)(?:[*]{{1,3}}|`|~~)(?!\d)
                | \\?_+
            )
            {_LETTERS}
        )*
        | [{_SINGLE}][{_MARKS}]*
        | [=+<>%\u2030\u00a7\u20ac\u00a3\u00a5\u00d7\u00f7\u00b1\u2264\u2265\u2260\u2248\u00b0]
        | [$](?=\d)
    )
    """,
    re.VERBOSE | re.MULTILINE,
)
_DROPPED = re.compile(rf"[{_HYPHENS}{_HIDDEN}\ufe00-\ufe0f*`~\\\s]+")
_ALONE = re.compile(rf"[{_SINGLE}]")
_APOSTROPHES = str.maketrans("\u2019\u02bc", "''")
_INSIDE = re.compile(r"[^\S\n]*[,*_'\u2019()/&-]*[^\S\n]*")  # ends no sentence and no line
_ACCENTED = (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
_WITHOUT_ACCENTS = {code: unicodedata.normalize("NFKD", chr(code))[0] for code in _ACCENTED}
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
    """The form in which a word is compared: without case, hyphens and formatting."""
    sign = "-" if written[0] in "-\u2212" else ""
    plain = _DROPPED.sub("", written.replace("\u2212", "")).translate(_APOSTROPHES)
    plain = unicodedata.normalize("NFKC", plain).casefold()
    return sign + unicodedata.normalize("NFKC", plain)


def without_accents(text: str) -> str:
    """A text whose Latin letters have no accents, of the same length."""
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
