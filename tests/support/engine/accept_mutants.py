"""Acceptance rules that are wrong in ways that are easy to get wrong."""

import mlx.core as mx

from engine.core import accept
from engine.tree import Tree
from tests.support.engine.acceptance import Verdict, drawing

by_token = drawing(accept.by_token)


def _of(rows: mx.array, ids: mx.array) -> mx.array:
    return mx.take_along_axis(rows, ids[:, None], axis=-1)[:, 0]


def _sample(weights: mx.array, key: mx.array) -> mx.array:
    return mx.random.categorical(mx.log(weights), key=key).astype(mx.int32)


def resampled_from_p(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None = None
) -> Verdict:
    """After a rejection: p instead of the residual."""
    rule_key, own_key = mx.random.split(key)
    verdict = by_token(drafted, p, q, rule_key)
    return verdict._replace(next=_sample(p[verdict.accepted], own_key))


def too_willing(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None = None
) -> Verdict:
    """Accepts with 1.05 times the chance."""
    uniform_key, own_key = mx.random.split(key)
    n = drafted.size
    chance = mx.minimum(1.05 * _of(p[:n], drafted) / _of(q, drafted), 1.0)
    stands = mx.random.uniform(shape=(n,), key=uniform_key) < chance
    accepted = mx.sum(mx.cumprod(stands.astype(mx.int32)))
    return Verdict(accepted, _left(mx.array(1.0), accepted, p, q, own_key), chance)


def bonus_from_q(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None = None
) -> Verdict:
    """After a clean sweep: the drafter's distribution instead of the target's."""
    rule_key, own_key = mx.random.split(key)
    verdict = by_token(drafted, p, q, rule_key)
    bonus = _sample(q[-1], own_key)
    swept = verdict.accepted == drafted.size
    return verdict._replace(next=mx.where(swept, bonus, verdict.next))


def block_stops_at_first_fall(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None = None
) -> Verdict:
    """`by_block`, but a prefix is accepted only if all shorter ones are."""
    uniform_key, own_key = mx.random.split(key)
    n = drafted.size
    ratios = _of(p[:n], drafted) / _of(q, drafted)
    weights, chances = [mx.array(1.0)], []
    for i in range(n):  # the paper's own recursion
        weights.append(mx.minimum(weights[-1] * ratios[i], 1.0))
        if i + 1 < n:
            left = mx.sum(mx.maximum(weights[-1] * p[i + 1] - q[i + 1], 0.0))
            chances.append(mx.where(weights[-1] < 1, left / (left + 1 - weights[-1]), 1.0))
    chance = mx.stack([*chances, weights[-1]])
    stands = mx.random.uniform(shape=(n,), key=uniform_key) < chance
    accepted = mx.sum(mx.cumprod(stands.astype(mx.int32)))
    return Verdict(accepted, _left(mx.stack(weights)[accepted], accepted, p, q, own_key), chance)


def _left(
    weight: mx.array, accepted: mx.array, p: mx.array, q: mx.array, key: mx.array
) -> mx.array:
    """The target's own token, from what is left to be covered."""
    padded = mx.concatenate([q, mx.zeros((1, p.shape[-1]))])
    residual = mx.maximum(weight * p[accepted] - padded[accepted], 0.0)
    return _sample(mx.where(mx.sum(residual) > 0, residual, p[accepted]), key)
