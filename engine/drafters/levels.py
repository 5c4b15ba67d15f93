"""A tree drafted by a model, level by level: all tokens of a depth are read at once.

Sampling, the tree has the shape that was chosen before anything was drawn. The alternatives for a
place are drawn one after another, without replacement: each has the distribution of the model given
the tokens before it and the alternatives before it, which is what the acceptance rules need.
So how many there are must not depend on which they are. Where the filters leave fewer, the others
are drawn from what they rejected: the target may well be less sure.

Greedy, any tree does, and the tree of the likeliest paths is the best (EAGLE-2, arXiv 2406.16858):
level by level the likeliest tokens are read on, and in the end the best of all remain. Which tokens
to read next is decided here, so each level is waited for.

Knows how to draw, not which model does: that is a `ReadLevel` function.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.core.sampling import Candidates, History, candidates, draw, entries, joined, likeliest
from engine.device import begin, fetch
from engine.drafters import DraftArrays
from engine.drafters.chain import DraftRequest
from engine.drafters.rows import MOST
from engine.tree import COMMITTED, Tree

ALTERNATIVES = 8
"""For one place; as many tokens of a level are read on where it is decided which."""

ReadLevel = Callable[[mx.array, Tree], mx.array]
"""From the tokens of a level, (n,), and the tree of all tokens that were read so far, the level's
last, to the logits after each, (n, rows). The first call gets no tokens and an empty tree; it gives
the logits after the committed tokens, (1, rows)."""


def draft_tree(read: ReadLevel, asked: DraftRequest) -> DraftArrays:
    """Draft a tree. If sampled, it has the chosen shape. If greedy, it has any shape with at most
    as many tokens, and at most as high."""
    rows, sampling, choice = asked.rows, asked.sampling, asked.choice
    history = History(asked.tokens, sampling)

    def law(drafted: mx.array, tree: Tree, count: int) -> Candidates:
        """Return the candidates after the last `count` of the tokens that are read."""
        first = len(tree) - count
        paths = [tree.path(token) for token in range(first, len(tree))] or [()]
        logits, before = read(drafted[first:], tree), history.behind(drafted, paths)
        begin(logits)
        scored = rows.scores(logits, before, sampling)
        return candidates(scored, sampling, most=MOST, spare=True)

    shape = choice.tree or Tree.chain(choice.length)
    if sampling.greedy:
        return _likeliest(law, shape, asked)
    return _drawn(law, shape, asked)


def by_depth(logits: Callable[[int], mx.array]) -> ReadLevel:
    """Return a `ReadLevel` for a model whose logits do not depend on the drafted tokens:
    `logits(depth)` is the same, (1, rows), for all tokens of a depth."""

    def read(tokens: mx.array, tree: Tree) -> mx.array:
        row = logits(tree.height)
        return mx.broadcast_to(row, (max(tokens.size, 1), row.shape[-1]))

    return read


_Law = Callable[[mx.array, Tree, int], Candidates]


def _drawn(law: _Law, shape: Tree, asked: DraftRequest) -> DraftArrays:
    """Draw a tree of this shape. Does not wait for the device."""
    rows = asked.rows
    place: dict[int, int] = {}  # of each token, in what follows
    chosen, q = [mx.zeros((0,), mx.int32)], list[mx.array]()
    drawn_from = list[Candidates]()
    read: list[int] = []
    level = [COMMITTED]  # after which tokens are drawn next
    for level_key in mx.random.split(asked.key, shape.height):
        children = [shape.children(parent) for parent in level]
        read += [token for token in level if token != COMMITTED]
        places = mx.array([place[token] for token in read], dtype=mx.int32)
        tokens = rows.tokens(mx.concatenate(chosen)[places])
        every = law(tokens, shape.only(read), len(level) if read else 0)
        counts = [len(each) for each in children]
        for rank, (parents, columns, left) in enumerate(
            without_replacement(every.p, counts, level_key)
        ):
            for parent in parents:
                place[children[parent][rank]] = len(place)
            ids = None if every.ids is None else every.ids[mx.array(parents)]
            drawn_from.append(Candidates(left, ids))
            chosen.append(drawn_from[-1].of(columns))
            q.append(entries(left, columns))
        level = [token for each in children for token in each if shape.children(token)]
        begin(*chosen)
    order = mx.array([place[token] for token in range(len(shape))])
    return DraftArrays(
        tokens=rows.tokens(mx.concatenate(chosen)[order]),
        q=mx.concatenate(q)[order],
        distributions=rows.over_vocabulary(joined(drawn_from))[order],
        drafter=asked.drafter,
        tree=_unless_chain(shape),
    )


def without_replacement(
    q: mx.array, counts: Sequence[int], key: mx.array
) -> Iterator[tuple[list[int], mx.array, mx.array]]:
    """Draw `counts[row]` columns, at least 1, for each row of `q`, (rows, n), none of them twice.

    Yields for each rank, from 0: the rows that have a column of this rank, these columns, and the
    distributions that they were drawn from, (some rows, n). A distribution is 0 everywhere if
    nothing was left to draw.
    """
    rows, left = list(range(len(counts))), q
    for rank, rank_key in enumerate(mx.random.split(key, max(counts))):
        if rank:
            places = [place for place, row in enumerate(rows) if counts[row] > rank]
            rows = [rows[place] for place in places]
            left = left[mx.array(places)]
            total = mx.sum(left, axis=-1, keepdims=True)
            left = mx.where(total > 0.0, left / total, 0.0)
        columns = draw(left, mx.random.uniform(shape=(len(rows), 1), key=rank_key))
        yield rows, columns, left
        left = mx.put_along_axis(left, columns[:, None], mx.array(0.0), axis=-1)


@dataclass(frozen=True, slots=True)
class _Guess:
    """A token that may be proposed. `parent`: the place of another guess, or COMMITTED; `worth`:
    the chance that it is accepted with all before it."""

    token: int
    q: float
    parent: int
    worth: float


def _likeliest(law: _Law, shape: Tree, asked: DraftRequest) -> DraftArrays:
    """Return the tree of the likeliest tokens, with at most as many as `shape`, and no higher."""
    guesses: list[_Guess] = []  # each after its parent
    read: list[int] = []
    level = [COMMITTED]
    for _ in range(shape.height):
        read += [place for place in level if place != COMMITTED]
        ids = mx.array([guesses[place].token for place in read], dtype=mx.int32)
        tree = Tree(tuple(guess.parent for guess in guesses)).only(read)
        latest = len(guesses)
        some, of_some = likeliest(law(ids, tree, len(level) if read else 0).p, ALTERNATIVES)
        for parent, *likely in zip(level, *fetch(asked.rows.tokens(some), of_some), strict=True):
            before = 1.0 if parent == COMMITTED else guesses[parent].worth
            for token, q in zip(*likely, strict=True):
                if q > 0.0:
                    guesses.append(_Guess(token, q, parent, before * q))
        best = _best(guesses, range(len(guesses)), len(shape))
        level = _best(guesses, range(latest, len(guesses)), ALTERNATIVES)
        level = [place for place in level if place in best]  # after others nothing is better
        if not level:
            break
    return DraftArrays(
        tokens=mx.array([guesses[place].token for place in best], dtype=mx.int32),
        q=mx.array([guesses[place].q for place in best]),
        distributions=None,
        drafter=asked.drafter,
        tree=_unless_chain(Tree(tuple(guess.parent for guess in guesses)).only(best)),
    )


def _best(guesses: Sequence[_Guess], places: Sequence[int], count: int) -> list[int]:
    """Return the `count` of `places` with the most worth, the best first. Of equals the earlier
    comes first, so a token's parent comes before it."""
    return sorted(places, key=lambda place: -guesses[place].worth)[:count]


def _unless_chain(tree: Tree) -> Tree | None:
    return None if tree.is_chain else tree
