"""A chain drafted by a model: each token is drawn, then read to draw the next.

The chain is built on the device without waiting for it, unless the choice has a floor: then every
token is waited for, and the chain ends where it is no longer likely that all of it is accepted.
Whether another token is drawn depends on the tokens before it alone, and every drawn token is
proposed. So each one still has the reported distribution, given those before it, which is all that
the acceptance rules need: a shorter chain only ends sooner. To drop the token that ended it would
be wrong: the remaining tokens would be those that the drafter was confident of, and not have the
reported distribution.

Knows how to draw, not which model does: that is a `read` function from tokens (n,) to logits
(n, vocabulary).
"""

from collections.abc import Callable

import mlx.core as mx

from engine.device import begin, fetch
from engine.draft_length import DraftChoice
from engine.drafters import DraftArrays
from engine.request import Sampling
from engine.sampling import History, choose, distribution, entries, scores, without


def draft_chain(
    read: Callable[[mx.array], mx.array],
    *,
    unread: list[int],
    tokens: list[int],
    choice: DraftChoice,
    vocabulary: int,
    sampling: Sampling,
    key: mx.array,
    drafter: str,
    confidence: Callable[[mx.array], mx.array] | None = None,
) -> DraftArrays:
    """Draft `choice.length` tokens behind `tokens`, the last of which, `unread`, are not read yet.

    Fewer where they would hardly all be accepted: see `DraftChoice.floor`. `confidence` is the
    drafter's own estimate, (1,), of the chance that the token it has just drawn, (1,), is accepted;
    without one it is q.
    """
    likely = 1.0
    sure: list[mx.array] = []
    history = History(tokens, sampling)
    drafted: list[mx.array] = []
    q: list[mx.array] = []
    distributions: list[mx.array] = []
    inputs = mx.array(unread, dtype=mx.int32)
    for i, step_key in enumerate(mx.random.split(key, choice.length)):
        so_far = mx.concatenate(drafted) if drafted else mx.zeros((0,), dtype=mx.int32)
        logits = fit_vocabulary(read(inputs)[-1:], vocabulary)
        scored = scores(logits, history.windows(so_far, i, 1), sampling)
        all_q = distribution(scored, sampling)
        if i == 0 and not sampling.greedy:
            all_q = without(all_q, choice.tried)
        token = choose(scored, all_q, sampling, step_key)
        q.append(entries(all_q, token))
        if not sampling.greedy:
            distributions.append(all_q)
        drafted.append(token)
        sure.append(q[-1] if confidence is None else confidence(token))
        inputs = token
        if choice.floor <= 0.0:
            begin(token)
        elif i + 1 < choice.length:
            ((latest,),) = fetch(sure[-1])
            likely *= choice.chance(latest)
            if likely < choice.floor:
                break
    return DraftArrays(
        tokens=mx.concatenate(drafted),
        q=mx.concatenate(q),
        distributions=mx.concatenate(distributions) if distributions else None,
        drafter=drafter,
        confidence=None if confidence is None else mx.concatenate(sure),
    )


def fit_vocabulary(logits: mx.array, vocabulary: int) -> mx.array:
    """Logits over the target's vocabulary: surplus columns are dropped, missing ones impossible."""
    missing = vocabulary - logits.shape[-1]
    if missing > 0:
        return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-mx.inf)
    return logits[:, :vocabulary]


def spread(logits: mx.array, row_of: mx.array) -> mx.array:
    """Logits of some tokens, (..., rows), over the target's vocabulary: see `row_of_token`."""
    impossible = mx.full((*logits.shape[:-1], 1), -mx.inf, dtype=logits.dtype)
    every = mx.concatenate([logits, impossible], axis=-1)
    rows = mx.broadcast_to(row_of, (*logits.shape[:-1], row_of.size))
    return mx.take_along_axis(every, rows, axis=-1)  # nine times as fast as `take`


def row_of_token(kept: list[int], vocabulary: int) -> mx.array:
    """The row of each token, (vocabulary,); `kept` has the token of each row. Tokens without a row
    have the one behind the last."""
    rows = [len(kept)] * vocabulary
    for row, token in enumerate(kept):
        rows[token] = row
    return mx.array(rows)
