"""Logits and history in, the distribution that is sampled from out: the whole sampler chain.

The chain is a pure function. The target and the drafter go through the same one, so that p and q
are the distributions that tokens are drawn from. Order: logit bias and penalties, then the filters
top-p, min-p, top-k (on the untempered distribution, as in mlx-lm, but of the 1,024 most probable
tokens), then the temperature.
"""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import mlx.core as mx
from mlx_lm.sample_utils import apply_top_k

from engine.device import backend
from engine.request import Sampling
from models.limits import ROUND_ROWS

CANDIDATES = 1024
"""How many tokens the filters choose from."""

_SPARE = 20.0  # how far below its own score a spare token counts
_BLOCK = 8  # tokens; their highest score is compared first
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio: seeds of neighbours are far apart


def scores(
    logits: mx.array, history: mx.array | None, sampling: Sampling, masks: mx.array | None = None
) -> mx.array:
    """Logits after bias and penalties, float32; -inf where `masks`, of truth values, forbids.

    `logits` and `masks` are (rows, vocabulary); `history`, needed only where `sampling.penalizes`,
    is (rows, n): the ids before each row, with -1 for none. See `windows`.
    """
    scored = _penalized(logits, history, sampling)
    return scored if masks is None else mx.where(masks, scored, -mx.inf)


def _penalized(logits: mx.array, history: mx.array | None, sampling: Sampling) -> mx.array:
    logits = logits.astype(mx.float32)
    bias = {i: b for i, b in sampling.logit_bias.items() if i < logits.shape[-1]}
    if bias:
        logits = logits.at[:, mx.array(list(bias))].add(mx.array(list(bias.values())))
    if history is None:
        return logits
    # Only the entries of ids in the history change. The padding repeats one of these ids; in
    # an empty history it is id 0, uncounted. Ids without logits, such as pictures', are padding.
    history = mx.where(history < logits.shape[-1], history, -1)
    ids = mx.where(history < 0, mx.max(history, axis=-1, keepdims=True), history)
    seen, ids = ids >= 0, mx.maximum(ids, 0)
    before = mx.take_along_axis(logits, ids, axis=-1)
    factor = sampling.repetition_penalty
    after = mx.where(before > 0, before / factor, before * factor)
    if sampling.presence_penalty:
        after = after - sampling.presence_penalty
    if sampling.frequency_penalty:
        row, present = mx.arange(logits.shape[0])[:, None], (history >= 0).astype(mx.float32)
        counts = mx.zeros(logits.shape).at[row, ids].add(present)
        after = after - sampling.frequency_penalty * mx.take_along_axis(counts, ids, axis=-1)
    return mx.put_along_axis(logits, ids, mx.where(seen, after, before), axis=-1)


class Candidates(NamedTuple):
    """The distributions that rows are sampled from: the probabilities `p`, (rows, n), of the tokens
    `ids`, (rows, n), in any order. Other tokens have none. `ids` is None if these are all tokens,
    in their order."""

    p: mx.array
    ids: mx.array | None

    def over(self, vocabulary: int) -> mx.array:
        """The probabilities of all tokens, (rows, vocabulary)."""
        if self.ids is None:
            return self.p
        nothing = mx.zeros((self.p.shape[0], vocabulary))
        return mx.put_along_axis(nothing, self.ids, self.p, axis=-1)

    def rows(self, rows: mx.array | slice) -> "Candidates":
        return Candidates(self.p[rows], None if self.ids is None else self.ids[rows])

    def of(self, columns: mx.array) -> mx.array:
        """The token in each row's column: (rows,) to (rows,)."""
        return columns if self.ids is None else entries(self.ids, columns)

    def at(self, tokens: mx.array) -> mx.array:
        """The probability of each row's token, 0 if it is not a candidate: (rows,) to (rows,)."""
        if self.ids is None:
            return entries(self.p, tokens)
        return mx.sum(mx.where(self._is(tokens), self.p, 0.0), axis=-1)

    def columns(self, q: mx.array) -> mx.array:
        """The entries of `q`, (rows, vocabulary), for these candidates: (rows, n)."""
        return q if self.ids is None else mx.take_along_axis(q, self.ids, axis=-1)

    def certain(self, tokens: mx.array) -> mx.array:
        """The probabilities of these candidates where each row's token is certain: (rows, n)."""
        return self._is(tokens).astype(mx.float32)

    def _is(self, tokens: mx.array) -> mx.array:
        ids = mx.arange(self.p.shape[-1], dtype=mx.uint32) if self.ids is None else self.ids
        return ids == tokens.astype(mx.uint32)[:, None]


def joined(parts: Sequence[Candidates]) -> Candidates:
    """The rows of all `parts`, which all have ids or all have none."""
    ids = [each.ids for each in parts if each.ids is not None]
    return Candidates(
        mx.concatenate([each.p for each in parts]), mx.concatenate(ids) if ids else None
    )


def distribution(scored: mx.array, sampling: Sampling) -> mx.array:
    """The probabilities that tokens are sampled with, float32, (rows, vocabulary), from `scores`.

    Greedy decoding does not sample: there they are those at temperature 1, which are shown.
    """
    return candidates(scored, sampling).over(scored.shape[-1])


def candidates(
    scored: mx.array, sampling: Sampling, *, most: int | None = None, spare: bool = False
) -> Candidates:
    """Return the same distribution by its candidates: all tokens, or fewer if there are filters.

    Filters see only the `most` tokens with the highest scores, by default `CANDIDATES`: over a
    whole vocabulary they would take a tenth of a small target's pass on a CPU, for each row.
    `spare`: candidates that the filters reject keep a tiny probability, so that one of them can be
    drawn once all others are.
    """
    if sampling.greedy:
        return Candidates(backend().softmax(scored), None)
    vocabulary = scored.shape[-1]
    nucleus = 0.0 < sampling.top_p < 1.0
    if not nucleus and not sampling.min_p and not 0 < sampling.top_k < vocabulary:
        return Candidates(backend().softmax(scored / sampling.temperature), None)
    ids: mx.array | None = None
    if vocabulary > (most or CANDIDATES):
        ids = highest_ids(scored, most or CANDIDATES)
        scored = mx.take_along_axis(scored, ids, axis=-1)
    kept = scored
    if nucleus or sampling.min_p:
        # Over so few MLX's own softmax is quicker on a CPU too: one operation.
        p = mx.softmax(scored, axis=-1, precise=True)
        limits = []
        if sampling.min_p:
            limits.append(sampling.min_p * mx.max(p, axis=-1, keepdims=True))
        if nucleus:
            limits.append(_least_of_nucleus(p, sampling.top_p))
        kept = mx.where(p >= reduce(mx.maximum, limits), scored, -mx.inf)
    if 0 < sampling.top_k < scored.shape[-1]:
        kept = apply_top_k(kept, sampling.top_k)
    kept = kept / sampling.temperature
    if spare:
        kept = mx.maximum(kept, scored / sampling.temperature - _SPARE)
    return Candidates(mx.softmax(kept, axis=-1, precise=True), ids)


def highest_ids(scored: mx.array, most: int) -> mx.array:
    """The ids of each row's `most` highest scores, (rows, most), in any order.

    All of them lie in the `most` blocks with the highest maxima: only these are searched, in a
    third of the time.
    """
    rows, vocabulary = scored.shape
    blocks = vocabulary // _BLOCK
    if blocks <= most:
        return _highest(scored, most)
    inside = blocks * _BLOCK  # token i of block b has the id i * blocks + b
    blocked = scored[:, :inside].reshape(rows, _BLOCK, blocks)
    steps = mx.array(list(range(0, inside, blocks)), dtype=mx.uint32)
    ids = (_highest(mx.max(blocked, axis=1), most)[..., None] + steps).reshape(rows, -1)
    if inside < vocabulary:
        outside = mx.array([list(range(inside, vocabulary))] * rows, dtype=mx.uint32)
        ids = mx.concatenate([ids, outside], axis=-1)
    best = _highest(mx.take_along_axis(scored, ids, axis=-1), most)
    return mx.take_along_axis(ids, best, axis=-1)


def _highest(rows: mx.array, most: int) -> mx.array:
    return mx.argpartition(rows, kth=-most, axis=-1)[:, -most:]


def _least_of_nucleus(p: mx.array, top_p: float) -> mx.array:
    """The lowest probability that top-p keeps, (rows, 1), of `p`, (rows, tokens).

    A token is kept if all tokens that are more probable have less than `top_p` together. Equally
    probable tokens are kept or dropped together.
    """
    rising = mx.sort(p, axis=-1)
    above = mx.cumsum(rising, axis=-1, reverse=True, inclusive=False)
    return mx.min(mx.where(above < top_p, rising, mx.inf), axis=-1, keepdims=True)


def choose(scored: mx.array, p: mx.array, sampling: Sampling, key: mx.array) -> mx.array:
    """Return a token id for each row, int32 (rows,): the best of `scores`, or a sample of `p`."""
    if sampling.greedy:
        return mx.argmax(scored, axis=-1).astype(mx.int32)
    return draw(p, mx.random.uniform(shape=(p.shape[0], 1), key=key))


@mx.compile
def draw(p: mx.array, points: mx.array) -> mx.array:
    """Return an index for each row, int32: a sample of `p`, (..., n), whose rows need not sum to 1.

    It is the place at which the running sum passes a point of the whole: `points`, (..., 1), are
    uniform in [0, 1]. `mx.random.categorical` draws from logarithms with a random number for every
    token, which takes three times as long on a CPU. A token without mass is never drawn, however
    sums round.
    """
    reached = mx.where(p > 0.0, mx.cumsum(p, axis=-1), 0.0)
    whole = mx.max(reached, axis=-1, keepdims=True)
    return mx.argmax((reached > whole * points) | (reached == whole), axis=-1).astype(mx.int32)


def noise(seed: int, position: int, rows: int) -> mx.array:
    """The points of `draw` for `position` and the positions after it, (rows, 1). They depend on
    nothing else, so that a text can be repeated with any drafts."""
    keys = [
        mx.random.key((seed + i * _GOLDEN) % (1 << 64)) for i in range(position, position + rows)
    ]
    return mx.stack([mx.random.uniform(shape=(1,), key=key) for key in keys])


def logprobs(scored: mx.array) -> mx.array:
    """Log probabilities of `scores`, (rows, vocabulary): before filters and temperature."""
    return scored - log_mass(scored)[:, None]


def log_mass(scored: mx.array) -> mx.array:
    """The difference between each row's scores and its log probabilities, (rows,)."""
    return backend().log_mass(scored)


def likeliest(rows: mx.array, count: int) -> tuple[mx.array, mx.array]:
    """The ids of each row's largest entries, largest first, and the entries: (rows, count) each."""
    count = min(count, rows.shape[-1])
    largest = highest_ids(rows, max(count, 1))[:, :count]
    values = mx.take_along_axis(rows, largest, axis=-1)
    order = mx.argsort(-values, axis=-1)
    return mx.take_along_axis(largest, order, axis=-1), mx.take_along_axis(values, order, axis=-1)


def entries(rows: mx.array, ids: mx.array) -> mx.array:
    """Each row's entry at its id: (n, vocabulary), (n,) -> (n,)."""
    return mx.take_along_axis(rows, ids[:, None], axis=-1)[:, 0]


class History:
    """The ids before each position of a round, for the penalties.

    Every position sees exactly the history that plain decoding would show it: the committed
    tokens and the drafted ones before it.
    """

    def __init__(self, committed: list[int], sampling: Sampling) -> None:
        self._size = min(sampling.penalty_window, len(committed) + ROUND_ROWS)
        self._penalizes = sampling.penalizes
        if self._penalizes:
            latest = committed[-self._size :]
            self._ids = mx.array([-1] * (self._size - len(latest)) + latest, dtype=mx.int32)

    def windows(self, drafted: mx.array, first: int, rows: int) -> mx.array | None:
        """Return the latest token ids before positions `first`, `first` + 1, ..., (rows, at most
        penalty_window). None if nothing is penalized.

        Position i comes after `committed + drafted[:i]`.
        """
        return self.behind(drafted, [range(i) for i in range(first, first + rows)])

    def behind(self, drafted: mx.array, paths: Sequence[Sequence[int]]) -> mx.array | None:
        """Return the latest token ids after each of `paths`, (len(paths), at most penalty_window),
        where a path is a list of the numbers of drafted tokens. None if nothing is penalized."""
        if not self._penalizes:
            return None
        ids, size = mx.concatenate([self._ids, drafted.astype(mx.int32)]), self._size
        lengths = [len(path) for path in paths]
        most = min(max(lengths), size)  # columns that the host computes: a window may be long
        ends = [[*range(size - most, size), *(size + i for i in path)] for path in paths]
        places = mx.array([each[len(each) - most :] for each in ends], dtype=mx.int32)
        before = mx.arange(size - most) + mx.array(lengths)[:, None]
        return ids[mx.concatenate([before, places], axis=1)]
