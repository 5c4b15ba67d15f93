"""A conversation with a pair: prompts in, events out; what was read once is not read again.

Joins the loop (`engine.speculate`), which knows ids, with text and events.
"""

import secrets
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from itertools import takewhile
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
from engine.pair import identify, make_drafter
from engine.request import ChatMessage, Request
from engine.speculate import RoundDraft, RoundVerdict, Rule, Task, speculate
from engine.stats import update
from engine.template import render
from engine.text import AnswerText, TokenTexts
from models.errors import Problem
from models.installed.resolve import Drafters, resolve_drafters

# What may have to be said of a calibration, and of an answer.
SLOW = (
    "MLX multiplies with the slow reference BLAS here, with which drafting cannot pay: slipstream "
    "doctor says what to do."
)
BUSY = (
    "Other programs keep this machine busy: what drafting costs here is measured again next time."
)
DISTURBED = "Other programs kept this machine busy: nothing is remembered of this answer."

_DEFAULT = Request()


class Session:
    """One conversation. Not for use from two threads. `accept` judges drafts when sampling.

    Attributes: `drafter` and `policy`, which may be changed between answers. `disturbed`: whether
    nothing is remembered of the latest answer, as other programs kept the machine busy.
    """

    def __init__(
        self,
        target: LoadedModel,
        *,
        drafter: str | Drafters = "none",
        policy: DraftLengthPolicy | None = None,
        quantized: QuantizedCaches | None = None,
        accept: Rule = by_block,
        calibrations: CalibrationStore | None = None,
    ) -> None:
        self.target = target
        self._accept = accept
        self.decoder = Decoder(target.model, quantized=quantized)
        self.drafter: Drafter = NoDrafter()
        self.policy: DraftLengthPolicy = policy or Automatic()
        self._calibrations = calibrations
        self._pair: CalibrationKey | None = None  # whose policy it is, where it is to be remembered
        self._measured: Calibration | None = None  # what is to be remembered of its costs
        self.disturbed = False
        self._token_texts = TokenTexts(target.tokenizer)
        self._tokens: list[int] = []  # committed; the models hold a part of it
        self.use_drafter(drafter)

    def use_drafter(self, drafter: str | Drafters) -> None:
        """Draft with this one from now on, which is found first where only its name is given: see
        `engine.pair`."""
        if isinstance(drafter, str):
            drafter = resolve_drafters(drafter, self.target.folder)
        self.drafter = make_drafter(drafter, target=self.target, decoder=self.decoder)
        self._drafters, self._pair = drafter, None
        self.policy.restart()

    def calibrate(
        self,
        *,
        progress: Callable[[float], None] = lambda share: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> str:
        """Let an automatic policy know what this pair costs here: from the last time, else by
        measuring it, which takes up to 5 seconds. `progress` is told the share that is done.

        Returns what a person should know of that, in a line; mostly nothing.
        """
        if not isinstance(self.policy, Automatic) or isinstance(self.drafter, NoDrafter):
            return ""
        remarks = []
        with suppress(Problem):  # nothing is kept of weights that cannot be told apart
            self._pair = identify(self._drafters, self.target, self.decoder)
        calibration = acceptance = None
        if self._pair is not None and self._calibrations is not None:
            calibration, acceptance = self._calibrations.read(self._pair)
        self._measured = calibration
        if calibration is None:
            contention = Contention()
            calibration = calibrate(
                self.decoder, self.drafter, self._tokens, progress=progress, cancelled=cancelled
            )
            if choose_blas().slow and mx.default_device() == mx.cpu:
                remarks.append(SLOW)
            if contention.heavy:
                remarks.append(BUSY)
            else:
                self._measured = calibration
        self.policy = Automatic(calibration, acceptance)
        self._remember()
        return " ".join(remarks)

    def _remember(self) -> None:
        """Keep what was seen of the pair; not its costs, where they are not what they were."""
        policy, pair, kept = self.policy, self._pair, self._calibrations
        if isinstance(policy, Automatic) and self._measured and pair and kept:
            outdated = policy.costs.outdated
            kept.write(pair, None if outdated else self._measured, policy.acceptance)

    def encode(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The prompt for the next answer, in tokens, by the model's own chat template.

        Where the last message is the assistant's own, the answer goes on from its end.
        """
        tokenizer = self.target.tokenizer
        if any("\ud800" <= letter <= "\udfff" for m in messages for letter in m.content):
            raise Problem("The text is not UTF-8.", "Convert it to UTF-8.")
        if tokenizer.has_chat_template:
            text = render(tokenizer, messages)
        else:
            text = "\n\n".join(message.content for message in messages)
        tokens: list[int] = tokenizer.encode(
            text,
            add_special_tokens=False,
            verbose=False,  # a long prompt is told of by us
        )
        return tokens

    def answer(
        self,
        messages: Sequence[ChatMessage],
        request: Request = _DEFAULT,
        *,
        generation: str = "",
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[Event]:
        """Answer a chat. Raises `Problem` before the first event, or not at all."""
        if not messages or not messages[-1].content.strip():
            raise Problem("The prompt is empty.", "Write something to answer.")
        return self.complete(
            self.encode(messages), request, generation=generation, cancelled=cancelled
        )

    def complete(
        self,
        prompt: Sequence[int],
        request: Request = _DEFAULT,
        *,
        generation: str = "",
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[Event]:
        """Continue `prompt`, token ids. `cancelled` is asked at least once a round.

        Raises `Problem` before the first event, or not at all. May be closed early: the session
        is then as if it had been cancelled there.
        """
        context = self.target.context_length
        if not prompt:
            raise Problem("The prompt is empty.", "Write something to answer.")
        if len(prompt) >= context:
            raise Problem(
                f"The prompt has {len(prompt)} tokens, and the model can look at {context}.",
                "Shorten it, or start a new conversation.",
            )
        task = Task(
            sampling=request.sampling,
            seed=secrets.randbits(32) if request.sampling.seed is None else request.sampling.seed,
            max_tokens=min(request.max_tokens, context - len(prompt)),
            ends=self.target.ends,
            accept=self._accept,
        )
        text = AnswerText(self.target.tokenizer, request.stops)
        return self._run(list(prompt), task, text, generation, cancelled)

    def plain_seconds(self, request: Request = _DEFAULT, *, rounds: int) -> float | None:
        """What a token takes without drafts, here and now: measured behind the last answer, which
        stays the last. None where there is none, or no room for `rounds` more tokens."""
        tokens, length = list(self._tokens), self.decoder.length
        if not tokens or len(tokens) + rounds > self.target.context_length:
            return None
        task = Task(request.sampling, seed=0, max_tokens=rounds, ends=frozenset())
        self.decoder.timeline.bookmark()
        began = perf_counter()
        with closing(speculate(self.decoder, NoDrafter(), Fixed(0), tokens, task)) as written:
            for _ in written:
                pass
        seconds = perf_counter() - began
        self.decoder.rewind(length)
        return seconds / rounds

    def _run(
        self,
        prompt: list[int],
        task: Task,
        text: AnswerText,
        generation: str,
        cancelled: Callable[[], bool],
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
        with closing(self._rounds(task, generation)) as rounds:
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
        self.disturbed = self._measured is not None and contention.heavy
        if not self.disturbed:
            self._remember()
        delta, lengths = text.finish()
        if lengths:
            yield written(delta, lengths)
        yield Done(generation, "stop" if text.stopped else ending, stats, cut=text.cut)

    def _prefill(self, prompt: list[int], generation: str) -> Iterator[Prefill]:
        """Read all but the last token of the prompt, as far as it is not read yet."""
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
        """Whether it reads the prompt at once, and not when it is first asked, if ever."""
        if not isinstance(self.policy, Automatic):
            return True
        candidates = self.drafter.candidates(prompt)
        return self.policy.worth_reading(candidates, context=len(prompt))

    def _rounds(self, task: Task, generation: str) -> Generator[Draft | Verdict]:
        """The loop's items as events."""
        number, last = 1, perf_counter()
        items = speculate(self.decoder, self.drafter, self.policy, self._tokens, task)
        with closing(items):
            for item in items:
                if isinstance(item, RoundDraft):
                    yield Draft(
                        generation,
                        number,
                        tuple(
                            DraftedToken(token, self._token_texts.text_of(token), q)
                            for token, q in zip(item.tokens, item.q, strict=True)
                        ),
                        item.drafter,
                    )
                    continue
                now = perf_counter()
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
