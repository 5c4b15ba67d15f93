"""A chain drafted by a model: each token is drawn, then read to draw the next.

The chain is built without waiting for the device, which meanwhile computes the part that is built.

Knows how to draw, not which model does: that is a `read` function from tokens (n,) to logits
(n, rows).
"""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx

from engine.core.sampling import Candidates, History, candidates, choose, entries, joined
from engine.device import begin
from engine.draft_length import DraftChoice
from engine.drafters import DraftArrays
from engine.drafters.rows import MOST, Rows
from engine.request import Sampling


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """The arguments of `Drafter.propose`, with the rows to draw from and the drafter's name."""

    tokens: list[int]
    choice: DraftChoice
    sampling: Sampling
    key: mx.array
    rows: Rows
    drafter: str


def draft_chain(
    read: Callable[[mx.array], mx.array],
    asked: DraftRequest,
    *,
    unread: list[int],
    confidence: Callable[[mx.array], mx.array] | None = None,
) -> DraftArrays:
    """Draft a chain of the chosen length. The last ones of the tokens, `unread`, are not read yet.

    `confidence` is the drafter's own estimate, (1,), of the chance that the token it has just
    drawn, (1,), is accepted; without one it is q.
    """
    rows, sampling, length = asked.rows, asked.sampling, asked.choice.length
    history = History(asked.tokens, sampling)
    sure: list[mx.array] = []
    drafted: list[mx.array] = []
    q: list[mx.array] = []
    drawn_from: list[Candidates] = []
    inputs = mx.array(unread, dtype=mx.int32)
    for i, step_key in enumerate(mx.random.split(asked.key, length)):
        so_far = mx.concatenate(drafted) if drafted else mx.zeros((0,), dtype=mx.int32)
        logits = read(inputs)[-1:]
        begin(logits)
        scored = rows.scores(logits, history.windows(so_far, i, 1), sampling)
        every = candidates(scored, sampling, most=MOST)
        column = choose(scored, every.p, sampling, step_key)
        q.append(entries(every.p, column))
        if not sampling.greedy:
            drawn_from.append(every)
        token = rows.tokens(every.of(column))
        drafted.append(token)
        sure.append(q[-1] if confidence is None else confidence(token))
        inputs = token
        begin(token)
    return DraftArrays(
        tokens=mx.concatenate(drafted),
        q=mx.concatenate(q),
        distributions=rows.over_vocabulary(joined(drawn_from)) if drawn_from else None,
        drafter=asked.drafter,
        confidence=None if confidence is None else mx.concatenate(sure),
    )
