"""Judges a draft by the logits of its pass, and chooses a token without one.

Pure functions: arrays are under way when they return, and nothing is waited for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import mlx.core as mx

from engine.core.accept import as_written, by_block, last_accepted, outcomes
from engine.core.rounds import Constraint, Logprob, Task
from engine.core.sampling import (
    History,
    candidates,
    distribution,
    draw,
    entries,
    likeliest,
    log_mass,
    logprobs,
    noise,
    scores,
)
from engine.device import begin, start
from engine.drafters import DraftArrays
from engine.tree import COMMITTED, Tree


class Ruling(NamedTuple):
    """A verdict on a draft of n tokens.

    `last`: the last accepted token, counted from 1, and 0 for none. `own`: the target's own token,
    and `own_p` its probability. `p` and `chance`: n each, the target's probability of a drafted
    token, and its chance to be accepted.
    """

    last: int
    own: int
    p: list[float]
    own_p: float
    chance: list[float]


@dataclass(frozen=True, slots=True)
class Judging:
    """A verdict that is under way: `rule` makes it of the fetched `arrays`.

    `scored`: the scores of each row; `own`: the token that the target would write after it.
    """

    scored: mx.array
    own: mx.array
    arrays: tuple[mx.array, ...]
    rule: Callable[..., Ruling]


def judge(
    logits: mx.array,
    tokens: list[int],
    draft: DraftArrays,
    ids: list[int],
    task: Task,
    luck: Random,
) -> Judging:
    """Begin to judge a draft by the logits of its pass. `ids`: the draft's tokens, fetched."""
    tree, sampling = draft.shape, task.sampling
    logits = logits[-(len(tree) + 1) :]  # after the committed tokens and after each drafted one
    paths = [(), *map(tree.path, range(len(tree)))]
    history = History(tokens, sampling).behind(draft.tokens, paths)
    scored = scores(logits, history, sampling, _masks(task.constraint, ids, tree))
    if sampling.greedy or sampling.repeatable:
        judging = _compare(scored, len(tokens), ids, tree, task)
    else:
        judging = _sample(scored, draft, task, luck)
    start(*judging.arrays)
    return judging


def _compare(scored: mx.array, length: int, ids: list[int], tree: Tree, task: Task) -> Judging:
    """Accept the tokens that are written without a draft, too, after `length` tokens."""
    judges = mx.array(tree.judges, dtype=mx.int32)
    drafted, greedy = mx.array(ids, dtype=mx.int32), task.sampling.greedy
    if greedy:
        written, mass = mx.argmax(scored, axis=-1), log_mass(scored)
        own_p = mx.exp(mx.max(scored, axis=-1) - mass)
        p = mx.exp(scored[judges, drafted] - mass[judges])
    else:
        of_all = distribution(scored, task.sampling)
        places = mx.array([0, *(depth + 1 for depth in tree.depths)])
        written = draw(of_all, noise(task.seed, length, tree.height + 1)[places])
        own_p, p = entries(of_all, written), of_all[judges, drafted]

    def rule(written: list[int], own_p: list[float], p: list[float]) -> Ruling:
        last = as_written(ids, written, tree)
        judged = zip(ids, tree.parents, strict=True)
        same = [float(token == written[parent + 1]) for token, parent in judged]
        return Ruling(last, written[last], p, own_p[last], same if greedy else p)

    return Judging(scored, written, (written, own_p, p), rule)


def _sample(scored: mx.array, draft: DraftArrays, task: Task, luck: Random) -> Judging:
    """Accept so that the distribution is the target's. Its own token is drawn after every drafted
    token at once; the host then decides after which of them the round ends."""
    tree, p = draft.shape, candidates(scored, task.sampling)
    may_come = outcomes(by_block, draft.tokens, p, draft.distributions, tree)
    point, *points = (luck.random() for _ in range(len(tree) + 2))
    columns = draw(may_come.own, mx.array(points)[:, None])
    own = p.of(columns)

    def rule(tried: list[float], own: list[int], own_p: list[float], p: list[float]) -> Ruling:
        ends, chance = by_block.ends(tree, tried)
        last = last_accepted(ends, point)
        return Ruling(last, own[last], p, own_p[last], [min(each, 1.0) for each in chance])

    return Judging(scored, own, (may_come.tried, own, entries(p.p, columns), may_come.p), rule)


def _masks(constraint: Constraint, drafted: list[int], tree: Tree) -> mx.array | None:
    """Truth values, (n + 1, vocabulary): the tokens that a grammar allows after the committed ones
    and after each drafted one. None if all are allowed."""
    if tree.is_chain:
        return constraint.masks(drafted)
    rows: dict[int, mx.array] = {}
    for path in tree.paths:
        masks = constraint.masks([drafted[i] for i in path])
        if masks is not None:
            rows.update(zip((COMMITTED, *path), masks, strict=True))
    if not rows:
        return None
    anything = mx.ones_like(next(iter(rows.values())))
    return mx.stack([rows.get(i, anything) for i in range(COMMITTED, len(tree))])


def likely_tokens(
    scored: mx.array, own: mx.array, draft: DraftArrays | None, *, top: int | None
) -> tuple[mx.array, ...]:
    """Begin the arrays that `logprobs_of` makes log probabilities of. Empty if `top` is None.

    They are each row's `top` likeliest ids and their log probabilities, and the log probabilities
    of the drafted tokens and of every row's `own` token.
    """
    if top is None:
        return ()
    of_rows, of_draft = logprobs(scored), mx.zeros((0,))
    if draft is not None:
        of_draft = of_rows[mx.array(draft.shape.judges, dtype=mx.int32), draft.tokens]
    arrays = (*likeliest(of_rows, top), of_draft, entries(of_rows, own))
    start(*arrays)
    return arrays


def logprobs_of(likely: list[list[Any]], path: tuple[int, ...], count: int) -> list[Logprob]:
    """Return the log probabilities of a round's `count` committed tokens, from the fetched arrays
    of `likely_tokens`; empty without these."""
    if not likely:
        return []
    ids, of_ids, drafted, own = likely
    rows = [0, *(i + 1 for i in path)]  # each judges the token after it
    in_order = [*(drafted[i] for i in path), own[rows[-1]]]
    tops = [list(zip(ids[row], of_ids[row], strict=True)) for row in rows]
    return [Logprob(*pair) for pair in zip(in_order, tops, strict=True)][:count]


def choose(logits: mx.array, tokens: list[int], task: Task, luck: Random) -> tuple[mx.array, ...]:
    """Return the token after `tokens`, under way: (token, p), both (1,), then the arrays of
    `likely_tokens`."""
    sampling, nothing = task.sampling, mx.zeros((0,), dtype=mx.int32)
    history = History(tokens, sampling).windows(nothing, 0, 1)
    scored = scores(logits, history, sampling, task.constraint.masks([]))
    if sampling.greedy:
        token = mx.argmax(scored, axis=-1).astype(mx.int32)
        p = mx.exp(mx.max(scored, axis=-1) - log_mass(scored))
    elif sampling.repeatable:
        of_all = distribution(scored, sampling)
        token = draw(of_all, noise(task.seed, len(tokens), 1))
        p = entries(of_all, token)
    else:
        likely = candidates(scored, sampling)
        column = draw(likely.p, mx.array([[luck.random()]]))
        token, p = likely.of(column).astype(mx.int32), entries(likely.p, column)
    chosen = token, p, *likely_tokens(scored, token, None, top=task.logprobs)
    begin(*chosen)
    return chosen
