"""Acceptance rules that are wrong in ways that are easy to get wrong."""

import mlx.core as mx

from engine.core import accept
from engine.tree import Tree
from tests.support.engine.acceptance import Verdict, drawing

by_token, by_block = drawing(accept.by_token), drawing(accept.by_block)


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


def resampled_from_p_by_block(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None = None
) -> Verdict:
    rule_key, own_key = mx.random.split(key)
    verdict = by_block(drafted, p, q, rule_key)
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
    padded = mx.concatenate([q, mx.zeros((1, p.shape[-1]))])
    residual = mx.maximum(p[accepted] - padded[accepted], 0.0)
    residual = mx.where(mx.sum(residual) > 0, residual, p[accepted])
    return Verdict(accepted, _sample(residual, own_key), chance)


def bonus_from_q(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None = None
) -> Verdict:
    """After a clean sweep: the drafter's distribution instead of the target's."""
    rule_key, own_key = mx.random.split(key)
    verdict = by_token(drafted, p, q, rule_key)
    bonus = _sample(q[-1], own_key)
    swept = verdict.accepted == drafted.size
    return verdict._replace(next=mx.where(swept, bonus, verdict.next))


def bonus_from_q_by_block(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None = None
) -> Verdict:
    rule_key, own_key = mx.random.split(key)
    verdict = by_block(drafted, p, q, rule_key)
    swept = verdict.accepted == drafted.size
    return verdict._replace(next=mx.where(swept, _sample(q[-1], own_key), verdict.next))


def _block(drafted: mx.array, p: mx.array, q: mx.array) -> tuple[mx.array, mx.array]:
    """By the paper's own recursion: the prefixes' standing (n + 1,), and their chances (n,)."""
    n = drafted.size
    ratios = _of(p[:n], drafted) / _of(q, drafted)
    weights, chances = [mx.array(1.0)], []
    for i in range(n):
        weights.append(mx.minimum(weights[-1] * ratios[i], 1.0))
        if i + 1 < n:
            left = mx.sum(mx.maximum(weights[-1] * p[i + 1] - q[i + 1], 0.0))
            chances.append(mx.where(weights[-1] < 1, left / (left + 1 - weights[-1]), 1.0))
    return mx.stack(weights), mx.stack([*chances, weights[-1]])


def block_stops_at_first_fall(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None = None
) -> Verdict:
    """As if a prefix could only stand where all shorter ones do."""
    return _block_mutant(drafted, p, q, key, stops=True, weighs=True)


def block_with_plain_residual(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None = None
) -> Verdict:
    """max(0, p - q) where it should be max(0, w p - q)."""
    return _block_mutant(drafted, p, q, key, stops=False, weighs=False)


def paper(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None = None
) -> Verdict:
    """No mutant: shows that what fails the two above is the mutation."""
    return _block_mutant(drafted, p, q, key, stops=False, weighs=True)


def _block_mutant(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, *, stops: bool, weighs: bool
) -> Verdict:
    uniform_key, own_key = mx.random.split(key)
    n = drafted.size
    weights, chances = _block(drafted, p, q)
    stands = mx.random.uniform(shape=(n,), key=uniform_key) < chances
    if stops:
        accepted = mx.sum(mx.cumprod(stands.astype(mx.int32)))
    else:
        accepted = mx.max(mx.where(stands, mx.arange(1, n + 1), 0))
    weight = weights[accepted] if weighs else 1.0
    padded = mx.concatenate([q, mx.zeros((1, p.shape[-1]))])
    residual = mx.maximum(weight * p[accepted] - padded[accepted], 0.0)
    residual = mx.where(mx.sum(residual) > 0, residual, p[accepted])
    return Verdict(accepted, _sample(residual, own_key), chances)


MUTANTS = [
    resampled_from_p,
    resampled_from_p_by_block,
    too_willing,
    bonus_from_q,
    bonus_from_q_by_block,
    block_stops_at_first_fall,
]
