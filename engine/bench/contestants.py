"""Who is measured, and the one definition of what is measured.

Every contestant gets the same prompt tokens, caches of its own, the same seed, and the same
instruction: go on until a token ends the text, or until the first round that ends at or past
`limit` tokens. Nobody is told the limit, so that no round is cut short by it, and nobody is
charged for a round that others are spared.

The clock starts when the first round's tokens are in the caller's hands and stops when the last
round's are; every figure is of the rounds in between. So neither prefill nor the way to the
first token counts, and plain decoding, where the next pass is under way while a token is handed
over, is charged for as many passes as it gets tokens. (Ours starts none ahead at every 64th
token, so a limit that is a multiple of 64 would spare it one pass.)

All turn tokens into text as they go, as an application would: ours in `Session`, mlx-lm's with
the detokenizer that its own `stream_generate` uses.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Protocol

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.generate import generate_step, speculative_generate_step
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.sample_utils import make_sampler

from engine.bench.figures import (
    Step,
    committed_ids,
    stats_of_steps,
    steps_of_events,
    steps_of_flags,
    without_first_round,
)
from engine.draft_length import LONGEST, DraftLengthPolicy
from engine.draft_length.calibrate import calibrate
from engine.draft_length.policy import Automatic
from engine.events import Event, Stats, Verdict
from engine.loading import LoadedModel
from engine.pair import make_drafter
from engine.request import Request, Sampling
from engine.session import Session
from engine.speculate import Rule
from engine.stats import tally
from models.installed.resolve import resolve_drafters
from models.model_folder import ModelFolder

HEADROOM = LONGEST + 1  # tokens past the limit that a contestant may write
_PREFILL_ROWS = 512

Load = Callable[[ModelFolder], LoadedModel]


@dataclass(frozen=True, slots=True)
class Assignment:
    """What to do: continue `prompt`, token ids, by about `limit` tokens."""

    prompt: tuple[int, ...]
    limit: int
    temperature: float
    seed: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """What came of it: all committed `ids`, and the figures of all rounds but the first.

    `stats.decode_seconds` is the bench's own clock. `steps`: the rounds that the figures are of.
    `phases`: whether draft and verify seconds were measured too. `same_weights`: whether its
    passes read the very arrays that ours do.
    """

    ids: tuple[int, ...]
    stats: Stats
    steps: tuple[Step, ...] = ()
    phases: bool = False
    same_weights: bool = True


class Contestant(Protocol):
    """A way to decode."""

    @property
    def name(self) -> str:
        """Unique, for people."""

    def run(self, assignment: Assignment) -> Measurement:
        """Do it from scratch. Raises ValueError where it cannot handle this model."""


class Slipstream:
    """Ours: new conversations with `drafter` and one `policy`, judged by `rule`.

    The policy goes through all of them, as in an application: what it learnt from one answer it
    knows in the next. And as there, an automatic one begins with what the pair was measured to
    cost, which is done before the first answer and is part of none.
    """

    def __init__(
        self,
        name: str,
        *,
        target: LoadedModel,
        drafter: str,
        policy: DraftLengthPolicy,
        rule: Rule,
        load: Load,
    ) -> None:
        self.name = name
        self._target = target
        self._drafters = resolve_drafters(drafter, target.folder)
        self._policy = policy
        self._rule = rule
        self._load = load
        self._begun = False

    def run(self, assignment: Assignment) -> Measurement:
        committed: list[int] = []
        times: list[float] = []
        events: list[Event] = []
        for event in self.answer(assignment, cancelled=lambda: sum(committed) >= assignment.limit):
            if isinstance(event, Verdict):
                times.append(perf_counter())
                committed.append(event.accepted + (event.next is not None))
            events.append(event)
        measured = without_first_round(events)
        stats = replace(tally(measured), decode_seconds=times[-1] - times[0])
        steps = steps_of_events(measured)
        return Measurement(tuple(committed_ids(events)), stats, steps, phases=True)

    def answer(
        self, assignment: Assignment, *, cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[Event]:
        """The events of a new conversation's first answer."""
        session = Session(self._target, accept=self._rule)
        session.drafter = make_drafter(
            self._drafters, target=self._target, decoder=session.decoder, load=self._load
        )
        if not self._begun and isinstance(self._policy, Automatic):
            self._policy = Automatic(calibrate(session.decoder, session.drafter))
        self._begun = True
        session.policy = self._policy  # a session makes its policy start anew with its drafter
        sampling = Sampling(temperature=assignment.temperature, seed=assignment.seed)
        request = Request(sampling=sampling, max_tokens=assignment.limit + HEADROOM)
        return session.complete(assignment.prompt, request, cancelled=cancelled)


class MlxLm:
    """mlx-lm's plain decoding."""

    def __init__(self, name: str, *, target: LoadedModel) -> None:
        self.name = name
        self._target = target

    def run(self, assignment: Assignment) -> Measurement:
        began = perf_counter()
        cache = prefilled(self._target.model, assignment.prompt)
        prefill_seconds = perf_counter() - began
        mx.random.seed(assignment.seed)
        tokens = generate_step(
            mx.array(assignment.prompt[-1:]),
            self._target.model,
            max_tokens=assignment.limit + HEADROOM,
            sampler=make_sampler(assignment.temperature),
            prompt_cache=cache,
        )
        with closing(tokens):
            items = ((int(token), False) for token, _ in tokens)
            ids, flags, seconds = collect(items, self._target, assignment.limit)
        steps = steps_of_flags(flags, length=0)
        return measurement(ids, steps, seconds, assignment, prefill_seconds)


class MlxLmSpeculative:
    """mlx-lm's speculative decoding, `length` tokens a round from `draft_model`."""

    def __init__(
        self, name: str, *, target: LoadedModel, draft_model: nn.Module, length: int
    ) -> None:
        self.name = name
        self._target = target
        self._draft_model = draft_model
        self._length = length

    def run(self, assignment: Assignment) -> Measurement:
        began = perf_counter()
        cache = [
            *prefilled(self._target.model, assignment.prompt),
            *prefilled(self._draft_model, assignment.prompt),
        ]
        prefill_seconds = perf_counter() - began
        mx.random.seed(assignment.seed)
        tokens = speculative_generate_step(
            mx.array(assignment.prompt[-1:]),
            self._target.model,
            self._draft_model,
            num_draft_tokens=self._length,
            max_tokens=assignment.limit + HEADROOM,
            sampler=make_sampler(assignment.temperature),
            prompt_cache=cache,
        )
        with closing(tokens):
            items = ((int(token), bool(from_draft)) for token, _, from_draft in tokens)
            ids, flags, seconds = collect(items, self._target, assignment.limit)
        steps = steps_of_flags(flags, length=self._length)
        return measurement(ids, steps, seconds, assignment, prefill_seconds)


def prefilled(model: nn.Module, prompt: tuple[int, ...]) -> list[Any]:
    """New mlx-lm caches that hold all of `prompt` but its last token, read in our chunks."""
    cache: list[Any] = make_prompt_cache(model)
    for start in range(0, len(prompt) - 1, _PREFILL_ROWS):
        rows = prompt[start : min(start + _PREFILL_ROWS, len(prompt) - 1)]
        model(mx.array(rows)[None], cache=cache)
        mx.eval([layer.state for layer in cache])
        mx.clear_cache()
    return cache


def collect(
    items: Iterator[tuple[int, bool]], target: LoadedModel, limit: int
) -> tuple[list[int], list[bool], float]:
    """All tokens; of those after the first round, whether each was drafted; their seconds."""
    detokenizer = target.tokenizer.detokenizer
    ids: list[int] = []
    flags: list[bool] = []
    began: float | None = None
    seconds = 0.0
    for token, drafted in items:
        now = perf_counter()
        ids.append(token)
        if began is not None:
            flags.append(drafted)
            seconds = now - began
        elif not drafted:
            began = now
        if token in target.ends or (len(ids) >= limit and not drafted):
            break
        detokenizer.add_token(token)
        _ = detokenizer.last_segment  # computed on access
    return ids, flags, seconds


def measurement(
    ids: Sequence[int],
    steps: tuple[Step, ...],
    seconds: float,
    assignment: Assignment,
    prefill_seconds: float = 0.0,
    *,
    same_weights: bool = True,
) -> Measurement:
    """What came of another engine's run, of which only the steps are known."""
    stats = stats_of_steps(steps, decode_seconds=seconds)
    stats = replace(stats, prompt_tokens=len(assignment.prompt), prefill_seconds=prefill_seconds)
    return Measurement(tuple(ids), stats, steps, same_weights=same_weights)
