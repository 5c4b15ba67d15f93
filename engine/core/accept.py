"""The acceptance rules: which drafted tokens are accepted, and what the target writes after them.

A round drafts x_1..x_n, each from q_i, and the target gives p_1..p_{n+1} in one pass. With
any q the committed tokens have exactly the target's distribution:

- `as_written`: tokens are accepted while they are what the target writes: in greedy decoding its
  first choice, in repeatable texts the token drawn from p by the noise of its position.
- `by_block`: prefixes are accepted as a whole (Sun et al., arXiv 2403.10444, algorithm 2), which
  accepts at least as many tokens from the same drafts as token by token (Leviathan et al.,
  2211.17192).

A draft may be a tree (`engine.tree`); without one it is a chain. Alternatives are tried in their
order: a rejected one leaves max(0, p - q) to the next; `by_block` then is traversal verification
(Weng et al., 2505.12398). Each alternative has a q of its own, given those before it, so that it
does not matter how they were drawn.

Pure functions. The device computes all that needs a vocabulary, for every token after which the
round may end; which of them that is, a few numbers say, so the host decides it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx

from engine.core.sampling import Candidates, entries
from engine.tree import COMMITTED, Tree


class Outcomes(NamedTuple):
    """Every verdict that is possible on a draft of n tokens, on the device.

    `tried`: (n,) float32, the chance that each drafted token is accepted once its turn has come.
    `own`: (n + 1, candidates), the distributions of the target's own token, after the committed
    tokens and after each drafted token; rows are not normalized. `p`: (n,), the target's
    probability of each drafted token.
    """

    tried: mx.array
    own: mx.array
    p: mx.array


class Judged(NamedTuple):
    """A draft of n tokens, and the target's rows.

    `tokens`: (n,) int32. `p`: n + 1 rows, after the committed tokens and after each drafted
    token. `judging`: n of these rows, those after each token's parent. `q`: (n, candidates), the
    distribution that each token was drawn from, over the candidates of its row in `judging`. `p_of`
    and `q_of`: (n,), each token's own probabilities.
    """

    tokens: mx.array
    p: Candidates
    judging: Candidates
    q: mx.array
    p_of: mx.array
    q_of: mx.array


@dataclass(frozen=True, slots=True)
class AcceptanceRule:
    """An acceptance rule for sampling, such as `by_block`.

    `judge` computes `tried` and `own` of `Outcomes` on the device. `ends` gets `tried` on the host,
    and returns two lists. The first has n + 1 chances: that no token is accepted, and that each
    token is the last accepted token. The second has n chances, that each token is accepted.
    """

    judge: Callable[[Judged, Tree], tuple[mx.array, mx.array]]
    ends: Callable[[Tree, Sequence[float]], tuple[list[float], list[float]]]


def outcomes(
    rule: AcceptanceRule, drafted: mx.array, p: Candidates, q: mx.array | None, tree: Tree
) -> Outcomes:
    """Judge a draft by `rule`.

    `drafted`: (n,) int32, n >= 1. `p`: n + 1 rows. `q`: (n, vocabulary); None if each token was
    certain. A token that is not among the candidates has no p: it is never accepted, and nothing
    of it is left to be covered. So the rules see the candidates' columns only.
    """
    judging = p.rows(slice(len(tree)) if tree.is_chain else mx.array(tree.judges))
    if q is None:
        columns, q_of = judging.certain(drafted), mx.array([1.0] * len(tree))
    else:
        columns, q_of = judging.columns(q), entries(q, drafted)
    judged = Judged(drafted, p, judging, columns, judging.at(drafted), q_of)
    tried, own = rule.judge(judged, tree)
    return Outcomes(tried, own, judged.p_of)


def last_accepted(ends: Sequence[float], point: float) -> int:
    """Return the first place in `ends` where their running sum passes `point` times their total,
    for a `point` in [0, 1]. A place with chance 0 is never returned."""
    left, last = point * sum(ends), 0
    for place, chance in enumerate(ends):
        if chance > 0.0:
            last, left = place, left - chance
            if left < 0.0:
                break
    return last


def as_written(drafted: Sequence[int], written: Sequence[int], tree: Tree) -> int:
    """Return the number, counted from 1, of the deepest drafted token that the target writes
    anyway: the token and all before it on its path are the target's own. Return 0 if there is none.

    `written` has the target's token after the committed tokens and after each drafted token.
    Compares token ids alone, so the host does it.
    """
    last, deepest = 0, 0
    stands = {COMMITTED}
    for number, (token, parent) in enumerate(zip(drafted, tree.parents, strict=True)):
        if parent in stands and token == written[parent + 1]:
            stands.add(number)
            if tree.depths[number] + 1 > deepest:
                last, deepest = number + 1, tree.depths[number] + 1
    return last


# --- By block: a path is tried once all that go on from it are rejected; the first accepted counts


def _judge_blocks(draft: Judged, tree: Tree) -> tuple[mx.array, mx.array]:
    if not tree.is_chain:
        weights, left, rest = _covered(draft, tree, generations=tree.generations)
        leaves = mx.array([not tree.children(i) for i in range(len(tree))])
        tried = mx.where(leaves, weights[1:], left[1:])
        return tried, _own(draft, rest, mx.sum(rest, axis=-1))
    # 1) The weight of every prefix, Sun et al.'s p_i: w_i = min(w_{i-1} p/q, 1). Without a loop, a
    #    walk in logarithms that never rises above 0.
    walk = mx.cumsum(mx.log(draft.p_of / draft.q_of))
    weights = mx.exp(walk - mx.maximum(mx.cummax(walk), 0.0))
    # 2) The rest of p that the target has after every prefix; all of p after the whole draft.
    before = mx.concatenate([mx.array([1.0]), weights[:-1]])
    rest = mx.maximum(before[:, None] * draft.judging.p - draft.q, 0.0)
    rest = mx.concatenate([rest, draft.p.p[-1:]])
    mass = mx.sum(rest, axis=-1)
    # 3) Once all longer prefixes are rejected, one is accepted with what they leave of its weight.
    left, shorter = mass[1:-1], weights[:-1]
    left = mx.where(shorter < 1.0, left / (left + (1.0 - shorter)), 1.0)
    return mx.concatenate([left, weights[-1:]]), _own(draft, rest, mass)


def _block_ends(tree: Tree, tried: Sequence[float]) -> tuple[list[float], list[float]]:
    ends, undecided = [0.0] * (len(tree) + 1), 1.0
    for token in tree.leaves_first[:-1]:
        ends[token + 1] = undecided * tried[token]
        undecided *= 1.0 - tried[token]
    ends[0] = undecided
    held = list(ends)  # a token is accepted with any path that holds it
    for token, parent in reversed(list(enumerate(tree.parents))):
        held[parent + 1] = held[parent + 1] + held[token + 1]
    return ends, held[1:]


by_block = AcceptanceRule(_judge_blocks, _block_ends)


def _own(draft: Judged, rest: mx.array, mass: mx.array) -> mx.array:
    """Return the rows that the target's own token is drawn from, (n + 1, candidates): `rest`, whose
    rows sum to `mass`, but p for a row without mass. Such a row occurs if p and q are equal up to
    rounding; then nothing is rejected there."""
    return mx.where(mass[:, None] > 0.0, rest, draft.p.p)


# --- Alternatives


def _covered(
    draft: Judged, tree: Tree, *, generations: Sequence[Sequence[int]]
) -> tuple[mx.array, mx.array, mx.array]:
    """Return, first for the committed tokens and then for each drafted one: its weight when it is
    tried, (n + 1,), 1 for the committed ones; the part of the weight that is left once all
    tokens tried after it are rejected, (n + 1,); and the rest of p there, (n + 1, candidates).

    `generations`: groups of parents, whose alternatives are judged group by group. An alternative
    starts from its parent's weight if an earlier group has judged that parent, otherwise from 1.
    All of a group are computed at once, alternative by alternative.
    """
    weights = mx.ones((len(tree) + 1,))
    left, over = mx.zeros_like(weights), mx.array(draft.p.p)
    for parents in generations:
        families = sorted(filter(None, map(tree.children, parents)), key=len, reverse=True)
        rows = mx.array([tree.parents[family[0]] + 1 for family in families])
        rest, weight, scale = draft.p.rows(rows), weights[rows], weights[rows]
        for rank in range(len(families[0])):
            tried = mx.array([family[rank] for family in families if rank < len(family)])
            still = slice(tried.size)
            rest, weight, scale = rest.rows(still), weight[still], scale[still]
            q, q_of = draft.q[tried], draft.q_of[tried]
            chance = mx.minimum(scale * rest.at(draft.tokens[tried]) / q_of, 1.0)
            weights[tried + 1] = mx.where(q_of > 0.0, chance, 0.0)  # else it was not drawn
            p, weight, scale = _rejected(rest.p, weight, scale, q)
            rest = rest._replace(p=p)
            left[rows[still]], over[rows[still]] = weight, p
    return weights, left, over


def _rejected(
    rest: mx.array, weight: mx.array, scale: mx.array, q: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """Return, once an alternative drawn from `q` is rejected: the part of p that is left to be
    covered, (..., candidates); the weight that is left, (...,); and the factor that gives the first
    this sum."""
    rest = mx.maximum(scale[..., None] * rest - q, 0.0)
    mass = mx.sum(rest, axis=-1)
    rejected = mass + (1.0 - weight)  # how likely that was
    scale = 1.0 / mx.where(rejected > 0.0, rejected, 1.0)
    return rest, mx.where(weight < 1.0, mass * scale, 1.0), scale
