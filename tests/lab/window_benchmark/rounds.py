"""The answer that the benchmark of the window streams: Markdown of every kind, and its rounds.

The same text and the same rounds for the same length, on every machine. Knows events; not time,
and not who plays them.
"""

import random
import re
from collections.abc import Iterator
from itertools import count
from zlib import crc32

from engine.events import (
    Draft,
    DraftedToken,
    Event,
    Origin,
    Span,
    Text,
    TokenVerdict,
    Verdict,
    WrittenToken,
)

Round = tuple[Event, ...]

_TOKEN = re.compile(r" ?\w{1,7}|\n+|\s+|[^\w\s]{1,3}")
_WORDS = (
    "the small model writes ahead and large one reads what it wrote then keeps every word that "
    "stands because a guess costs little while reading many words at once costs hardly more than "
    "reading one of them so nothing is lost when they are wrong and much is won otherwise"
)
_WRONG = (" the", " of", " and", "s", ",", " is", "\n", " then", " it", "ing")
_SECONDS = 0.012  # of a round, as its figures have it


def made_text(characters: int) -> str:
    """Prose, lists, tables, quotes and code, in sections; at least so many characters."""
    chance = random.Random(1)
    sections: list[str] = []
    length = 0
    for number in count(1):
        if length >= characters:
            break
        section = _section(chance, number)
        sections.append(section)
        length += len(section)
    return "".join(sections)


def made_rounds(text: str, *, generation: str, longest: int = 6) -> Iterator[Round]:
    """The events of an answer that is `text`, but for its end: those of one round at a time.

    Some drafts stand, some fall at once, some rounds have none.
    """
    chance = random.Random(2)
    tokens = _TOKEN.findall(text)
    place = 0
    for number in count(1):
        if place >= len(tokens):
            return
        length = min(chance.choice((0, 2, 3, 4, longest)), len(tokens) - place - 1)
        accepted = min(length, chance.choice((0, 1, 2, 3, longest)))
        right = tokens[place : place + accepted]
        wrong = [chance.choice(_WRONG) for _ in range(length - accepted)]
        own = tokens[place + accepted]
        place += accepted + 1
        yield _round(generation, number, (*right, *wrong), own, accepted=accepted, chance=chance)


def committed(events: Round) -> int:
    """How many tokens a round gave to the answer."""
    return sum(event.accepted + 1 for event in events if isinstance(event, Verdict))


def _round(
    generation: str,
    number: int,
    drafted: tuple[str, ...],
    own: str,
    *,
    accepted: int,
    chance: random.Random,
) -> Round:
    tokens = tuple(DraftedToken(_id(t), t, round(chance.uniform(0.4, 1.0), 3)) for t in drafted)
    origin: Origin = "plain"
    if drafted:
        origin = "bonus" if accepted == len(drafted) else "correction"
    verdict = Verdict(
        generation,
        number,
        accepted,
        tuple(
            TokenVerdict(*((0.9, 1.0) if place < accepted else (0.02, 0.05)))
            for place in range(len(drafted))
        ),
        WrittenToken(_id(own), own, 0.8, origin),
        0.0005 * len(drafted),
        _SECONDS - 0.002,
        _SECONDS,
        f"expects {accepted + 1} to stand" if drafted else "drafting does not pay here",
    )
    parts = (*drafted[:accepted], own)
    spans = tuple(Span(number, index, len(part)) for index, part in enumerate(parts))
    text = Text(generation, "".join(parts), spans)
    draft = Draft(generation, number, tokens, "lookup" if number % 3 else "head")
    return (draft, verdict, text) if drafted else (verdict, text)


def _section(chance: random.Random, number: int) -> str:
    """About a thousand characters."""
    rows = "".join(f"| {n} | {_phrase(chance, 2)} | {n * number} |\n" for n in range(1, 5))
    return (
        f"## {number}. {_phrase(chance, 4).capitalize()}\n\n"
        f"{_sentences(chance, 3)}\n\n"
        f"- **{_phrase(chance, 2)}**: {_phrase(chance, 7)}\n"
        f"- `{_phrase(chance, 1)}_{number}`, {_phrase(chance, 6)}\n"
        f"  1. *{_phrase(chance, 5)}*\n"
        f"  2. {_phrase(chance, 5)}\n\n"
        f"| n | {_phrase(chance, 1)} | {_phrase(chance, 1)} |\n|---|:---|---:|\n{rows}\n"
        f"```python\ndef step_{number}(words: list[str], limit: int = {number}) -> int:\n"
        f'    """{_phrase(chance, 6).capitalize()}."""\n'
        f"    found = [word for word in words if len(word) > limit]\n"
        f"    return len(found) + {number}  # {_phrase(chance, 3)}\n```\n\n"
        f"> {_phrase(chance, 9).capitalize()}.\n\n"
        f"{_sentences(chance, 2)}\n\n"
    )


def _sentences(chance: random.Random, number: int) -> str:
    return " ".join(
        f"{_phrase(chance, chance.randint(8, 16)).capitalize()}." for _ in range(number)
    )


def _phrase(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(_WORDS.split()) for _ in range(words))


def _id(token: str) -> int:
    return crc32(token.encode()) % 50_000
