"""Traces of any text, made up: as if a drafter had guessed most of it. For pictures and tests."""

import random
import re
from itertools import chain
from zlib import crc32

from engine.conversation.stats import tally
from engine.events import (
    Done,
    Draft,
    DraftedToken,
    Prefill,
    Span,
    Text,
    TokenVerdict,
    Verdict,
    WrittenToken,
)

_TOKEN = re.compile(r" ?\w{1,7}|\n+|\s+|[^\w\s]")
ROUND_SECONDS = 0.011


def made_trace(text, *, seed=0, longest=5):
    """The events of an answer that is `text`; the same for the same seed. `longest` 0: plain."""
    reading = (Prefill("g", 96, 120, 96, 0.0), Prefill("g", 120, 120, 96, 0.04))
    rounds = made_rounds(text, "g", seed=seed, longest=longest)
    events = (*reading, *chain.from_iterable(rounds))
    return (*events, Done("g", "stop", tally(events)))


def made_rounds(text, generation, *, seed=0, longest=5):
    """The events of one round after another; each round but a plain one has its draft first."""
    chance = random.Random(seed)
    tokens = _TOKEN.findall(text)
    words = [token for token in tokens if token[0] == " " and token.strip().isalpha()] or [" is"]
    place = number = 0
    while place < len(tokens):
        number += 1
        length = chance.choice((0, 0, 3, 4, longest)) if number > 3 else 0
        length = min(length, longest, len(tokens) - place - 1)
        accepted = min(length, chance.choice((0, 1, 2, 3, longest, longest)))
        right = tokens[place : place + accepted]
        wrong = _wrong(words, length - accepted, chance, right=tokens[place + accepted])
        drafted = tuple(
            DraftedToken(_id(guess), guess, round(chance.uniform(0.4, 0.99), 3))
            for guess in (*right, *wrong)
        )
        origin = "plain"
        if drafted:
            origin = "bonus" if accepted == length else "correction"
        judged = tuple(
            TokenVerdict(round(chance.uniform(0.5, 1.0) if n < accepted else 0.02, 3), 0.9)
            for n in range(length)
        )
        own = WrittenToken(_id(tokens[place + accepted]), tokens[place + accepted], 0.87, origin)
        draft_seconds = 0.0008 * length
        verdict = Verdict(
            generation,
            number,
            accepted,
            judged,
            own,
            draft_seconds,
            ROUND_SECONDS - 0.001,
            ROUND_SECONDS + draft_seconds,
            f"expects {accepted + 1} to stand" if length else "drafting does not pay here",
        )
        parts = (*right, own.text)
        spans = tuple(Span(number, index, len(part)) for index, part in enumerate(parts))
        written = Text(generation, "".join(parts), spans)
        draft = Draft(generation, number, drafted, "lookup" if number % 3 else "head")
        yield (draft, verdict, written) if drafted else (verdict, written)
        place += accepted + 1


def _wrong(words, count, chance, *, right):
    """Words from elsewhere in the text, as if they had been copied from there."""
    start = chance.randrange(len(words))
    guess = [words[(start + n) % len(words)] for n in range(count)]
    return [" the" if right != " the" else " a", *guess[1:]] if guess[:1] == [right] else guess


def _id(token):
    return crc32(token.encode()) % 50_000
