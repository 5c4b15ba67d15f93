"""The loop: draft -> verify -> accept -> commit.

Knows token ids, and nothing of text. It writes what the target alone would have written: token for
token in greedy decoding, in distribution when sampling.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from time import perf_counter

import mlx.core as mx

from engine.accept import VerdictArrays, by_block, greedily
from engine.decoder import Decoder
from engine.device import fetch, start
from engine.draft_length import DraftChoice, DraftLengthPolicy, MeasuredRound, Reason, Why
from engine.drafters import DraftArrays, Drafter
from engine.request import Sampling
from engine.sampling import History, choose, distribution, entries, log_weights, scores

AcceptanceRule = Callable[[mx.array, mx.array, mx.array, mx.array], VerdictArrays]


@dataclass(frozen=True, slots=True)
class Task:
    """What to write: at most `max_tokens` tokens, up to one of `ends`.

    `accept` is the acceptance rule for sampling; greedy decoding has its own.
    """

    sampling: Sampling
    seed: int
    max_tokens: int
    ends: frozenset[int]
    accept: AcceptanceRule = by_block


@dataclass(frozen=True, slots=True)
class RoundDraft:
    """A round's draft before it is verified: token ids, and the drafter's probability of each.

    `confidence`: the drafter's own estimates that each is accepted; empty where it has none but q.
    """

    tokens: list[int]
    q: list[float]
    drafter: str
    confidence: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RoundVerdict:
    """A round's verdict: the first `accepted` drafted tokens are accepted, `own` is the target's.

    `p` and `chance` have one entry per drafted token. `own` is None where an accepted token ended
    the text; `own_p` is its probability.
    """

    accepted: int
    own: int | None
    p: list[float]
    chance: list[float]
    own_p: float
    draft_seconds: float
    verify_seconds: float
    reason: Reason


def speculate(
    target: Decoder, drafter: Drafter, policy: DraftLengthPolicy, tokens: list[int], task: Task
) -> Generator[RoundDraft | RoundVerdict]:
    """Append to `tokens`, of which the models have read a prefix.

    May be closed after any item: `tokens` then has what was committed, and the models hold
    nothing else.
    """
    prompt, limit = len(tokens), len(tokens) + task.max_tokens
    key = mx.random.key(task.seed)
    target.rewind(prompt - 1)
    drafter.rewind(prompt - 1)
    try:
        while len(tokens) < limit and (len(tokens) == prompt or tokens[-1] not in task.ends):
            began = perf_counter()
            key, draft_key, verify_key = mx.random.split(key, 3)
            context = len(tokens)
            room = min(target.begin_round(tokens), limit - context - 1)
            candidates = drafter.candidates(tokens)
            choice = policy.choose(candidates, most=room, context=context).within(room)

            # Draft, then verify in one pass. Where the device runs beside the host, both are
            # under way before either is waited for.
            draft = None
            if choice.length:
                draft = drafter.propose(tokens, choice, task.sampling, draft_key)
            if draft is None:
                yield from _write_plain(
                    target, drafter, policy, tokens, task, choice, limit - context, verify_key
                )
                continue
            confidence = draft.q[:0] if draft.confidence is None else draft.confidence
            mx.async_eval(draft.tokens, draft.q, confidence)
            verification = _verify(target, tokens, draft, task, verify_key)
            drafted, q, sure = fetch(draft.tokens, draft.q, confidence)
            draft_seconds = perf_counter() - began
            yield RoundDraft(drafted, q, draft.drafter, sure)

            # Accept a prefix of the draft, then the target's own token.
            resumed = perf_counter()
            accepted, own, p, own_p, chance = fetch(*verification)
            verify_seconds = perf_counter() - resumed
            committed = _until_end([*drafted[:accepted], own], task.ends)
            accepted = min(accepted, len(committed))
            own = own if len(committed) > accepted else None

            # Commit, and take back from both models what was not accepted.
            tokens += committed
            target.rewind(len(tokens) - (own is not None))
            drafter.accept(accepted)
            reason = choice.reason
            verdict = RoundVerdict(
                accepted, own, p, chance, own_p, draft_seconds, verify_seconds, reason
            )
            policy.observe(_measured(verdict, draft, sure or q, choice, context))
            yield verdict
    finally:
        target.rewind(len(tokens))
        drafter.rewind(len(tokens))


def _verify(
    target: Decoder, tokens: list[int], draft: DraftArrays, task: Task, key: mx.array
) -> tuple[mx.array, mx.array, mx.array, mx.array, mx.array]:
    """One pass over the unread tokens and the draft: (accepted, own, p, own p, chance)."""
    drafted, rows = draft.tokens, draft.tokens.size + 1
    unread = mx.array(tokens[target.length :], dtype=mx.int32)
    logits = target.read(mx.concatenate([unread, drafted]))[-rows:]
    history = History(tokens, task.sampling).windows(drafted, 0, rows)
    scored = scores(logits, history, task.sampling)
    weights = log_weights(scored, task.sampling)
    p = distribution(weights)
    if task.sampling.greedy:
        verdict = greedily(drafted, choose(weights, p, task.sampling, key))
    else:
        certain = (mx.arange(weights.shape[-1]) == drafted[:, None]).astype(mx.float32)
        q = certain if draft.distributions is None else draft.distributions
        verdict = task.accept(drafted, p, q, key)
    verification = (
        verdict.accepted,
        verdict.next,
        entries(p[:-1], drafted),
        p[verdict.accepted, verdict.next],
        verdict.chance,
    )
    start(*verification)
    return verification


def _measured(
    verdict: RoundVerdict, draft: DraftArrays, q: list[float], choice: DraftChoice, context: int
) -> MeasuredRound:
    """A drafted round, as the policy observes it."""
    return MeasuredRound(
        proposed=len(q),
        accepted=verdict.accepted,
        draft_seconds=verdict.draft_seconds,
        verify_seconds=verdict.verify_seconds,
        context=context,
        drafter=draft.drafter,
        match=draft.match,
        q=tuple(q),
        asked=choice.length,
    )


def _write_plain(
    target: Decoder,
    drafter: Drafter,
    policy: DraftLengthPolicy,
    tokens: list[int],
    task: Task,
    choice: DraftChoice,
    most: int,
    key: mx.array,
) -> Iterator[RoundVerdict]:
    """Write `choice.rounds` tokens without drafts, `most` at most, fewer where a match wakes it.

    The next pass is under way while a token is waited for: once woken, that token is written too.
    """
    reason = choice.reason
    if choice.length:
        reason = Reason(Why.NO_PROPOSAL, choice.drafter or drafter.name)
    began, left = perf_counter(), min(choice.rounds, most)
    keys = iter(mx.random.split(key, left))
    unread = mx.array(tokens[target.length :], dtype=mx.int32)
    ahead = _write_one(target, tokens, unread, unread[:0], task.sampling, next(keys))
    while left:
        token, p = ahead
        left -= 1
        if left:
            ahead = _write_one(target, tokens, token, token, task.sampling, next(keys))
        (own,), (own_p,) = fetch(token, p)
        tokens.append(own)
        seconds = perf_counter() - began
        policy.observe(MeasuredRound(0, 0, 0.0, seconds, context=len(tokens) - 1))
        yield RoundVerdict(0, own, [], [], own_p, 0.0, seconds, reason)
        if own in task.ends:
            return
        began = perf_counter()
        if choice.wake and any(each.match >= choice.wake for each in drafter.candidates(tokens)):
            left = min(left, 1)


def _write_one(
    target: Decoder,
    tokens: list[int],
    inputs: mx.array,
    latest: mx.array,
    sampling: Sampling,
    key: mx.array,
) -> tuple[mx.array, mx.array]:
    """Start the pass that gives (token, p), both (1,), behind `tokens` and the `latest` ones.

    The `latest` tokens may still be on their way from the device.
    """
    history = History(tokens, sampling).windows(latest, latest.size, 1)
    scored = scores(target.read(inputs)[-1:], history, sampling)
    weights = log_weights(scored, sampling)
    p = distribution(weights)
    token = choose(weights, p, sampling, key)
    own_p = entries(p, token)
    mx.async_eval(token, own_p)
    return token, own_p


def _until_end(tokens: list[int], ends: frozenset[int]) -> list[int]:
    """`tokens` up to the first that ends the text."""
    last = next((i for i, token in enumerate(tokens) if token in ends), len(tokens) - 1)
    return tokens[: last + 1]
