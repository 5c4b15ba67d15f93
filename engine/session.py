"""A conversation with a pair: prompts in, events out. What both prompts share is read once.

Joins the loop (`engine.speculate`), which knows token ids, with text and events.
"""

import secrets
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, partial
from itertools import pairwise, takewhile
from pathlib import Path
from time import perf_counter
from typing import Any

import mlx.core as mx

from engine.accept import AcceptanceRule, by_block
from engine.answer_events import AnswerEvents, token_logprob
from engine.batch import can_share
from engine.cache import QuantizedCaches
from engine.circumstances import Contention
from engine.cpu.blas import choose_blas
from engine.decoder import Decoder
from engine.device import backend, fetch
from engine.draft_length import DraftLengthPolicy
from engine.draft_length.calibrate import calibrate
from engine.draft_length.calibrations import CalibrationKey, CalibrationStore
from engine.draft_length.costs import Calibration
from engine.draft_length.policy import Automatic, Fixed, FixedTree
from engine.drafters import Drafter, NoDrafter
from engine.drafters.cascade import Cascade
from engine.drafters.prediction import PredictionDrafter
from engine.earlier_answers import LEAD, EarlierAnswers
from engine.events import (
    Done,
    DoneReason,
    Event,
    Prefill,
    PromptLogprobs,
    Stats,
)
from engine.grammar import Grammars
from engine.kept_blocks import KeptBlocks
from engine.kept_prefixes import KeptPrefix, KeptPrefixes, Unkept
from engine.loading import LoadedModel
from engine.overflow import left_out, turn_bounds
from engine.pair import identify, make_drafter
from engine.request import ChatMessage, Prompt, Request, TooLong, chat
from engine.sampling import entries, likeliest, logprobs
from engine.sources import Sources
from engine.speculate import (
    Company,
    Logprob,
    Pass,
    RoundDraft,
    Task,
    alone,
    candidates_for,
    draft_and_verify,
    speculate,
    while_it_works,
)
from engine.stats import ENOUGH_PLAIN_ROUNDS, update
from engine.template import encode_prompt
from engine.text import AnswerText, TokenTexts, ending_of
from engine.unneeded import unneeded
from models.errors import Problem
from models.installed.resolve import Drafters, resolve_drafters


class Remark(Enum):
    """What a person should know about a calibration or an answer; the value says it in a line."""

    SLOW_BLAS = (
        "MLX multiplies with the slow reference BLAS here, with which drafting cannot pay: "
        "slipstream doctor says what to do."
    )
    BUSY_CALIBRATING = (
        "Other programs keep this machine busy: the costs of drafting are measured again next time."
    )
    BUSY_ANSWERING = (
        "Other programs kept this machine busy: what this answer showed about speed is not stored."
    )
    ONLY_CHAINS = "This model's layers cannot read a tree in one pass: drafts are chains."


_DEFAULT = Request()
_FORCED = "the grammar allows nothing else"
_AROUND_A_MESSAGE = 6  # tokens that a chat template usually adds


class Session:
    """One conversation, used by one thread. `accept` is the acceptance rule for sampling.

    Attributes: `drafter` and `policy`, which may be changed between answers. `disturbed`: whether
    other programs kept the machine busy during the latest answer, so that nothing of it is stored.
    """

    def __init__(
        self,
        target: LoadedModel,
        *,
        drafter: str | Drafters = "none",
        policy: DraftLengthPolicy | None = None,
        quantized: QuantizedCaches | None = None,
        accept: AcceptanceRule = by_block,
        calibrations: CalibrationStore | None = None,
        earlier: Path | None = None,
        kept: KeptBlocks | None = None,
    ) -> None:
        """`earlier`: the folder of earlier answers, which are drafted from, and these kept too.
        `kept`: where what is read of documents is kept, for prompts that say so."""
        self.target = target
        self._accept = accept
        trial = cache(partial(can_share, target.model))  # one for all sessions with this model
        self.decoder = target.decoder(target.model, quantized=quantized, trial=trial)
        self.drafter: Drafter = NoDrafter()
        self.policy: DraftLengthPolicy = policy or Automatic()
        self._calibrations = calibrations
        self._key: CalibrationKey | None = None  # under which the policy is stored, if it is
        self._measured: Calibration | None = None  # whose costs are to be stored
        self.disturbed = False
        self._token_texts = TokenTexts(target.tokenizer)
        vocabulary = self.decoder.vocabulary
        self._grammars = Grammars(target.tokenizer, vocabulary=vocabulary, ends=target.ends)
        self._earlier: EarlierAnswers | None = None
        if earlier is not None:
            names = target.tokenizer.get_vocab()
            self._earlier = EarlierAnswers(earlier, names, size=vocabulary)
        self._prefixes = None if kept is None else KeptPrefixes(kept, target, self.decoder)
        self._kept: KeptPrefix | None = None  # of the latest prompt
        self._tokens: list[int] = []  # committed; the models have read a prefix of them
        self.use_drafter(drafter)

    @property
    def tokens(self) -> tuple[int, ...]:
        """The ids of all that is committed: prompt and answer."""
        return tuple(self._tokens)

    def use_drafter(self, drafter: str | Drafters) -> None:
        """Draft with this drafter from now on; a name is looked up first: see `engine.pair`."""
        if isinstance(drafter, str):
            drafter = resolve_drafters(drafter, self.target.folder)
        self.drafter = make_drafter(
            drafter, target=self.target, decoder=self.decoder, earlier=self._earlier
        )
        self._drafters, self._key = drafter, None
        self.policy.restart()

    def calibrate(
        self,
        *,
        progress: Callable[[float], None] = lambda share: None,
        cancelled: Callable[[], bool] = lambda: False,
        again: bool = False,
    ) -> list[Remark]:
        """Give an automatic policy the costs of this pair: the stored ones, or new measurements,
        which take up to 5 seconds. `progress` gets the share that is done; `again`: measure though
        there are stored ones. For another policy, find out whether it can have what it asks for.

        Returns what a person should know about that; mostly nothing.
        """
        if isinstance(self.drafter, NoDrafter):
            return []
        trees = isinstance(self.policy, Automatic | FixedTree)
        in_vain = trees and not self.decoder.branches  # tried now, not while a draft is timed
        if not isinstance(self.policy, Automatic):
            return [Remark.ONLY_CHAINS] if in_vain else []
        remarks: list[Remark] = []
        with suppress(Problem):  # weights without a fingerprint have no key
            self._key = identify(self._drafters, self.target, self.decoder)
        calibration = acceptance = None
        if self._key is not None and self._calibrations is not None:
            calibration, acceptance = self._calibrations.read(self._key)
        if again:
            calibration = None
        self._measured = calibration
        if calibration is None:
            self.drafter.leave_out(tuple)  # what is measured may stand in a gap
            contention = Contention()
            try:
                calibration = calibrate(
                    self.decoder, self.drafter, self._tokens, progress=progress, cancelled=cancelled
                )
            finally:
                self.decoder.rest()
            if backend().own_functions and choose_blas().slow:
                remarks.append(Remark.SLOW_BLAS)
            if contention.heavy:
                remarks.append(Remark.BUSY_CALIBRATING)
            else:
                self._measured = calibration
        self.policy = Automatic(calibration, acceptance)
        self._store()
        return remarks

    def _store(self) -> None:
        """Store what was learned about the pair; its costs only while they are up to date."""
        policy, key, store = self.policy, self._key, self._calibrations
        if isinstance(policy, Automatic) and self._measured and key and store:
            outdated = policy.costs.outdated
            store.write(key, None if outdated else self._measured, policy.acceptance)

    def another(self) -> "Session":
        """A session for another conversation: it shares the weights, and begins with what was
        learned of the pair."""
        return self._beside(self.decoder.another())

    def _beside(self, decoder: Decoder) -> "Session":
        other = copy(self)
        other.decoder, other.drafter = decoder, self.drafter.beside(decoder)
        other.policy, other._kept = self.policy.another(), None
        other._tokens = self._tokens[: decoder.length]
        return other

    def copy(self) -> "Session":
        """As `another`, with a copy of what this one has read."""
        decoder, _recorded = self.decoder.copy()
        return self._beside(decoder)

    @property
    def length(self) -> int:
        """How many tokens it has read."""
        return self.decoder.length

    def shared(self, prompt: Sequence[int]) -> int:
        """How many tokens of `prompt`, from its beginning, were read for the latest answer."""
        return min(common(self._tokens, prompt), self.length)

    def encode(self, prompt: Prompt) -> list[int]:
        """A prompt in tokens; a chat by the model's own chat template.

        Where the last message is the assistant's, the answer continues it.
        """
        return encode_prompt(self.target.tokenizer, prompt)

    def answer(
        self,
        messages: Sequence[ChatMessage],
        request: Request = _DEFAULT,
        *,
        options: str = "",
        generation: str = "",
        cancelled: Callable[[], bool] = lambda: False,
        compare: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = perf_counter,
    ) -> Iterator[Event]:
        """Answer a chat, with these `options` of its template: see `begin`."""
        answer = self.prepare(chat(messages, options=options), request, generation=generation)
        return self._alone(answer, cancelled=cancelled, compare=compare, clock=clock)

    def complete(
        self,
        prompt: Sequence[int],
        request: Request = _DEFAULT,
        *,
        generation: str = "",
        cancelled: Callable[[], bool] = lambda: False,
        compare: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = perf_counter,
    ) -> Iterator[Event]:
        """Continue `prompt`, token ids: see `begin`."""
        answer = self.prepare(Prompt(tokens=tuple(prompt)), request, generation=generation)
        return self._alone(answer, cancelled=cancelled, compare=compare, clock=clock)

    def _alone(self, answer: "Answer", **options: Any) -> Iterator[Event]:
        return alone(self.decoder, self.begin(answer, **options))

    def room(self, request: Request) -> int:
        """How many tokens a chat may have before something is left out of it, for an answer."""
        return request.room(self.target.context_length)

    def prepare(self, prompt: Prompt, request: Request, *, generation: str = "") -> "Answer":
        """Make a prompt and a request ready to be begun. Raises `Problem` where they cannot be."""
        messages = prompt.messages
        if messages and not (messages[-1].content.strip() or messages[-1].tool_call_id):
            raise Problem("The prompt is empty.", "Write something to answer.")
        tokens, gap = self._fitting(prompt, request)
        sources = Sources(self.target.tokenizer, _without(prompt, gap), tokens, left_out=gap)
        context = self.target.context_length
        if not tokens:
            raise Problem("The prompt is empty.", "Write something to answer.")
        if len(tokens) >= context:
            raise TooLong(len(tokens), context)
        sampling = request.sampling or self.target.sampling
        task = Task(
            sampling=sampling,
            seed=secrets.randbits(32) if sampling.seed is None else sampling.seed,
            max_tokens=min(request.max_tokens, context - len(tokens)),
            ends=self.target.ends,
            accept=self._accept,
            logprobs=request.logprobs,
        )
        if request.grammar is not None:
            task = replace(task, constraint=self._grammars.constrain(request.grammar))
        text = AnswerText(
            self.target.tokenizer, request.stops, special=request.special, ends=self.target.ends
        )
        prediction: list[int] = []
        if request.prediction:
            prediction = self.target.tokenizer.encode(
                request.prediction, add_special_tokens=False, verbose=False
            )
        return Answer(
            generation,
            tokens,
            gap,
            sources,
            task,
            text,
            prediction,
            request.prompt_logprobs,
            keep_as=frozenset(request.keep_as),
            unneeded=partial(unneeded, messages, sources),
        )

    def begin(
        self,
        answer: "Answer",
        *,
        cancelled: Callable[[], bool] = lambda: False,
        compare: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = perf_counter,
        company: Company | None = None,
    ) -> Generator[Event | Pass]:
        """The events of an answer, and the passes that it asks for: see `engine.speculate`.

        `cancelled` is called at least once a round. An answer that drafted has something to be
        compared with: where it has too few plain rounds of its own, plain passes are measured
        behind its last text, for as long as `compare` says so. `clock` gives the seconds of the
        rounds; it may rest while the answer does. `company`: who else is answered meanwhile.

        May be closed early, which is the same as cancelling.
        """
        task = replace(answer.task, company=company or Company(), clock=clock)
        events = self._run(replace(answer, task=task), cancelled=cancelled, compare=compare)
        events = self._resting(events)
        return self._telling(answer.left_out, events) if answer.left_out else events

    def _fitting(self, prompt: Prompt, request: Request) -> tuple[list[int], range]:
        """The prompt with room for an answer, and which messages were left out of it for that.

        Where nothing can be left out any more it may still be too long.
        """
        messages, limit = prompt.messages, self.room(request)
        tokens, gap = self.encode(prompt), range(0)
        if len(tokens) <= limit or request.overflow == "stop" or not messages:
            return tokens, gap
        bounds = turn_bounds(messages)
        lengths = [self._length(message) for message in messages]
        turns = [sum(lengths[a:b]) for a, b in pairwise(bounds)]
        first = replace(prompt, messages=messages[: bounds[0] + 1])
        head = len(self.encode(first)) - lengths[bounds[0]]
        room = limit
        while len(tokens) > limit and gap.stop < bounds[-2]:
            found = left_out(head, turns, overflow=request.overflow, limit=room)
            gap = range(bounds[found.start], bounds[found.stop])
            tokens = self.encode(_without(prompt, gap))
            room -= max(1, len(tokens) - limit)  # the template may add more than was counted
        return tokens, gap

    def _length(self, message: ChatMessage) -> int:
        """About how many tokens a message takes in a prompt."""
        tokens = self.target.tokenizer.encode(
            message.content, add_special_tokens=False, verbose=False
        )
        return len(tokens) + _AROUND_A_MESSAGE

    def _resting(self, events: Generator[Event | Pass]) -> Generator[Event | Pass]:
        """The events; the decoder rests from the last one on, and however they end."""
        with closing(events):
            try:
                for event in events:
                    if isinstance(event, Done):
                        self.decoder.rest()
                    yield event
            finally:
                self.decoder.rest()

    def _telling(self, gap: range, events: Generator[Event | Pass]) -> Generator[Event | Pass]:
        """The events, of which those of the prefill say that the messages in `gap` are left out."""
        context = self.target.context_length
        with closing(events):
            for event in events:
                if isinstance(event, Prefill):
                    start, count = gap.start, len(gap)
                    event = replace(event, left_out_from=start, left_out=count, context=context)
                yield event

    def plain_passes(
        self,
        request: Request = _DEFAULT,
        *,
        passes: int = ENOUGH_PLAIN_ROUNDS,
        going_on: Callable[[], bool] = lambda: True,
    ) -> tuple[float, ...]:
        """The seconds of plain passes, measured behind the last answer, which stays as it is.

        None of them where there is no answer, no room for so many tokens, or `going_on` says no.
        One more pass goes before them: it reads what the answer left, and none was under way. And
        one behind them, which is built while the last of them is waited for.
        """
        tokens, length = list(self._tokens), self.decoder.length
        if not tokens or len(tokens) + passes + 2 > self.target.context_length:
            return ()
        sampling = request.sampling or self.target.sampling
        task = Task(sampling, seed=0, max_tokens=passes + 2, ends=frozenset())
        self.decoder.bookmark()
        moments: list[float] = []
        with closing(speculate(self.decoder, NoDrafter(), Fixed(0), tokens, task)) as written:
            for _ in written:
                moments.append(perf_counter())
                if not going_on() or len(moments) > passes:
                    break
        self.decoder.rewind(length)
        seconds = tuple(after - before for before, after in pairwise(moments))
        return seconds if len(seconds) == passes else ()

    def _run(
        self,
        answer: "Answer",
        *,
        cancelled: Callable[[], bool],
        compare: Callable[[], bool],
    ) -> Generator[Event | Pass]:
        generation, task = answer.generation, answer.task
        drafter = self.drafter
        if answer.prediction:
            prediction = PredictionDrafter(answer.prediction, start=len(answer.tokens))
            drafter = Cascade(prediction, drafter)
        stats, contention, self.disturbed = Stats(), Contention(), False
        if self._earlier is not None:
            self._earlier.refresh()
        if answer.prompt_logprobs:
            yield from self._judge_prompt(answer)
        for prefill in self._prefill(answer):
            stats = update(stats, prefill)
            yield prefill
            if cancelled():
                yield Done(generation, "cancelled", stats)
                return

        ending: DoneReason = "length"
        source_of = answer.sources.of
        telling = AnswerEvents(generation, self._token_texts, answer.text, source_of)
        last = task.clock()
        loop = draft_and_verify(self.decoder, drafter, self.policy, self._tokens, task)
        with closing(while_it_works(loop, task.company)) as items:
            for item in items:
                if isinstance(item, Pass):
                    yield item
                    continue
                now = task.clock()
                for event in telling.push(item, now - last, accompanied=task.company.in_turns):
                    stats = update(stats, event)
                    yield event
                if isinstance(item, RoundDraft):
                    continue
                last = now
                if answer.text.stopped or item.committed[-1] in task.ends:
                    ending = "stop"
                    break
                if cancelled():
                    ending = "cancelled"
                    break
        self.decoder.free_pool(len(self._tokens))
        yield from telling.finish()
        if self._earlier is not None and ending != "cancelled" and not cancelled():
            # Before `Done`: whoever deletes the chat behind that has this forgotten, too.
            self._earlier.learn(self._tokens[max(len(answer.tokens) - LEAD, 0) :])
        self.disturbed = self._measured is not None and contention.heavy
        if not self.disturbed and not task.company.in_turns:
            self._store()
        few = stats.plain < ENOUGH_PLAIN_ROUNDS
        if stats.proposed and few and ending != "cancelled" and compare() and not cancelled():
            reference = self.plain_passes(
                Request(sampling=task.sampling), going_on=lambda: compare() and not cancelled()
            )
            stats = replace(stats, reference_seconds=reference)
        ending = "stop" if answer.text.stopped else ending
        yield Done(generation, ending, stats, cut=answer.text.cut)

    def keep(self) -> bool:
        """Write some of the latest prompt to disk, where it said so and there is time: a part of a
        second's work. Returns whether there may be more to write."""
        return self._kept is not None and self._kept.write()

    @property
    def unkept(self) -> Unkept | None:
        """Why `keep` has kept nothing of the latest prompt, which said so."""
        return None if self._kept is None else self._kept.unkept

    def _new_prefix(
        self, prompt: list[int], common: int, keep_as: frozenset[str]
    ) -> KeptPrefix | None:
        """What is kept, or to be kept, of a prompt that does not just go on behind the last one."""
        before, self._kept = self._kept, None
        if not keep_as or self._prefixes is None:
            return None
        if before and before.documents == keep_as and 0 < before.length <= common:
            self._kept = before
            return None
        self._kept = KeptPrefix(self._prefixes, self.decoder, prompt, documents=keep_as)
        return self._kept

    def _prefill(self, answer: "Answer") -> Iterator[Prefill]:
        """Read all but the last token of the prompt, from where it differs from the text so far, or
        from what is kept of it on disk."""
        began, prompt, generation = perf_counter(), answer.tokens, answer.generation
        common = min(self.shared(prompt), len(prompt) - 1)
        kept = self._new_prefix(prompt, common, answer.keep_as)
        if kept is not None:
            common = kept.start(common)
        self._tokens = list(prompt)
        self.decoder.rewind(common)
        self.drafter.rewind(common)
        self.drafter.leave_out(answer.unneeded)
        reused = self.decoder.length
        ending = ending_of(self.target.tokenizer, prompt)
        yield Prefill(generation, reused, len(prompt), reused, 0.0, ending=ending)
        if kept is not None:
            for found in kept.read(reused):
                yield Prefill(generation, found, len(prompt), found, perf_counter() - began)
            reused = self.decoder.length
        for length in self.decoder.prefill(prompt):
            yield Prefill(generation, length, len(prompt), reused, perf_counter() - began)
        if self._drafter_reads(prompt):
            for _ in self.drafter.prepare(prompt):
                elapsed = perf_counter() - began
                yield Prefill(generation, len(prompt) - 1, len(prompt), reused, elapsed)
        self.decoder.bookmark()
        yield Prefill(generation, len(prompt), len(prompt), reused, perf_counter() - began)

    def _drafter_reads(self, prompt: list[int]) -> bool:
        """Whether the drafter reads the prompt at once, and not with its first draft."""
        if not isinstance(self.policy, Automatic):
            return True
        candidates = candidates_for(self.decoder, self.drafter, prompt)
        return self.policy.worth_reading(candidates, context=len(prompt))

    def _judge_prompt(self, answer: "Answer") -> Iterator[PromptLogprobs]:
        """What the target thought of each token of the prompt, which is read from its beginning."""
        prompt, count = answer.tokens, answer.task.logprobs or 0
        told = [token_logprob(prompt[0], None, self._token_texts)]
        for logits in self.decoder.read_from_start(prompt):
            rows = logprobs(logits.astype(mx.float32))
            behind = prompt[len(told) : len(told) + rows.shape[0]]
            own, ids, values = fetch(entries(rows, mx.array(behind)), *likeliest(rows, count))
            tops = [list(zip(*pair, strict=True)) for pair in zip(ids, values, strict=True)]
            told += [
                token_logprob(token, Logprob(*pair), self._token_texts)
                for token, *pair in zip(behind, own, tops, strict=True)
            ]
        self._tokens = prompt[:-1]
        yield PromptLogprobs(answer.generation, tuple(told))


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts begin with alike."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _without(prompt: Prompt, gap: range) -> Prompt:
    """A chat without the messages in `gap`."""
    messages = prompt.messages
    return replace(prompt, messages=(*messages[: gap.start], *messages[gap.stop :]))


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that can be begun: its prompt, which messages are left out of it, where the others
    stand in it, and what is to be written. `prediction`: tokens to draft from. `keep_as`: as for
    `Request`. `unneeded` finds what a drafter need not read of the prompt."""

    generation: str
    tokens: list[int]
    left_out: range
    sources: Sources
    task: Task
    text: AnswerText
    prediction: list[int]
    prompt_logprobs: bool
    keep_as: frozenset[str] = frozenset()
    unneeded: Callable[[], Sequence[range]] = tuple

    @property
    def most_tokens(self) -> int:
        """How long prompt and answer can become together."""
        return len(self.tokens) + self.task.max_tokens
