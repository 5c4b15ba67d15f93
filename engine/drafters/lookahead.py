"""The target's own guesses about what comes later (lookahead decoding, arXiv 2402.02057).

A window of guesses follows the text, in W columns. A column's tokens follow each other; its first
one follows the first ones of the columns before it. Each pass shows what
the target would write after every column: an n-gram, which goes into a pool, and the column moves
on by one token. N-grams that begin with the text's last token are drafted with the window, which
may be right itself (Jacobi decoding). All of it is one tree, in which equal beginnings are joined,
and every guess is certain (q = 1). No model, no training.

The window costs its rows in every round, or it fills no pool: `DraftCandidate.least` says so. Where
there is less room the draft is the first tokens of that tree, n-grams before the window; where
there are only chains it is the newest n-gram or, without one, the way to the window's last column.
Columns that were not read are moved on by what the pool has. Pure Python over token ids.
"""

from collections.abc import Sequence

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.draft_length import DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.drafters.copying import copied
from engine.request import Sampling
from engine.tree import COMMITTED, Tree

_FIRST_TOKENS = 4096  # with which n-grams in a pool begin

NGram = tuple[int, ...]


class LookaheadDrafter(Drafter):
    """Drafts a window of `window` columns, and at most `most` n-grams of `size` tokens."""

    name = "lookahead"
    learns = 1

    def __init__(self, window: int = 3, size: int = 3, most: int = 3) -> None:
        self._window, self._size, self._most = window, size, most
        self._drafted: list[NGram] = []  # the way to each token of the last draft
        self._forget()

    def _forget(self) -> None:
        self._pool = NGramPool(self._most)
        self._seen = 0  # committed tokens whose n-grams are in the pool
        self._columns: list[NGram] = []
        self._start = 0  # committed tokens before the window

    def fork(self, target: Decoder) -> Drafter:
        return LookaheadDrafter(self._window, self._size, self._most)

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        rows = len(_joined(self._paths(tokens)))
        highest = self._window + self._size - 2
        return (DraftCandidate(self.name, highest, alternatives=self._most + 2, least=rows),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        paths, room = self._paths(tokens), choice.length
        if choice.tree is None:
            paths = paths[:1] if len(paths) > self._window else paths[-1:]
        else:
            room = len(choice.tree)
        self._drafted = _joined(paths)[:room]
        numbers = {path: number for number, path in enumerate(self._drafted)}
        tree = Tree(tuple(numbers.get(path[:-1], COMMITTED) for path in numbers))
        return copied([path[-1] for path in numbers], tree, drafter=self.name, matched=0)

    def learn(self, tokens: list[int], likeliest: list[list[int]]) -> None:
        drafted, self._drafted = self._drafted, []
        if not drafted or tokens[-len(drafted) :] != [path[-1] for path in drafted]:
            return  # someone else's draft, or none
        rows = likeliest[-len(drafted) :]
        after = {path: ids[0] for path, ids in zip(drafted, rows, strict=True)}
        for i, path in enumerate(self._through_columns()):
            column = self._columns[i]
            if path in after:
                self._pool.add((*column, after[path]))
            self._columns[i] = (*column[1:], after.get(path, self._guess(column[-1])))
        self._start += 1

    def rewind(self, length: int) -> None:
        self._drafted = []
        if length < self._seen:
            self._forget()

    def _paths(self, tokens: list[int]) -> list[NGram]:
        """Return all paths that can be drafted after `tokens`, the best first."""
        self._read(tokens)
        self._move(tokens)
        return [*self._pool.behind(tokens[-1]), *self._through_columns()]

    def _through_columns(self) -> list[NGram]:
        """Return for each column the path from the text's end through all of it."""
        firsts = tuple(column[0] for column in self._columns)
        return [(*firsts[:i], *column) for i, column in enumerate(self._columns)]

    def _read(self, tokens: list[int]) -> None:
        """Put the text's own n-grams into the pool."""
        for end in range(max(self._seen + 1, self._size), len(tokens) + 1):
            self._pool.add(tuple(tokens[end - self._size : end]))
        self._seen = len(tokens)

    def _move(self, tokens: list[int]) -> None:
        """Move the window after `tokens`. A new window repeats the end of `tokens`."""
        moved = len(tokens) - self._start
        self._start = len(tokens)
        if not self._columns or not 0 <= moved < self._window:
            width, length = self._size - 1, self._window + self._size - 2
            text = (tokens[-length:] * length)[:length]
            self._columns = [tuple(text[i : i + width]) for i in range(self._window)]
            return
        for _ in range(moved):
            last = self._columns[-1]
            self._columns = [*self._columns[1:], (*last[1:], self._guess(last[-1]))]

    def _guess(self, token: int) -> int:
        """Return a guess of the token after a token that was not read yet."""
        return next((gram[0] for gram in self._pool.behind(token)), token)


class NGramPool:
    """N-grams by their first token, at most `most` for each; the oldest are forgotten first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._grams: dict[int, dict[NGram, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._grams.values()))

    def add(self, gram: NGram) -> None:
        grams = self._grams.pop(gram[0], {})
        grams.pop(gram[1:], None)
        grams[gram[1:]] = None
        if len(grams) > self._most:
            del grams[next(iter(grams))]
        self._grams[gram[0]] = grams
        if len(self._grams) > _FIRST_TOKENS:
            del self._grams[next(iter(self._grams))]

    def behind(self, token: int) -> list[NGram]:
        """Return the n-grams that followed `token`, the newest first."""
        return list(reversed(self._grams.get(token, {})))


def _joined(paths: Sequence[NGram]) -> list[NGram]:
    """Return the paths to each token of the tree that joins all `paths`, without repetitions."""
    return list(dict.fromkeys(path[:end] for path in paths for end in range(1, len(path) + 1)))
