"""Recording traces: at every place of an answer all drafters propose, the target verifies each, and
one token is committed. Needs a real pair, and takes several passes for every token.

Knows the pair; nothing of costs. No time is measured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from zlib import crc32

import mlx.core as mx

from engine.bench.prompts import Prompt, load_prompts
from engine.conversation.loading import LoadedModel, load
from engine.conversation.pair import make_drafter
from engine.conversation.session import Session
from engine.core.accept import as_written, last_accepted, outcomes
from engine.core.decoder import Decoder
from engine.core.sampling import Candidates, choose, distribution, draw, scores
from engine.device import fetch
from engine.draft_length import DraftChoice
from engine.drafters import DraftArrays
from engine.drafters.states import StateDrafter
from engine.request import Sampling, asked
from engine.tree import Tree
from models.installed.resolve import resolve_drafters
from models.model_folder import ModelFolder
from tests.lab.simulate.traces import (
    AnswerTrace,
    RecordedDraft,
    TraceFile,
    load_trace,
    rounded,
    save_trace,
)
from tests.support.engine.acceptance import by_token

_TALLEST, _WIDEST = 10, 10  # tokens of a path that are looked at, alternatives that are proposed
_BLOCK = 512  # a chain is cut short where a cache grows: seldom


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """What to record. `longest`: tokens of a chain; `max_tokens`: of an answer."""

    target: ModelFolder
    out: Path
    drafters: tuple[str, ...] = ("lookup", "head")
    prompts: Path | None = None
    per_category: int = 3
    temperatures: tuple[float, ...] = (0.0, 0.8)
    max_tokens: int = 112
    longest: int = 12


def record(
    options: RecordOptions, progress: Callable[[str], None] = lambda line: None
) -> TraceFile:
    """Record what `options.out` does not hold yet; it is written after every answer."""
    prompts = load_prompts(options.prompts, per_category=options.per_category)
    done = load_trace(options.out).answers if options.out.exists() else ()
    known = {(answer.id, answer.temperature) for answer in done}
    pair = _Pair(load(options.target), options.drafters)
    trace = TraceFile(options.target.name, done)
    wanted = [
        (prompt, temperature)
        for prompt in prompts
        for temperature in options.temperatures
        if (prompt.id, temperature) not in known
    ]
    for number, (prompt, temperature) in enumerate(wanted, start=1):
        progress(f"{number} of {len(wanted)}: {prompt.id}, temperature {temperature:g}")
        seed = crc32(prompt.id.encode())  # it does not depend on what else is recorded
        answer = pair.record(prompt, Sampling(temperature=temperature), options, seed=seed)
        trace = TraceFile(trace.target, (*trace.answers, answer))
        save_trace(options.out, trace)
    return trace


def _ranked(
    places: Sequence[RecordedDraft | None], drafter: StateDrafter, tokens: list[int], start: int
) -> tuple[RecordedDraft | None, ...]:
    """The same with the path that the text, `tokens` from `start` on, takes through each tree."""
    ranked = []
    for place, drafted in enumerate(places, start):
        ahead = tokens[place : place + _TALLEST]
        drafter.rewind(place - 1)
        read = drafter._reader(tokens[:place])
        ranks, before = [], tokens[place - 1]
        for token in ahead:
            (logits,) = read(mx.array([before]))
            row = drafter._rows.of(mx.array(token))
            rank = mx.where(row < 0, _WIDEST, (logits > logits[row]).sum())
            ranks.append(rank.astype(mx.int32))
            before = token
        (found,) = fetch(mx.stack(ranks)) if ranks else ([],)
        path = tuple(takewhile(lambda rank: rank < _WIDEST, found))
        ranked.append(drafted and replace(drafted, ranks=path))
    drafter.accept(())
    return tuple(ranked)


class _Pair:
    """A target and drafters, which forget everything between two answers."""

    def __init__(self, target: LoadedModel, drafters: Sequence[str]) -> None:
        self._session = Session(target)  # for its chat template
        self._target = target
        self._decoder = Decoder(target.model, block=_BLOCK)
        self._drafters = [
            make_drafter(
                resolve_drafters(name, target.folder), target=target, decoder=self._decoder
            )
            for name in drafters
        ]

    def record(
        self, prompt: Prompt, sampling: Sampling, options: RecordOptions, *, seed: int
    ) -> AnswerTrace:
        tokens = self._session.encode(asked(prompt.text))
        length = len(tokens)
        self._read(tokens)
        places = list[list[RecordedDraft | None]]()
        key = mx.random.key(seed)
        limit = length + min(options.max_tokens, self._target.context_length - length)
        while len(tokens) < limit and (not places or tokens[-1] not in self._target.ends):
            key, place_key = mx.random.split(key)
            drafts, token = self._place(tokens, sampling, options.longest, place_key)
            places.append(drafts)
            tokens.append(token)
        columns = {
            drafter.name: tuple(place[i] for place in places)
            for i, drafter in enumerate(self._drafters)
        }
        if sampling.greedy:
            for drafter in self._drafters:
                if isinstance(drafter, StateDrafter):
                    columns[drafter.name] = _ranked(columns[drafter.name], drafter, tokens, length)
        return AnswerTrace(prompt.id, prompt.category, sampling.temperature, length, columns)

    def _read(self, tokens: list[int]) -> None:
        self._decoder.rewind(0)
        list(self._decoder.prefill(tokens))
        for drafter in self._drafters:
            drafter.rewind(0)
            list(drafter.prepare(tokens))

    def _place(
        self, tokens: list[int], sampling: Sampling, longest: int, key: mx.array
    ) -> tuple[list[RecordedDraft | None], int]:
        """What each drafter proposes after `tokens`, verified; and the token to commit.

        That is the first token of the last round: any round's first token has the target's
        distribution.
        """
        drafts, token = list[RecordedDraft | None](), None
        for drafter in self._drafters:
            key, draft_key, verify_key = mx.random.split(key, 3)
            self._decoder.rewind(len(tokens) - 1)
            candidate = next(iter(drafter.candidates(tokens)), None)
            room = min(
                self._decoder.begin_round(tokens), longest, candidate.most if candidate else 0
            )
            draft = None
            if room > 0:
                choice = DraftChoice(room, drafter=drafter.name)
                draft = drafter.propose(tokens, choice, sampling, draft_key)
            if candidate is None or draft is None:
                drafts.append(None)
                continue
            drafted, q = fetch(draft.tokens, draft.q)
            stood, own = self._verify(tokens, draft, drafted, sampling, verify_key)
            drafter.accept(())
            drafts.append(
                RecordedDraft(tuple(rounded(share) for share in q), stood, candidate.match)
            )
            token = drafted[0] if stood else own
        if token is None:
            scored = self._scores(tokens, mx.zeros((0,), dtype=mx.int32), sampling)
            ((token,),) = fetch(choose(scored, distribution(scored, sampling), sampling, key))
        self._decoder.rewind(len(tokens))  # it stays read, as in a round
        return drafts, token

    def _verify(
        self,
        tokens: list[int],
        draft: DraftArrays,
        ids: list[int],
        sampling: Sampling,
        key: mx.array,
    ) -> tuple[int, int]:
        """How many stand, and the token after them: token by token, so that what is accepted of a
        chain does not depend on its length."""
        scored = self._scores(tokens, draft.tokens, sampling)
        p = distribution(scored, sampling)
        if sampling.greedy:
            (written,) = fetch(choose(scored, p, sampling, key))
            stood = as_written(ids, written, Tree.chain(len(ids)))
            return stood, written[stood]
        chain = Tree.chain(len(ids))
        may_come = outcomes(by_token, draft.tokens, Candidates(p, None), draft.distributions, chain)
        points = mx.random.uniform(shape=(len(ids) + 2, 1), key=key)
        tried, own, (point,) = fetch(may_come.tried, draw(may_come.own, points[1:]), points[0])
        stood = last_accepted(by_token.ends(chain, tried)[0], point)
        return stood, own[stood]

    def _scores(self, tokens: list[int], drafted: mx.array, sampling: Sampling) -> mx.array:
        """What the target makes of the end of `tokens` and each of `drafted`, see `scores`."""
        unread = mx.array(tokens[self._decoder.length :], dtype=mx.int32)
        logits = self._decoder.read(mx.concatenate([unread, drafted]))[-drafted.size - 1 :]
        return scores(logits, None, sampling)
