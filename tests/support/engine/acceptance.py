"""Acceptance rules as functions that draw all of a round on the device, so that many rounds are
drawn at once (`mx.vmap`); and the rule that the product's is measured by, `by_token`."""

from functools import cache
from typing import NamedTuple

import mlx.core as mx

from engine.core.accept import AcceptanceRule, _covered, _own, outcomes
from engine.core.sampling import Candidates, draw
from engine.tree import COMMITTED, Tree


def _judge_tokens(draft, tree):
    tried, _, rest = _covered(draft, tree, generations=[range(COMMITTED, len(tree))])
    return tried[1:], _own(draft, rest, mx.sum(rest, axis=-1))


def _token_ends(tree, tried):
    reached, chance = [1.0], []
    stays = [1.0] * (len(tree) + 1)  # the chance that no alternative after a token is accepted
    for parent, accepted in zip(tree.parents, tried, strict=True):
        chance.append(stays[parent + 1] * accepted)
        reached.append(reached[parent + 1] * chance[-1])
        stays[parent + 1] *= 1.0 - accepted
    return [here * stay for here, stay in zip(reached, stays, strict=True)], chance


by_token = AcceptanceRule(_judge_tokens, _token_ends)
"""Each token is accepted with chance min(1, p/q), given that its parent is (Leviathan et al., arXiv
2211.17192); in a tree, recursive rejection (Miao et al., 2305.09781; Chen et al., 2402.12374)."""


class Verdict(NamedTuple):
    """A round's verdict. `accepted`: (), the last accepted token, counted from 1, and 0 for none.
    `next`: (), the target's own token after it. `chance`: (n,), as `AcceptanceRule.ends` has it.
    """

    accepted: mx.array
    next: mx.array
    chance: mx.array


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
