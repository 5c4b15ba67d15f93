"""Reads the distinctive words of a question. Knows no document."""

import re
from collections.abc import Collection

from engine.documents.languages import ENGLISH, function_words, languages_of
from engine.documents.words import WORD, folded, plain

_READ = 10_000  # characters of a question: a longer one is mostly a text
_MOST_TERMS = 64
_FEW_TERMS = 3  # a question with fewer, which refers to the one before, is joined with it
_LONGEST_SUFFIX = 2  # letters after an apostrophe: we'll, what's
_TERM = re.compile(rf"{WORD}+(?:['.\-/+@:]{WORD}+)*")
_REFERS = re.compile(
    r"^\W*(and|but|how about|or|what about)\b|"
    r"\b(he|her|him|his|it|its|same|she|that|their|them|there|these|they|this|those)\b",
    re.IGNORECASE,
)


def terms(question: str) -> tuple[str, ...]:
    """The words of a question that tell passages apart, without repetition, in order.

    Example: "What does clause 7 say about rent?" gives ("clause", "7", "rent").
    """
    stops = function_words(languages_of(question) or (ENGLISH,))
    distinct: dict[str, str] = {}
    for match in _TERM.finditer(plain(question)):
        word = match[0]
        before, _, behind = word.partition("'")
        if _stops(before, stops) and len(behind) > _LONGEST_SUFFIX:  # l'appartement
            word = before = behind
        if not _stops(before, stops):
            distinct.setdefault(word.casefold(), word)
    return tuple(distinct.values())[:_MOST_TERMS]


def _stops(word: str, stops: Collection[str]) -> bool:
    letter = len(word) == 1 and word.isascii() and word.isalpha()
    return letter or folded(word) in stops


def looked_for(question: str, asked_before: str) -> str:
    """The text whose words are looked for: the question, with the one before if it refers to it."""
    refers = 0 < len(terms(question)) < _FEW_TERMS and _REFERS.search(question)
    return f"{asked_before}\n{question}" if refers else question
