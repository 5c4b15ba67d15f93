"""The copied words of an answer, found by trying everything: slow, and short enough to be read."""

from collections.abc import Mapping

from engine.documents.words import Word, names, words


def slowly_copied(answer: str, documents: Mapping[int, str]) -> list[tuple[int, int, set[int]]]:
    """From where to where in the answer, and in which documents."""
    found = words(answer)
    named = set(names(answer, found))
    others = {number: [w.form for w in words(text)] for number, text in documents.items()}
    taken: set[int] = set()
    kept = []
    while True:
        runs = [
            (first, last)
            for first in range(len(found))
            for last in range(first + 4, len(found) + 1)
            if taken.isdisjoint(range(first, last))
            and _counts(found, named, first, last)
            and any(_holds(other, found[first:last]) for other in others.values())
        ]
        if not runs:
            return sorted(kept)
        first, last = max(runs, key=lambda run: (run[1] - run[0], -run[0]))
        taken |= set(range(first, last))
        where = {n for n, other in others.items() if _holds(other, found[first:last])}
        kept.append((found[first].start, found[last - 1].end, where))


def _counts(found: list[Word], named: set[int], first: int, last: int) -> bool:
    special = any(n in named or any(map(str.isdigit, found[n].form)) for n in range(first, last))
    return sum(word.halves for word in found[first:last]) >= (8 if special else 12)


def _holds(other: list[str], run: list[Word]) -> bool:
    wanted = [word.form for word in run]
    return any(other[at : at + len(wanted)] == wanted for at in range(len(other) - len(wanted) + 1))
