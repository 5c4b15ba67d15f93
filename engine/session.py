"""A conversation with a pair: prompts in, events out. What both prompts share is read once.

Joins the loop (`engine.speculate`), which knows token ids, with text and events.
"""

import secrets
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from enum import Enum
from itertools import pairwise, takewhile, zip_longest
from time import perf_counter

import mlx.core as mx

from engine.accept import by_block
from engine.blas import choose_blas
from engine.cache import QuantizedCaches
from engine.circumstances import Contention
from engine.decoder import Decoder
from engine.draft_length import DraftLengthPolicy
from engine.draft_length.calibrate import calibrate
from engine.draft_length.calibrations import CalibrationKey, CalibrationStore
from engine.draft_length.costs import Calibration
from engine.draft_length.policy import Automatic, Fixed
from engine.drafters import Drafter, NoDrafter
from engine.events import (
    Done,
    DoneReason,
    Draft,
    DraftedToken,
    Event,
    Origin,
    Prefill,
    Span,
    Stats,
    Text,
    TokenVerdict,
    Verdict,
    WrittenToken,
)
from engine.loading import LoadedModel
from engine.overflow import left_out, turn_bounds
from engine.pair import identify, make_drafter
from engine.request import ChatMessage, Prompt, Request
from engine.speculate import AcceptanceRule, RoundDraft, RoundVerdict, Task, speculate
from engine.stats import ENOUGH_PLAIN_ROUNDS, update
from engine.template import encode_prompt
from engine.text import AnswerText, TokenTexts
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


_DEFAULT = Request()
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
    ) -> None:
        self.target = target
        self._accept = accept
        self.decoder = Decoder(target.model, quantized=quantized)
        self.drafter: Drafter = NoDrafter()
        self.policy: DraftLengthPolicy = policy or Automatic()
        self._calibrations = calibrations
        self._key: CalibrationKey | None = None  # under which the policy is stored, if it is
        self._measured: Calibration | None = None  # whose costs are to be stored
        self.disturbed = False
        self._token_texts = TokenTexts(target.tokenizer)
        self._tokens: list[int] = []  # committed; the models have read a prefix of them
        self.use_drafter(drafter)

    def use_drafter(self, drafter: str | Drafters) -> None:
        """Draft with this drafter from now on; a name is looked up first: see `engine.pair`."""
        if isinstance(drafter, str):
            drafter = resolve_drafters(drafter, self.target.folder)
        self.drafter = make_drafter(drafter, target=self.target, decoder=self.decoder)
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
        there are stored ones.

        Returns what a person should know about that; mostly nothing.
        """
        if not isinstance(self.policy, Automatic) or isinstance(self.drafter, NoDrafter):
            return []
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
            contention = Contention()
            calibration = calibrate(
                self.decoder, self.drafter, self._tokens, progress=progress, cancelled=cancelled
            )
            if choose_blas().slow and mx.default_device() == mx.cpu:
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

    def encode(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The prompt for the next answer, in tokens, by the model's own chat template.

        Where the last message is the assistant's, the answer continues it.
        """
        return encode_prompt(self.target.tokenizer, Prompt(messages=tuple(messages)))

    def answer(
        self,
        messages: Sequence[ChatMessage],
        request: Request = _DEFAULT,
        *,
        generation: str = "",
        cancelled: Callable[[], bool] = lambda: False,
        compare: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = perf_counter,
    ) -> Iterator[Event]:
        """Answer a chat. Raises `Problem` before the first event, or not at all."""
        if not messages or not messages[-1].content.strip():
            raise Problem("The prompt is empty.", "Write something to answer.")
        prompt, gap = self._fitting(messages, request)
        events = self.complete(
            prompt,
            request,
            generation=generation,
            cancelled=cancelled,
            compare=compare,
            clock=clock,
        )
        return self._telling(gap, events) if gap else events

    def _fitting(
        self, messages: Sequence[ChatMessage], request: Request
    ) -> tuple[list[int], range]:
        """The prompt with room for an answer, and which messages were left out of it for that.

        Where nothing can be left out any more it may still be too long.
        """
        context = self.target.context_length
        limit = context - min(request.max_tokens, context // 4)
        prompt, gap = self.encode(messages), range(0)
        if len(prompt) <= limit or request.overflow == "stop":
            return prompt, gap
        bounds = turn_bounds(messages)
        lengths = [self._length(message) for message in messages]
        turns = [sum(lengths[a:b]) for a, b in pairwise(bounds)]
        head = len(self.encode(messages[: bounds[0] + 1])) - lengths[bounds[0]]
        room = limit
        while len(prompt) > limit and gap.stop < bounds[-2]:
            found = left_out(head, turns, overflow=request.overflow, limit=room)
            gap = range(bounds[found.start], bounds[found.stop])
            prompt = self.encode([*messages[: gap.start], *messages[gap.stop :]])
            room -= max(1, len(prompt) - limit)  # the template may add more than was counted
        return prompt, gap

    def _length(self, message: ChatMessage) -> int:
        """About how many tokens a message takes in a prompt."""
        tokens = self.target.tokenizer.encode(
            message.content, add_special_tokens=False, verbose=False
        )
        return len(tokens) + _AROUND_A_MESSAGE

    def _telling(self, gap: range, events: Iterator[Event]) -> Iterator[Event]:
        """The events, of which those of the prefill say that the messages in `gap` are left out."""
        context = self.target.context_length
        for event in events:
            if isinstance(event, Prefill):
                start, count = gap.start, len(gap)
                event = replace(event, left_out_from=start, left_out=count, context=context)
            yield event

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
        """Continue `prompt`, token ids. `cancelled` is called at least once a round.

        An answer that drafted has something to be compared with: where it has too few plain rounds
        of its own, plain passes are measured behind its last text, for as long as `compare` says
        so. `clock` gives the seconds of the rounds; it may rest while the answer does.

        Raises `Problem` before the first event, or not at all. May be closed early, which is the
        same as cancelling.
        """
        context = self.target.context_length
        if not prompt:
            raise Problem("The prompt is empty.", "Write something to answer.")
        if len(prompt) >= context:
            raise Problem(
                f"The prompt has {len(prompt)} tokens, and the model can look at {context}.",
                "Shorten it, or start a new conversation.",
            )
        sampling = request.sampling or self.target.sampling
        task = Task(
            sampling=sampling,
            seed=secrets.randbits(32) if sampling.seed is None else sampling.seed,
            max_tokens=min(request.max_tokens, context - len(prompt)),
            ends=self.target.ends,
            accept=self._accept,
        )
        text = AnswerText(self.target.tokenizer, request.stops)
        return self._run(
            list(prompt), task, text, generation, cancelled=cancelled, compare=compare, clock=clock
        )

    def plain_passes(
        self,
        request: Request = _DEFAULT,
        *,
        passes: int = ENOUGH_PLAIN_ROUNDS,
        going_on: Callable[[], bool] = lambda: True,
    ) -> tuple[float, ...]:
        """The seconds of plain passes, measured behind the last answer, which stays as it is.

        None of them where there is no answer, no room for so many tokens, or `going_on` says no.
        One more pass goes before them: it reads what the answer left, and none was under way.
        """
        tokens, length = list(self._tokens), self.decoder.length
        if not tokens or len(tokens) + passes + 1 > self.target.context_length:
            return ()
        sampling = request.sampling or self.target.sampling
        task = Task(sampling, seed=0, max_tokens=passes + 1, ends=frozenset())
        self.decoder.timeline.bookmark()
        moments: list[float] = []
        with closing(speculate(self.decoder, NoDrafter(), Fixed(0), tokens, task)) as written:
            for _ in written:
                moments.append(perf_counter())
                if not going_on():
                    break
        self.decoder.rewind(length)
        seconds = tuple(after - before for before, after in pairwise(moments))
        return seconds if len(seconds) == passes else ()

    def _run(
        self,
        prompt: list[int],
        task: Task,
        text: AnswerText,
        generation: str,
        *,
        cancelled: Callable[[], bool],
        compare: Callable[[], bool],
        clock: Callable[[], float],
    ) -> Iterator[Event]:
        stats, contention, self.disturbed = Stats(), Contention(), False
        for prefill in self._prefill(prompt, generation):
            stats = update(stats, prefill)
            yield prefill
            if cancelled():
                yield Done(generation, "cancelled", stats)
                return

        committed: deque[tuple[int, int]] = deque()  # round and index of tokens without a span

        def written(delta: str, lengths: Sequence[int]) -> Text:
            spans = tuple(Span(*committed.popleft(), length) for length in lengths)
            return Text(generation, delta, spans)

        ending: DoneReason = "length"
        with closing(self._rounds(task, generation, clock)) as rounds:
            for event in rounds:
                if isinstance(event, Draft):
                    yield event
                    continue
                stats = update(stats, event)
                yield event
                count = event.accepted + (event.next is not None)
                committed.extend((event.round, index) for index in range(count))
                delta, lengths = text.push(self._tokens[-count:])
                if delta:
                    yield written(delta, lengths)
                if text.stopped or self._tokens[-1] in task.ends:
                    ending = "stop"
                    break
                if cancelled():
                    ending = "cancelled"
                    break
        delta, lengths = text.finish()
        if lengths:
            yield written(delta, lengths)
        self.disturbed = self._measured is not None and contention.heavy
        if not self.disturbed:
            self._store()
        few = stats.plain < ENOUGH_PLAIN_ROUNDS
        if stats.proposed and few and ending != "cancelled" and compare() and not cancelled():
            reference = self.plain_passes(
                Request(sampling=task.sampling), going_on=lambda: compare() and not cancelled()
            )
            stats = replace(stats, reference_seconds=reference)
        yield Done(generation, "stop" if text.stopped else ending, stats, cut=text.cut)

    def _prefill(self, prompt: list[int], generation: str) -> Iterator[Prefill]:
        """Read all but the last token of the prompt, from where it differs from the text so far."""
        began = perf_counter()
        pairs = zip(self._tokens, prompt, strict=False)
        known = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        common = min(known, len(prompt) - 1)
        self._tokens = prompt
        self.decoder.rewind(common)
        self.drafter.rewind(common)
        reused = self.decoder.length
        yield Prefill(generation, reused, len(prompt), reused, 0.0)
        for length in self.decoder.prefill(prompt):
            yield Prefill(generation, length, len(prompt), reused, perf_counter() - began)
        if self._drafter_reads(prompt):
            for _ in self.drafter.prepare(prompt):
                elapsed = perf_counter() - began
                yield Prefill(generation, len(prompt) - 1, len(prompt), reused, elapsed)
        self.decoder.timeline.bookmark()
        yield Prefill(generation, len(prompt), len(prompt), reused, perf_counter() - began)

    def _drafter_reads(self, prompt: list[int]) -> bool:
        """Whether the drafter reads the prompt at once, and not with its first draft."""
        if not isinstance(self.policy, Automatic):
            return True
        candidates = self.drafter.candidates(prompt)
        return self.policy.worth_reading(candidates, context=len(prompt))

    def _rounds(
        self, task: Task, generation: str, clock: Callable[[], float]
    ) -> Generator[Draft | Verdict]:
        """The loop's drafts and verdicts as events."""
        number, last = 1, clock()
        items = speculate(self.decoder, self.drafter, self.policy, self._tokens, task)
        with closing(items):
            for item in items:
                if isinstance(item, RoundDraft):
                    yield Draft(
                        generation,
                        number,
                        tuple(
                            DraftedToken(token, self._token_texts.text_of(token), q, sure)
                            for token, q, sure in zip_longest(item.tokens, item.q, item.confidence)
                        ),
                        item.drafter,
                    )
                    continue
                now = clock()
                yield Verdict(
                    generation,
                    number,
                    item.accepted,
                    tuple(map(TokenVerdict, item.p, item.chance)),
                    self._written(item),
                    item.draft_seconds,
                    item.verify_seconds,
                    now - last,
                    str(item.reason),
                )
                number, last = number + 1, now

    def _written(self, verdict: RoundVerdict) -> WrittenToken | None:
        if verdict.own is None:
            return None
        origin: Origin = "plain"
        if verdict.p:
            origin = "bonus" if verdict.accepted == len(verdict.p) else "correction"
        return WrittenToken(
            verdict.own, self._token_texts.text_of(verdict.own), verdict.own_p, origin
        )
