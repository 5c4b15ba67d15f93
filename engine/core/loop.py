"""The loop: draft -> verify -> accept -> commit.

Knows token ids, and nothing of text. It writes what the target alone would have written: token for
token in greedy decoding, in distribution when sampling.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from math import isfinite
from random import Random

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.core.judging import choose, judge, likely_tokens, logprobs_of
from engine.core.round_clock import RoundClock
from engine.core.rounds import (
    Company,
    Pass,
    Round,
    RoundDraft,
    RoundForced,
    RoundVerdict,
    Task,
)
from engine.core.sampling import likeliest
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


def draft_and_verify(
    target: Decoder, drafter: Drafter, policy: DraftLengthPolicy, tokens: list[int], task: Task
) -> Generator[Round | Pass]:
    """Append an answer to `tokens`. The models have read a prefix of these.

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
            context, others = len(tokens), task.company.others
            end = min(limit, context + task.constraint.room)
            room = min(target.begin_round(tokens), end - context - 1)
            clock = RoundClock(task.clock)
            offered = candidates_for(target, drafter, tokens)
            choice = policy.choose(offered, most=room, context=context, others=others).within(room)
            draft = _propose(drafter, tokens, choice, task, luck, vocabulary=target.vocabulary)
            unread = tokens[target.length :]
            reading = _reading(unread, draft, task, clock)
            seen = yield from _show_and_read(target, drafter, draft, reading)
            if draft is None or seen is None:
                yield from _write_plain(target, drafter, policy, tokens, task, choice, end, luck)
                continue
            logits, shown = seen
            drafted = shown.tokens

            # Accept a path of the draft (of a chain, a prefix), then the target's own token.
            judging = judge(logits, tokens, draft, drafted, task, luck)
            likely = likely_tokens(judging.scored, judging.own, draft, top=task.logprobs)
            lesson, *fetched = fetch(_lesson(logits, drafter), *likely, *judging.arrays)
            ruled = judging.rule(*fetched[len(likely) :])
            seconds = clock.draft_seconds, clock.verified()
            path, own = _until_end(draft.shape.path(ruled.last - 1), drafted, ruled.own, task.ends)
            committed = [drafted[i] for i in path] + ([] if own is None else [own])

            # Commit, and take back the rest of the draft from both models.
            target.keep(context, [context + i for i in path])
            tokens += committed
            task.constraint.commit(committed)
            drafter.learn([*unread, *drafted], lesson)
            drafter.accept(path)
            logs = logprobs_of(fetched[: len(likely)], path, len(committed))
            facts = ruled.p, ruled.chance, ruled.own_p, *seconds, choice.reason, logs
            verdict = RoundVerdict(path, own, committed, *facts, shown.parents)
            policy.observe(_measured(verdict, context, reading, draft, asked=choice.length))
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
    drafter: Drafter,
    tokens: list[int],
    choice: DraftChoice,
    task: Task,
    luck: Random,
    *,
    vocabulary: int,
) -> DraftArrays | None:
    """The chosen draft, under way; None if there is none. A copy ends where a grammar forbids it,
    and before an id beyond the target's `vocabulary`, such as a picture's.

    A repeatable answer does not depend on its drafts, so the likeliest tokens serve it best.
    """
    if not choice.length:
        return None
    sampling = task.sampling
    if sampling.repeatable:
        sampling = replace(sampling, temperature=0.0)
    key = mx.random.key(luck.getrandbits(64))
    draft = drafter.propose(tokens, choice, sampling, key)
    if draft is not None and max(draft.copied, default=0) >= vocabulary:
        known = next(i for i, token in enumerate(draft.copied) if token >= vocabulary)
        draft = draft.first(known) if known else None
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

    A GPU has begun with the pass before the draft is waited for, and goes on with it while the
    draft is shown.

    A draft of NaN or infinity, whose q would spoil the verdict, counts as none: its pass is taken
    back, and the drafter that made it is switched off. A greedy tree of NaN has no tokens.
    """
    if draft is None:
        return None
    length = target.length
    logits = (yield from _read(asked)) if target.device.beside_host else None
    drafted, q, *sure = fetch(*draft.shown)
    if not drafted or not all(map(isfinite, chain(q, *sure))):
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
    context: int,
    reading: Pass,
    draft: DraftArrays | None = None,
    *,
    asked: int = 0,
) -> MeasuredRound:
    """A round for the policy, which `asked` for a draft of that length."""
    measured = MeasuredRound(
        proposed=len(verdict.p),
        accepted=verdict.accepted,
        draft_seconds=verdict.draft_seconds,
        verify_seconds=verdict.verify_seconds,
        context=context,
        asked=asked,
        rows=reading.rows,
        others=reading.others,
        path=verdict.path,
        edge=verdict.edge,
    )
    if draft is None:
        return measured
    return replace(measured, drafter=draft.drafter, match=draft.match, tree=draft.tree)


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

    With a GPU the host is one pass ahead, so the reason to stop is found late by one token:

        GPU       | pass 1      | pass 2          | pass 3          |
        host      | build 2     | show 1, build 3 | show 2: stop!   | show 3
        a CPU     | pass 1, show 1, pass 2, show 2: stop!
    """
    reason, ahead = choice.reason, target.device.beside_host
    if choice.length:
        reason = Reason(Why.NO_PROPOSAL, choice.drafter or drafter.name)
    single = task.company.in_turns or task.constraint.forcing
    left = 1 if single else min(choice.rounds, end - len(tokens))
    in_a_run, first = ahead and not single, True
    read = tokens[target.length :]
    reading = _reading(read, None, task, RoundClock(task.clock))
    logits = yield from _read(reading)
    while left:
        chosen = choose(logits[-1:], tokens, task, luck)
        learned = _lesson(logits, drafter)
        left -= 1
        following = Pass(chosen[0], reading.clock)
        if left and ahead:
            logits = yield from _read(following)
        lesson, (own,), (own_p,), *likely = fetch(learned, *chosen)
        tokens.append(own)
        drafter.learn(read, lesson)
        read = [own]
        task.constraint.commit([own])
        seconds = reading.clock.verified()
        logs, edge = logprobs_of(likely, (), 1), in_a_run and (first or not left)
        verdict = RoundVerdict((), own, [own], [], [], own_p, 0.0, seconds, reason, logs, edge=edge)
        first = False
        policy.observe(_measured(verdict, len(tokens) - 1, reading))
        yield verdict
        if own in task.ends:
            return
        if task.company.in_turns or task.constraint.forcing or _woken(drafter, tokens, choice):
            left = min(left, int(ahead))
        if left and not ahead:
            reading.clock.resume()
            logits = yield from _read(following)


def _woken(drafter: Drafter, tokens: list[int], choice: DraftChoice) -> bool:
    """Whether a match is long enough to draft again."""
    candidates = drafter.candidates(tokens) if choice.wake else ()
    return any(candidate.match >= choice.wake for candidate in candidates)


def _until_end(
    path: tuple[int, ...], drafted: list[int], own: int, ends: frozenset[int]
) -> tuple[tuple[int, ...], int | None]:
    """An accepted path of a draft, and the target's own token after it. Both are cut after the
    first token that ends the text."""
    last = next((place for place, i in enumerate(path) if drafted[i] in ends), None)
    return (path, own) if last is None else (path[: last + 1], None)


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
    """Hold back every verdict until the next pass is under way, so that a GPU does not wait while a
    verdict is shown. Verdicts are not held back if other answers have turns."""
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
