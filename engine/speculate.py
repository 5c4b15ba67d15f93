"""The loop: draft -> verify -> accept -> commit.

Knows token ids, and nothing of text. It writes what the target alone would have written: token for
token in greedy decoding, in distribution when sampling.
"""

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from math import isfinite
from random import Random
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import mlx.core as mx

from engine.core.accept import (
    AcceptanceRule,
    as_written,
    by_block,
    last_accepted,
    outcomes,
)
from engine.core.batch import read_together
from engine.core.decoder import Decoder
from engine.core.round_clock import RoundClock
from engine.core.sampling import (
    History,
    candidates,
    distribution,
    draw,
    entries,
    likeliest,
    log_mass,
    logprobs,
    noise,
    scores,
)
from engine.device import begin, fetch, start
from engine.draft_length import (
    DraftCandidate,
    DraftChoice,
    DraftLengthPolicy,
    MeasuredRound,
    Reason,
    Why,
)
from engine.drafters import DraftArrays, Drafter
from engine.request import Sampling
from engine.tree import COMMITTED, Tree
from engine.virtual_ids import is_virtual

NO_LIMIT = sys.maxsize


class Constraint(Protocol):
    """The rules for one answer: of a grammar (`engine.core.grammar`), or also of its reasoning
    (`engine.conversation.thought`).

    `forcing`: whether tokens may be forced after the next one. `room`: the tokens that can be
    written until some are forced at a known place.
    """

    forcing: bool
    room: int

    def forced(self, most: int) -> list[int]:
        """Up to `most` tokens that are forced next."""

    def allowed(self, drafted: list[int]) -> int:
        """The length of the longest prefix of `drafted` that the grammar allows."""

    def masks(self, drafted: list[int]) -> mx.array | None:
        """Truth values, (len(drafted) + 1, vocabulary): the tokens that are allowed after each
        prefix of a draft, the empty one first. None if all are, everywhere."""

    def commit(self, tokens: list[int]) -> None:
        """Take `tokens` as committed."""


class Unconstrained:
    """Allows every token."""

    forcing = False
    room = NO_LIMIT

    def forced(self, most: int) -> list[int]:
        return []

    def allowed(self, drafted: list[int]) -> int:
        return len(drafted)

    def masks(self, drafted: list[int]) -> mx.array | None:
        return None

    def commit(self, tokens: list[int]) -> None:
        pass


@dataclass(slots=True)
class Company:
    """The other answers that are written at the same time. The scheduler changes it while the loop
    runs.

    `in_turns`: nothing may be under way while others have their turn. `others`: the number of other
    answers that share the target's passes.
    """

    in_turns: bool = False
    others: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """An answer to write: at most `max_tokens` tokens, up to a token of `ends`.

    `accept`: the acceptance rule for sampling; greedy decoding and repeatable sampling have their
    own. `logprobs`: as in `engine.request.Request`. `clock`: gives the seconds of the rounds; it
    may stand still while the answer waits for its turn.
    """

    sampling: Sampling
    seed: int
    max_tokens: int
    ends: frozenset[int]
    accept: AcceptanceRule = by_block
    constraint: Constraint = field(default_factory=Unconstrained)
    logprobs: int | None = None
    company: Company = field(default_factory=Company)
    clock: Callable[[], float] = lambda: perf_counter()  # looked up at each call, for tests


@dataclass(slots=True)
class Pass:
    """Asks for a pass of the target over `tokens`. The loop goes on once `logits` are set.

    `clock`: of the round. `tree`: the shape of `tokens`; None for a chain. The scheduler of several
    loops sets the rest. Of a shared pass, `others`: the number of other loops in it; `rows`: all
    its rows.
    """

    tokens: mx.array
    clock: RoundClock
    tree: Tree | None = None
    logits: mx.array | None = None
    rows: int = 0
    others: int = 0

    def make(self, target: Decoder) -> None:
        """Make a pass of its own. On a GPU its first layers are under way then."""
        with self.clock.building():
            (self.logits,) = read_together([target], [self.tokens], [self.tree])
        target.begin(self.logits)


@dataclass(frozen=True, slots=True)
class RoundDraft:
    """A round's draft before it is verified: token ids, and the drafter's probability of each.

    `confidence`: the drafter's estimate of each token's chance to be accepted; empty if q is the
    only one. `parents`: of a tree, see `engine.tree`; empty for a chain. `source` as in
    `DraftArrays`.
    """

    tokens: list[int]
    q: list[float]
    drafter: str
    confidence: list[float] = field(default_factory=list)
    parents: tuple[int, ...] = ()
    source: int | None = None


@dataclass(frozen=True, slots=True)
class Logprob:
    """A committed token's log probability, and the likeliest tokens in its place with theirs."""

    own: float
    top: list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class RoundVerdict:
    """A round's verdict: the drafted tokens on `path` are accepted, `own` is the target's.

    `path` has the numbers of tokens; of a chain, the first ones. `p` and `chance` have one entry
    per drafted token. `own` is None if an accepted token ended the text; `own_p` is its
    probability. `committed`: the accepted tokens and `own`. `logprobs`, where they are asked for,
    has one entry per committed token. `parents` as in `RoundDraft`. `edge` as in `MeasuredRound`.
    """

    path: tuple[int, ...]
    own: int | None
    committed: list[int]
    p: list[float]
    chance: list[float]
    own_p: float
    draft_seconds: float
    verify_seconds: float
    reason: Reason
    logprobs: list[Logprob] = field(default_factory=list)
    parents: tuple[int, ...] = ()
    edge: bool = False

    @property
    def accepted(self) -> int:
        """The number of accepted tokens."""
        return len(self.path)


@dataclass(frozen=True, slots=True)
class RoundForced:
    """A round without draft or pass: only the `committed` tokens are allowed.

    `with_logprobs`: whether log probabilities are asked for; each is 0.
    """

    committed: list[int]
    with_logprobs: bool


Round = RoundDraft | RoundVerdict | RoundForced


def speculate(
    target: Decoder, drafter: Drafter, policy: DraftLengthPolicy, tokens: list[int], task: Task
) -> Generator[Round]:
    """The rounds of `draft_and_verify`, each with a pass of its own."""
    return alone(target, draft_and_verify(target, drafter, policy, tokens, task))


def alone[T](target: Decoder, items: Generator[T | Pass]) -> Generator[T]:
    """The items of a loop that shares no pass. `target` makes each pass that it asks for."""
    with closing(items):
        for item in items:
            if isinstance(item, Pass):
                item.make(target)
            else:
                yield item


def show_verdicts_during_next_pass(
    items: Generator[Round | Pass], company: Company
) -> Generator[Round | Pass]:
    """Hold back every verdict until the next pass is under way, so that a device beside the host
    does not wait while a verdict is shown. Verdicts are not held back if others have turns."""
    held: Round | None = None
    under_way = 0  # passes without a verdict
    with closing(items):
        for item in items:
            if isinstance(item, Pass):
                under_way += 1
                yield item
            if held is not None:
                yield held
            held = None
            if isinstance(item, RoundVerdict):
                under_way -= 1
                if not under_way and not company.in_turns:
                    held = item
                    continue
            if not isinstance(item, Pass):
                yield item
        if held is not None:
            yield held


def draft_and_verify(
    target: Decoder, drafter: Drafter, policy: DraftLengthPolicy, tokens: list[int], task: Task
) -> Generator[Round | Pass]:
    """Append an answer to `tokens`, of which the models have read a prefix.

    Asks for its passes, so that several loops can share them. May be closed after any item:
    `tokens` then has all that was committed, and the models hold nothing else.
    """
    prompt, limit = len(tokens), len(tokens) + task.max_tokens
    luck = Random(task.seed)
    target.rewind(prompt - 1)
    drafter.rewind(prompt - 1)
    try:
        while len(tokens) < limit and (len(tokens) == prompt or tokens[-1] not in task.ends):
            if forced := task.constraint.forced(limit - len(tokens)):
                tokens += forced
                task.constraint.commit(forced)
                yield RoundForced(forced, with_logprobs=task.logprobs is not None)
                continue

            # Draft, and read the draft in one pass.
            clock, context, others = RoundClock(task.clock), len(tokens), task.company.others
            end = min(limit, context + task.constraint.room)
            room = min(target.begin_round(tokens), end - context - 1)
            offered = candidates_for(target, drafter, tokens)
            choice = policy.choose(offered, most=room, context=context, others=others).within(room)
            draft = _propose(drafter, tokens, choice, task, luck)
            unread = tokens[target.length :]
            reading = _reading(unread, draft, task, clock)
            seen = yield from _show_and_read(target, drafter, draft, reading)
            if draft is None or seen is None:
                yield from _write_plain(target, drafter, policy, tokens, task, choice, end, luck)
                continue
            logits, shown = seen
            drafted = shown.tokens

            # Accept a path of the draft (of a chain, a prefix), then the target's own token.
            judging = _judge(logits, tokens, draft, drafted, task, luck)
            lesson, *values = fetch(_lesson(logits, drafter), *judging.arrays)
            ruled = judging.rule(*values)
            seconds = clock.draft_seconds, clock.verified()
            path, own = _until_end(draft.shape.path(ruled.last - 1), drafted, ruled.own, task.ends)
            committed = [drafted[i] for i in path] + ([] if own is None else [own])

            # Commit, and take back from both models what was not accepted.
            target.keep(context, [context + i for i in path])
            tokens += committed
            task.constraint.commit(committed)
            drafter.learn([*unread, *drafted], lesson)
            drafter.accept(path)
            logs = _logprobs_of(ruled.likely, path, len(committed))
            told = ruled.p, ruled.chance, ruled.own_p, *seconds, choice.reason, logs
            verdict = RoundVerdict(path, own, committed, *told, shown.parents)
            policy.observe(_measured(verdict, draft, shown, choice, context, reading))
            yield verdict
    finally:
        target.rewind(len(tokens))
        drafter.rewind(len(tokens))


def candidates_for(
    target: Decoder, drafter: Drafter, tokens: list[int]
) -> Sequence[DraftCandidate]:
    """The drafts that `drafter` could make after `tokens`: chains only, if `target` cannot read
    trees."""
    offered = drafter.candidates(tokens)
    candidates = [each for each in offered if each.drafter not in drafter.dropped]
    if all(each.alternatives == 1 for each in candidates) or target.branches:
        return candidates
    return [replace(each, alternatives=1) for each in candidates]


def _propose(
    drafter: Drafter, tokens: list[int], choice: DraftChoice, task: Task, luck: Random
) -> DraftArrays | None:
    """The chosen draft, under way; None if there is none. A copy ends where a grammar forbids it,
    and before a picture.

    A repeatable answer does not depend on its drafts, so the likeliest tokens serve it best.
    """
    if not choice.length:
        return None
    sampling = task.sampling
    if sampling.repeatable:
        sampling = replace(sampling, temperature=0.0)
    key = mx.random.key(luck.getrandbits(64))
    draft = drafter.propose(tokens, choice, sampling, key)
    if draft is not None and any(map(is_virtual, draft.copied)):
        text = next(i for i, token in enumerate(draft.copied) if is_virtual(token))
        draft = draft.first(text) if text else None
    if draft is not None and draft.tree is not None and draft.tree.is_chain:
        draft = replace(draft, tree=None)
    if draft is not None and draft.copied and draft.tree is None:
        allowed = task.constraint.allowed(list(draft.copied))
        draft = draft.first(allowed) if allowed else None
    if draft is not None:
        begin(*draft.shown)
    return draft


def _reading(unread: list[int], draft: DraftArrays | None, task: Task, clock: RoundClock) -> Pass:
    """The pass over the committed tokens that the target has not read, and over a draft.

    `rows` is set if a grammar can force tokens, so that forced rows are not charged to the draft.
    """
    rows, tree = mx.array(unread, dtype=mx.int32), None
    if draft is not None:
        rows = mx.concatenate([rows, draft.tokens])
        tree = draft.tree and draft.tree.behind(len(unread))
    return Pass(rows, clock, tree, rows=rows.size if task.constraint.forcing else 0)


def _show_and_read(
    target: Decoder, drafter: Drafter, draft: DraftArrays | None, asked: Pass
) -> Generator[RoundDraft | Pass, None, tuple[mx.array, RoundDraft] | None]:
    """Show a draft and read it. Returns the logits of its pass, and the draft as shown; None
    without a draft.

    If the device runs beside the host, it has begun with the pass before the draft is waited for,
    and goes on with it while the draft is shown.

    A draft of NaN or infinity, whose q would spoil the verdict, counts as none: its pass is taken
    back, and the drafter that made it is switched off.
    """
    if draft is None:
        return None
    length = target.length
    logits = (yield from _read(asked)) if target.device.beside_host else None
    drafted, q, *sure = fetch(*draft.shown)
    if not all(map(isfinite, chain(q, *sure))):
        drafter.dropped |= {draft.drafter}
        target.rewind(length)
        return None
    asked.clock.drafted()
    parents = draft.tree.parents if draft.tree else ()
    shown = RoundDraft(drafted, q, draft.drafter, sure[0] if sure else [], parents, draft.source)
    yield shown
    if logits is None:
        asked.clock.resume()
        logits = yield from _read(asked)
    return logits, shown


def _read(asked: Pass) -> Generator[Pass, None, mx.array]:
    """The logits of a pass, (rows, vocabulary)."""
    yield asked
    if asked.logits is None:
        raise RuntimeError("a loop went on before the pass that it asked for")
    return asked.logits


class Ruling(NamedTuple):
    """A verdict on a draft of n tokens.

    `last`: the last accepted token, counted from 1, and 0 for none. `own`: the target's own token,
    and `own_p` its probability. `p` and `chance`: n each, the target's probability of a drafted
    token, and its chance to be accepted. `likely`: the arrays of `_likely`, fetched.
    """

    last: int
    own: int
    p: list[float]
    own_p: float
    chance: list[float]
    likely: list[list[Any]]


@dataclass(frozen=True, slots=True)
class Judging:
    """A verdict that is under way: `rule` makes it of the fetched `arrays`."""

    arrays: tuple[mx.array, ...]
    rule: Callable[..., Ruling]


def _judge(
    logits: mx.array,
    tokens: list[int],
    draft: DraftArrays,
    ids: list[int],
    task: Task,
    luck: Random,
) -> Judging:
    """Begin to judge a draft by the logits of its pass. `ids`: the draft's tokens, fetched."""
    tree, sampling = draft.shape, task.sampling
    logits = logits[-(len(tree) + 1) :]  # after the committed tokens and after each drafted one
    paths = [(), *map(tree.path, range(len(tree)))]
    history = History(tokens, sampling).behind(draft.tokens, paths)
    scored = scores(logits, history, sampling, _masks(task.constraint, ids, tree))
    if sampling.greedy or sampling.repeatable:
        judging = _compare(scored, len(tokens), ids, tree, task)
    else:
        judging = _sample(scored, draft, task, luck)
    start(*judging.arrays)
    return judging


def _compare(scored: mx.array, length: int, ids: list[int], tree: Tree, task: Task) -> Judging:
    """Accept the tokens that are written without a draft, too, after `length` tokens."""
    judges = mx.array(tree.judges, dtype=mx.int32)
    drafted = mx.array(ids, dtype=mx.int32)
    if task.sampling.greedy:
        written, mass = mx.argmax(scored, axis=-1), log_mass(scored)
        own_p = mx.exp(mx.max(scored, axis=-1) - mass)
        p = mx.exp(scored[judges, drafted] - mass[judges])
    else:
        of_all = distribution(scored, task.sampling)
        places = mx.array([0, *(depth + 1 for depth in tree.depths)])
        written = draw(of_all, noise(task.seed, length, tree.height + 1)[places])
        own_p, p = entries(of_all, written), of_all[judges, drafted]
    likely = _likely(scored, drafted, written, tree, task)

    def rule(written: list[int], own_p: list[float], p: list[float], *likely: list[Any]) -> Ruling:
        last = as_written(ids, written, tree)
        judged = zip(ids, tree.parents, strict=True)
        same = [float(token == written[parent + 1]) for token, parent in judged]
        return Ruling(last, written[last], p, own_p[last], same if greedy else p, list(likely))

    greedy = task.sampling.greedy
    return Judging((written, own_p, p, *likely), rule)


def _sample(scored: mx.array, draft: DraftArrays, task: Task, luck: Random) -> Judging:
    """Accept so that the distribution is the target's. Its own token is drawn after every drafted
    token at once; the host then decides after which of them the round ends."""
    tree, p = draft.shape, candidates(scored, task.sampling)
    may_come = outcomes(task.accept, draft.tokens, p, draft.distributions, tree)
    point, *points = (luck.random() for _ in range(len(tree) + 2))
    columns = draw(may_come.own, mx.array(points)[:, None])
    own = p.of(columns)
    likely = _likely(scored, draft.tokens, own, tree, task)

    def rule(
        tried: list[float], own: list[int], own_p: list[float], p: list[float], *likely: list[Any]
    ) -> Ruling:
        ends, chance = task.accept.ends(tree, tried)
        last = last_accepted(ends, point)
        chance = [min(each, 1.0) for each in chance]
        return Ruling(last, own[last], p, own_p[last], chance, list(likely))

    return Judging((may_come.tried, own, entries(p.p, columns), may_come.p, *likely), rule)


def _masks(constraint: Constraint, drafted: list[int], tree: Tree) -> mx.array | None:
    """Truth values, (n + 1, vocabulary): the tokens that a grammar allows after the committed ones
    and after each drafted one. None if all are allowed."""
    if tree.is_chain:
        return constraint.masks(drafted)
    rows: dict[int, mx.array] = {}
    for path in tree.paths:
        masks = constraint.masks([drafted[i] for i in path])
        if masks is not None:
            rows.update(zip((COMMITTED, *path), masks, strict=True))
    if not rows:
        return None
    anything = mx.ones_like(next(iter(rows.values())))
    return mx.stack([rows.get(i, anything) for i in range(COMMITTED, len(tree))])


def _likely(
    scored: mx.array, drafted: mx.array, own: mx.array, tree: Tree, task: Task
) -> tuple[mx.array, ...]:
    """The arrays that `_logprobs_of` makes log probabilities of, if they are asked for: each row's
    likeliest ids and their log probabilities; those of the `drafted` tokens, and those of every
    row's `own` token."""
    if task.logprobs is None:
        return ()
    of_rows = logprobs(scored)
    judges = mx.array(tree.judges, dtype=mx.int32)
    return (*likeliest(of_rows, task.logprobs), of_rows[judges, drafted], entries(of_rows, own))


def _logprobs_of(likely: list[list[Any]], path: tuple[int, ...], count: int) -> list[Logprob]:
    """The log probabilities of a round's `count` committed tokens; empty if no one asked."""
    if not likely:
        return []
    ids, of_ids, drafted, own = likely
    rows = [0, *(i + 1 for i in path)]  # each judges the token after it
    in_order = [*(drafted[i] for i in path), own[rows[-1]]]
    tops = [list(zip(ids[row], of_ids[row], strict=True)) for row in rows]
    return [Logprob(*pair) for pair in zip(in_order, tops, strict=True)][:count]


def _lesson(logits: mx.array, drafter: Drafter) -> mx.array:
    """The likeliest tokens of each row of a pass, under way, for `Drafter.learn`; empty if the
    drafter does not learn."""
    if not drafter.learns:
        return mx.zeros((0,), dtype=mx.int32)
    lesson, _ = likeliest(logits, drafter.learns)
    start(lesson)
    return lesson


def _measured(
    verdict: RoundVerdict,
    draft: DraftArrays,
    shown: RoundDraft,
    choice: DraftChoice,
    context: int,
    reading: Pass,
) -> MeasuredRound:
    """A drafted round for the policy."""
    return MeasuredRound(
        proposed=len(shown.q),
        accepted=verdict.accepted,
        draft_seconds=verdict.draft_seconds,
        verify_seconds=verdict.verify_seconds,
        context=context,
        drafter=draft.drafter,
        match=draft.match,
        asked=choice.length,
        rows=reading.rows,
        others=reading.others,
        tree=draft.tree,
        path=verdict.path,
    )


def _write_plain(
    target: Decoder,
    drafter: Drafter,
    policy: DraftLengthPolicy,
    tokens: list[int],
    task: Task,
    choice: DraftChoice,
    end: int,
    luck: Random,
) -> Generator[RoundVerdict | Pass]:
    """Write `choice.rounds` tokens without drafts, up to `end` in all. Fewer if a match wakes the
    drafter; a single one if others want their turn, or if the next may be forced.

    If the device runs beside the host, the next pass is under way while a token is waited for. So
    once woken, once others want their turn, or once tokens are to be forced, one more is written.
    """
    reason = choice.reason
    if choice.length:
        reason = Reason(Why.NO_PROPOSAL, choice.drafter or drafter.name)
    clock, ahead = RoundClock(task.clock), target.device.beside_host
    left = min(choice.rounds, end - len(tokens))
    running, first = ahead, True
    if task.company.in_turns or task.constraint.forcing:
        left, running = 1, False
    read = tokens[target.length :]
    reading = _reading(read, None, task, clock)
    logits = yield from _read(reading)
    while left:
        chosen = _choose_one(logits[-1:], tokens, task, luck)
        learned = _lesson(logits, drafter)
        left -= 1
        following = Pass(chosen[0], clock)
        if left and ahead:
            logits = yield from _read(following)
        lesson, (own,), (own_p,), *likely = fetch(learned, *chosen)
        tokens.append(own)
        drafter.learn(read, lesson)
        read = [own]
        task.constraint.commit([own])
        seconds = clock.verified()
        context, rows, others = len(tokens) - 1, reading.rows, reading.others
        edge, first = running and (first or not left), False
        policy.observe(
            MeasuredRound(0, 0, 0.0, seconds, context, rows=rows, others=others, edge=edge)
        )
        logs = _logprobs_of(likely, (), 1)
        yield RoundVerdict((), own, [own], [], [], own_p, 0.0, seconds, reason, logs, edge=edge)
        if own in task.ends:
            return
        woken = choice.wake and any(
            each.match >= choice.wake for each in drafter.candidates(tokens)
        )
        if woken or task.company.in_turns or task.constraint.forcing:
            left = min(left, int(ahead))
        if left and not ahead:
            clock.resume()
            logits = yield from _read(following)


def _choose_one(
    logits: mx.array, tokens: list[int], task: Task, luck: Random
) -> tuple[mx.array, ...]:
    """The token after `tokens`, under way: (token, p), both (1,), then the arrays of `_likely`."""
    sampling, nothing = task.sampling, mx.zeros((0,), dtype=mx.int32)
    history = History(tokens, sampling).windows(nothing, 0, 1)
    scored = scores(logits, history, sampling, task.constraint.masks([]))
    if sampling.greedy:
        token = mx.argmax(scored, axis=-1).astype(mx.int32)
        p = mx.exp(mx.max(scored, axis=-1) - log_mass(scored))
    elif sampling.repeatable:
        of_all = distribution(scored, sampling)
        token = draw(of_all, noise(task.seed, len(tokens), 1))
        p = entries(of_all, token)
    else:
        likely = candidates(scored, sampling)
        column = draw(likely.p, mx.array([[luck.random()]]))
        token, p = likely.of(column).astype(mx.int32), entries(likely.p, column)
    chosen = token, p, *_likely(scored, nothing, token, Tree.chain(0), task)
    begin(*chosen)
    return chosen


def _until_end(
    path: tuple[int, ...], drafted: list[int], own: int, ends: frozenset[int]
) -> tuple[tuple[int, ...], int | None]:
    """An accepted path of a draft, and the target's own token after it. Both are cut after the
    first token that ends the text."""
    last = next((place for place, i in enumerate(path) if drafted[i] in ends), None)
    return (path, own) if last is None else (path[: last + 1], None)
