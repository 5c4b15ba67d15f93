"""Acceptance rules as functions that draw all of a round on the device, so that many rounds are
drawn at once (`mx.vmap`); and such functions, mutants above all, as rules for the loop."""

from functools import cache
from itertools import count
from typing import NamedTuple

import mlx.core as mx

from engine.core.accept import AcceptanceRule, outcomes
from engine.core.sampling import Candidates, draw
from engine.tree import Tree


class Verdict(NamedTuple):
    """A round's verdict. `accepted`: (), the last accepted token, counted from 1, and 0 for none.
    `next`: (), the target's own token behind it. `chance`: (n,), as `AcceptanceRule.ends` has it.
    """

    accepted: mx.array
    next: mx.array
    chance: mx.array


"""Draws the verdict on `drafted` (n,), `p` (n + 1, vocabulary), `q` (n, vocabulary), with a `key`,
and a `tree` if the draft is no chain."""


class AllOutcomes(NamedTuple):
    """`ends`: (n + 1,) and `chance`: (n,), as `AcceptanceRule.ends` has them. `own`: as in
    `Outcomes`."""

    ends: mx.array
    own: mx.array
    chance: mx.array


def enumerated(rule, drafted, p, q, tree=None):
    """All that may come of a draft. `ends`, which the host computes, has operators alone, and so
    works with numbers that are still on the device."""
    tree = tree or Tree.chain(drafted.size)
    tried, own, _ = outcomes(rule, drafted, Candidates(p, None), q, tree)
    ends, chance = rule.ends(tree, [tried[i] for i in range(len(tree))])
    return AllOutcomes(mx.stack(ends), own, mx.minimum(mx.stack(chance), 1.0))


@cache
def drawing(rule):
    """The rule, with its draws."""

    def draw_verdict(drafted, p, q, key, tree=None):
        may_come = enumerated(rule, drafted, p, q, tree)
        ends_key, own_key = mx.random.split(key)
        last = draw(may_come.ends, mx.random.uniform(shape=(1,), key=ends_key))
        own = draw(may_come.own[last], mx.random.uniform(shape=(1,), key=own_key))
        return Verdict(last, own, may_come.chance)

    return draw_verdict


def as_rule(drawing):
    """A rule that rules as `drawing` draws: one outcome is certain. For models without filters."""
    seeds = count()

    def judge(draft, tree):
        assert draft.p.ids is None
        key = mx.random.key(next(seeds))
        drawn = drawing(draft.tokens, draft.p.p, draft.q, key, tree)
        tried = mx.arange(1, len(tree) + 1) == drawn.accepted
        own = mx.arange(draft.p.p.shape[-1]) == drawn.next
        return tried.astype(mx.float32), mx.broadcast_to(own, draft.p.p.shape).astype(mx.float32)

    def ends(tree, tried):
        return [1.0 - sum(tried), *tried], [0.0] * len(tree)

    return AcceptanceRule(judge, ends)
