"""The copied words of an answer, found by trying everything: slow, and short enough to be read."""

from engine.documents.words import names, words


def slowly_copied(answer, documents):
    """From where to where in the answer, and in which documents."""
    found = words(answer)
    named = set(names(answer, found))
    others = {number: [w.form for w in words(text)] for number, text in documents.items()}
    taken = set()
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


def _counts(found, named, first, last):
    special = any(n in named or any(map(str.isdigit, found[n].form)) for n in range(first, last))
    return sum(word.halves for word in found[first:last]) >= (8 if special else 12)


def _holds(other, run):
    wanted = [word.form for word in run]
    return any(other[at : at + len(wanted)] == wanted for at in range(len(other) - len(wanted) + 1))
