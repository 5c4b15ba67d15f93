"""The acceptance rules: which drafted tokens are accepted, and what the target writes after them.

A round drafts x_1..x_n, each from q_i, and the target gives p_1..p_{n+1} in one pass. Whatever
the q are, the committed tokens have exactly the target's distribution:

- `as_written`: tokens are accepted while they are what the target writes: in greedy decoding its
  first choice, in repeatable texts what was drawn from p by the noise that belongs to their
  positions.
- `by_token`: x_i is accepted with chance min(1, p_i/q_i); the correction of the first rejected
  one is drawn from norm(max(0, p - q)) (Leviathan et al., arXiv 2211.17192; Chen et al.,
  2302.01318).
- `by_block`: prefixes are accepted as a whole, which accepts at least as many tokens from the
  same drafts (Sun et al., arXiv 2403.10444, algorithm 2).

A draft may be a tree (`engine.tree`); without one it is a chain. Alternatives are tried in their
order: a rejected one leaves max(0, p - q) to the next. `by_token` then is recursive rejection
(Miao et al., arXiv 2305.09781; Chen et al., 2402.12374), `by_block` traversal verification (Weng
et al., 2505.12398). Each alternative has a q of its own, given those before it, so that it does not
matter how they were drawn.

Pure functions. What the last two draw stays on the device: nothing here waits for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import mlx.core as mx

from engine.sampling import Candidates, certain, draw, entries
from engine.tree import COMMITTED, Tree


@dataclass(frozen=True, slots=True)
class VerdictArrays:
    """A round's verdict, as arrays that are still on the device.

    `accepted`: () int32, the last accepted token, counted from 1, and 0 for none: of a chain, how
    many are accepted. `next`: () int32, the target's own token after it. `chance`: (n,) float32,
    how likely each drafted token was to be accepted: `by_token`, once the one before it is.
    """

    accepted: mx.array
    next: mx.array
    chance: mx.array


AcceptanceRule = Callable[[mx.array, mx.array, mx.array, mx.array, Tree | None], VerdictArrays]
"""`by_token` or `by_block`."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """All that may come of a draft, with its probability, before anything is drawn.

    `tree`, `p` and `q`: what was judged. `ends`: (n + 1,), how likely each token is to be the last
    accepted one, behind the chance that there is none. `weights`: (n + 1,), which part of p is
    still to be covered behind each of these. `chance`: as in `VerdictArrays`.
    """

    tree: Tree
    p: mx.array
    q: mx.array
    ends: mx.array
    weights: mx.array
    chance: mx.array

    def own(self, accepted: mx.array) -> mx.array:
        """What the target's own token is drawn from behind the last `accepted` one, counted from 1:
        (vocabulary,), not normalized."""
        left = self.p[accepted]
        weight = scale = self.weights[accepted]
        for alternatives in self.tree.alternatives:
            tried = mx.array(alternatives)[accepted]
            q = mx.where(tried == COMMITTED, 0.0, self.q[mx.maximum(tried, 0)])
            left, weight, scale = _rejected(left, weight, scale, q)
        # Where p and q are equal up to rounding, nothing is left; but then nothing is rejected
        # either.
        return mx.where(mx.sum(left) > 0.0, left, self.p[accepted])

    def draw(self, key: mx.array) -> VerdictArrays:
        ends_key, own_key = mx.random.split(key)
        accepted = draw(self.ends, mx.random.uniform(shape=(1,), key=ends_key))
        own = draw(self.own(accepted), mx.random.uniform(shape=(1,), key=own_key))
        return VerdictArrays(accepted, own, self.chance)


def as_written(drafted: Sequence[int], written: Sequence[int], tree: Tree) -> int:
    """The last accepted token, counted from 1, and 0 for none, of those that are what the target
    writes there anyway: `written` has a token behind the committed ones and behind each drafted
    one. Tokens alone are compared, so the host does it.
    """
    last, deepest = 0, 0
    stands = {COMMITTED}
    for number, (token, parent) in enumerate(zip(drafted, tree.parents, strict=True)):
        if parent in stands and token == written[parent + 1]:
            stands.add(number)
            if tree.depths[number] + 1 > deepest:
                last, deepest = number + 1, tree.depths[number] + 1
    return last


def by_token(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None = None
) -> VerdictArrays:
    """`drafted` (n,) int32; `p` (n + 1, vocabulary); `q` (n, vocabulary); rows sum to 1."""
    return outcomes_by_token(drafted, p, q, tree).draw(key)


def by_block(
    drafted: mx.array, p: mx.array, q: mx.array, key: mx.array, tree: Tree | None = None
) -> VerdictArrays:
    """As `by_token`; n >= 1."""
    return outcomes_by_block(drafted, p, q, tree).draw(key)


def among_candidates(
    accept: AcceptanceRule,
    drafted: mx.array,
    p: Candidates,
    q: mx.array | None,
    key: mx.array,
    tree: Tree | None = None,
) -> VerdictArrays:
    """The verdict of `accept`, computed over each row's candidates alone; `q` None: each token was
    certain.

    What is no candidate has no p: it is never accepted, and nothing of it is left to be covered. So
    the columns are those of the row that judges a token, and one more for a drafted token that is
    not among them.
    """
    if p.ids is None:
        q = certain(drafted, p.p.shape[-1]) if q is None else q
        return accept(drafted, p.p, q, key, tree)
    parents = (tree or Tree.chain(drafted.size)).parents
    ids = p.ids[mx.array(parents, dtype=mx.int32) + 1]
    same = ids == drafted[:, None]
    q = same.astype(mx.float32) if q is None else mx.take_along_axis(q, ids, axis=-1)
    found = mx.pad(same, [(0, 0), (0, 1)], constant_values=True)
    q = mx.pad(q, [(0, 0), (0, 1)], constant_values=1.0)
    column = mx.argmax(found, axis=-1).astype(mx.int32)
    verdict = accept(column, mx.pad(p.p, [(0, 0), (0, 1)]), q, key, tree)
    return replace(verdict, next=p.ids[verdict.accepted, verdict.next].astype(mx.int32))


def outcomes_by_token(
    drafted: mx.array, p: mx.array, q: mx.array, tree: Tree | None = None
) -> Outcomes:
    """What `by_token` draws from. Every token is tried with all of p to be covered."""
    tree = tree or Tree.chain(drafted.size)
    weights = mx.ones((len(tree) + 1,), dtype=p.dtype)
    if tree.is_chain:
        tried = mx.minimum(entries(p[:-1], drafted) / entries(q, drafted), 1.0)
    else:
        everywhere = range(COMMITTED, len(tree))
        tried = _covered(drafted, p, q, tree, generations=[everywhere])[0][1:]
    parents, numbers = mx.array(tree.parents), mx.arange(len(tree))
    siblings = (parents[:, None] == parents) & (numbers[:, None] > numbers)  # those tried before
    chance = tried * mx.prod(mx.where(siblings, 1.0 - tried, 1.0), axis=-1)
    reached = mx.prod(mx.where(mx.array(tree.before), chance, 1.0), axis=-1)
    children = mx.arange(COMMITTED, len(tree))[:, None] == parents
    stays = mx.prod(mx.where(children, 1.0 - tried, 1.0), axis=-1)
    ends = mx.concatenate([weights[:1], reached]) * stays
    return Outcomes(tree, p, q, ends, weights, chance)


def outcomes_by_block(
    drafted: mx.array, p: mx.array, q: mx.array, tree: Tree | None = None
) -> Outcomes:
    """What `by_block` draws from. A path is tried once all that go on from it are rejected, and the
    first that is accepted counts."""
    tree = tree or Tree.chain(drafted.size)
    standing = _standing_chain if tree.is_chain else _standing
    weights, tried = standing(drafted, p, q, tree)
    order = mx.array(tree.leaves_first) + 1
    tried = tried[order]
    ends = tried * mx.cumprod(1.0 - tried, inclusive=False)
    ends = ends[mx.argsort(order)]
    # A token is accepted with any path that holds it.
    held = mx.where(mx.array(tree.before), ends[1:, None], 0.0)
    return Outcomes(tree, p, q, ends, weights, mx.minimum(mx.sum(held, axis=0), 1.0))


def _standing_chain(
    drafted: mx.array, p: mx.array, q: mx.array, _: Tree
) -> tuple[mx.array, mx.array]:
    """As `_standing`: the weights are Sun et al.'s p_i."""
    # w_i = min(w_{i-1} r_i, 1) without a loop: a walk in logarithms that never rises above 0.
    walk = mx.cumsum(mx.log(entries(p[:-1], drafted) / entries(q, drafted)))
    walk = mx.concatenate([mx.zeros((1,), dtype=p.dtype), walk])
    weights = mx.exp(walk - mx.cummax(walk))
    # Mass that is left to the target after each prefix that is not the whole draft.
    inner = weights[1:-1]
    left = mx.sum(mx.maximum(inner[:, None] * p[1:-1] - q[1:], 0.0), axis=-1)
    inner = mx.where(inner < 1.0, left / (left + 1.0 - inner), 1.0)
    return weights, mx.concatenate([weights[:1], inner, weights[-1:]])


def _standing(drafted: mx.array, p: mx.array, q: mx.array, tree: Tree) -> tuple[mx.array, mx.array]:
    """The weight of every path, (n + 1,), and its chance to be accepted once those that go on from
    it are rejected: what these leave of its weight."""
    depths = (-1, *tree.depths)
    generations = [
        [i - 1 for i, depth in enumerate(depths) if depth == parents]
        for parents in range(-1, tree.height - 1)
    ]
    return _covered(drafted, p, q, tree, generations=generations)


def _covered(
    drafted: mx.array,
    p: mx.array,
    q: mx.array,
    tree: Tree,
    *,
    generations: Sequence[Sequence[int]],
) -> tuple[mx.array, mx.array]:
    """The weight of every token when it is tried, behind a 1 for the committed ones; and what is
    left of it once all that is tried behind it is rejected: (n + 1,) both.

    `generations` of parents: a token's weight is a part of its parent's where that is in an
    earlier one, else of 1. All of a generation are computed at once, alternative by alternative.
    """
    weights = mx.ones((len(tree) + 1,), dtype=p.dtype)
    left = mx.zeros_like(weights)
    for parents in generations:
        families = sorted(filter(None, map(tree.children, parents)), key=len, reverse=True)
        rows = mx.array([tree.parents[family[0]] + 1 for family in families])
        rest, weight, scale = p[rows], weights[rows], weights[rows]
        for rank in range(len(families[0])):
            tried = mx.array([family[rank] for family in families if rank < len(family)])
            rest, weight, scale = (each[: tried.size] for each in (rest, weight, scale))
            ids, drawn_from = drafted[tried], q[tried]
            q_of_ids = entries(drawn_from, ids)
            chance = mx.minimum(scale * entries(rest, ids) / q_of_ids, 1.0)
            weights[tried + 1] = mx.where(q_of_ids > 0.0, chance, 0.0)  # else it was not drawn
            rest, weight, scale = _rejected(rest, weight, scale, drawn_from)
            left[rows[: tried.size]] = weight
    leaves = mx.array([not tree.children(i) for i in range(COMMITTED, len(tree))])
    return weights, mx.where(leaves, weights, left)


def _rejected(
    rest: mx.array, weight: mx.array, scale: mx.array, q: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """What is left to be covered, (..., vocabulary), of what was, once an alternative drawn from
    `q` is rejected; its `weight`, (...,); and the `scale` that gives it this mass."""
    rest = mx.maximum(scale[..., None] * rest - q, 0.0)
    mass = mx.sum(rest, axis=-1)
    rejected = mass + (1.0 - weight)  # how likely that was
    scale = 1.0 / mx.where(rejected > 0.0, rejected, 1.0)
    return rest, mx.where(weight < 1.0, mass * scale, 1.0), scale
