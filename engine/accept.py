"""The acceptance rules: which drafted tokens are accepted, and what the target writes after them.

A round drafts x_1..x_n, each from q_i, and the target gives p_1..p_{n+1} in one pass. Whatever
the q are, the committed tokens have exactly the target's distribution:

- `greedily`: tokens are accepted while they are the target's own first choice.
- `by_token`: x_i is accepted with chance min(1, p_i/q_i); the correction of the first rejected
  one is drawn from norm(max(0, p - q)) (Leviathan et al., arXiv 2211.17192; Chen et al.,
  2302.01318).
- `as_drawn`: tokens are accepted while they are what was drawn from p by the noise that belongs
  to their positions.
- `by_block`: prefixes are accepted as a whole, which accepts at least as many tokens from the
  same drafts (Sun et al., arXiv 2403.10444, algorithm 2).

A draft may be a tree (`engine.tree`); without one it is a chain.

Pure functions. Everything stays on the device: nothing here waits for it.
"""

from dataclasses import dataclass

import mlx.core as mx

from engine.sampling import draw, entries
from engine.tree import Tree


@dataclass(frozen=True, slots=True)
class VerdictArrays:
    """A round's verdict, as arrays that are still on the device.

    `accepted`: () int32, the last accepted token, counted from 1, and 0 for none: of a chain, how
    many are accepted. `next`: () int32, the target's own token after it. `chance`: (n,) float32,
    how likely each drafted token was to be accepted.
    """

    accepted: mx.array
    next: mx.array
    chance: mx.array


def greedily(drafted: mx.array, choices: mx.array, tree: Tree | None = None) -> VerdictArrays:
    """`drafted` (n,) int32; `choices` (n + 1,) int32, the target's first choice everywhere."""
    tree = tree or Tree.chain(drafted.size)
    same = drafted == judging(choices, tree)
    stands = mx.all(same | ~mx.array(tree.before), axis=-1)  # with all that is before it
    heights = mx.array([depth + 1 for depth in tree.depths], dtype=mx.int32)
    heights = mx.concatenate([mx.zeros((1,), dtype=mx.int32), mx.where(stands, heights, 0)])
    accepted = mx.argmax(heights).astype(mx.int32)
    return VerdictArrays(accepted, choices[accepted], same.astype(mx.float32))


def as_drawn(
    drafted: mx.array, p: mx.array, drawn: mx.array, tree: Tree | None = None
) -> VerdictArrays:
    """`drafted` (n,) int32; `drawn` (n + 1,) int32 of `p` (n + 1, vocabulary): a draft changes
    nothing then, and is accepted as far as it is what was drawn."""
    verdict = greedily(drafted, drawn, tree)
    return VerdictArrays(verdict.accepted, verdict.next, entries(judging(p, tree), drafted))


def judging(rows: mx.array, tree: Tree | None) -> mx.array:
    """Of the rows of a pass, (n + 1, ...), for each drafted token that which judges it."""
    return rows[:-1] if tree is None or tree.is_chain else rows[mx.array(tree.parents) + 1]


def by_token(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None = None
) -> VerdictArrays:
    """`drafted` (n,) int32; `p` (n + 1, vocabulary); `q` (n, vocabulary); rows sum to 1."""
    uniform_key, next_key = mx.random.split(key)
    n = drafted.size
    chance = mx.minimum(entries(p[:n], drafted) / entries(q, drafted), 1.0)
    passes = mx.random.uniform(shape=(n,), key=uniform_key) < chance
    accepted = mx.sum(mx.cumprod(passes.astype(mx.int32)))
    weights = mx.ones((n + 1,))
    return VerdictArrays(accepted, _replacement(p, q, weights, accepted, next_key), chance)


def by_block(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None = None
) -> VerdictArrays:
    """As `by_token`; n >= 1. `weights[i]` is the paper's p_i, the weight of the block's first i
    tokens; prefix i is accepted with chance h_i, and the longest accepted prefix counts."""
    uniform_key, next_key = mx.random.split(key)
    n = drafted.size
    # w_i = min(w_{i-1} r_i, 1) without a loop: a walk in logarithms that never rises above 0.
    walk = mx.cumsum(mx.log(entries(p[:n], drafted) / entries(q, drafted)))
    walk = mx.concatenate([mx.zeros((1,)), walk])
    weights = mx.exp(walk - mx.cummax(walk))
    # Mass that is left to the target after each prefix that is not the whole draft.
    inner = weights[1:n]
    left = mx.sum(mx.maximum(inner[:, None] * p[1:n] - q[1:n], 0.0), axis=-1)
    inner = mx.where(inner < 1.0, left / (left + 1.0 - inner), 1.0)
    prefix_chance = mx.concatenate([inner, weights[n:]])[:n]
    passes = mx.random.uniform(shape=(n,), key=uniform_key) < prefix_chance
    accepted = mx.max(mx.where(passes, mx.arange(1, n + 1), 0))
    # A token is accepted with any prefix that holds it.
    rejected = mx.cumprod(1.0 - prefix_chance, reverse=True)
    return VerdictArrays(accepted, _replacement(p, q, weights, accepted, next_key), 1.0 - rejected)


def _replacement(
    p: mx.array, q: mx.array, weights: mx.array, accepted: mx.array, key: mx.array
) -> mx.array:
    """A sample of norm(max(0, w p - q)) at the first rejected token, of p after a clean sweep."""
    q = mx.concatenate([q, mx.zeros((1, p.shape[-1]))])
    residual = mx.maximum(weights[accepted] * p[accepted] - q[accepted], 0.0)
    # Where p and q are equal up to rounding, nothing is left; but then nothing is rejected either.
    residual = mx.where(mx.sum(residual) > 0.0, residual, p[accepted])
    return draw(residual, mx.random.uniform(shape=(1,), key=key))
