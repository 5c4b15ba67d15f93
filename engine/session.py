"""A conversation with a pair: prompts in, events out; what was read once is not read again.

Joins the loop (`engine.speculate`), which knows ids, with text and events.
"""

import secrets
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from itertools import takewhile
from time import perf_counter

from engine.accept import by_block
from engine.cache import QuantizedCaches
from engine.calibrate import calibrate
from engine.calibrations import Calibrations, Pair
from engine.decoder import Decoder
from engine.draft_length import Automatic, DraftLength, Fixed
from engine.drafters import Drafter
from engine.drafters.none import NoDrafter
from engine.events import (
    Done,
    Draft,
    DraftedToken,
    Ending,
    Event,
    Judgement,
    Origin,
    Prefill,
    Stats,
    Text,
    Verdict,
    WrittenToken,
)
from engine.loading import LoadedModel
from engine.pair import identify, make_drafter
from engine.request import Message, Request
from engine.speculate import Guess, Rule, Ruling, Task, speculate
from engine.stats import update
from engine.template import render
from engine.text import Spelling, StopStrings, TextStream
from models.errors import Problem

_DEFAULT = Request()


class Session:
    """One conversation. Not for use from two threads. `accept` judges drafts when sampling.

    Attributes: `drafter` and `policy`, which may be changed between answers.
    """

    def __init__(
        self,
        target: LoadedModel,
        *,
        drafter: str = "none",
        policy: DraftLength | None = None,
        quantized: QuantizedCaches | None = None,
        accept: Rule = by_block,
        calibrations: Calibrations | None = None,
    ) -> None:
        self.target = target
        self._accept = accept
        self.decoder = Decoder(target.model, quantized=quantized)
        self.drafter: Drafter = NoDrafter()
        self.policy: DraftLength = policy or Automatic()
        self._calibrations = calibrations
        self._pair: Pair | None = None  # whose policy it is, where it is to be remembered
        self._spelling = Spelling(target.tokenizer)
        self._tokens: list[int] = []  # committed; the models hold a part of it
        self.use_drafter(drafter)

    def use_drafter(self, name: str) -> None:
        """Draft with the drafter called `name` from now on: see `engine.pair`."""
        self.drafter = make_drafter(name, target=self.target, decoder=self.decoder)
        self._drafter_name, self._pair = name, None
        self.policy.restart()

    def calibrate(
        self,
        *,
        progress: Callable[[float], None] = lambda share: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Let an automatic policy know what this pair costs here: from the last time, else by
        measuring it, which takes up to 5 seconds. `progress` is told the share that is done."""
        if not isinstance(self.policy, Automatic) or isinstance(self.drafter, NoDrafter):
            return
        with suppress(Problem):  # nothing is kept of weights that cannot be told apart
            self._pair = identify(self._drafter_name, self.target, self.decoder)
        calibration = acceptance = None
        if self._pair is not None and self._calibrations is not None:
            calibration, acceptance = self._calibrations.read(self._pair)
        if calibration is None:
            calibration = calibrate(
                self.decoder, self.drafter, self._tokens, progress=progress, cancelled=cancelled
            )
        self.policy = Automatic(calibration, acceptance)
        self._remember()

    def _remember(self) -> None:
        """Keep what was seen of the pair."""
        policy, pair, kept = self.policy, self._pair, self._calibrations
        if isinstance(policy, Automatic) and policy.calibration and pair and kept:
            kept.write(pair, policy.calibration, policy.acceptance)

    def encode(self, messages: Sequence[Message]) -> list[int]:
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
        messages: Sequence[Message],
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
        return self._run(list(prompt), task, StopStrings(request.stops), generation, cancelled)

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
        stop: StopStrings,
        generation: str,
        cancelled: Callable[[], bool],
    ) -> Iterator[Event]:
        stats = Stats()
        for prefill in self._prefill(prompt, generation):
            stats = update(stats, prefill)
            yield prefill
            if cancelled():
                yield Done(generation, "cancelled", stats)
                return

        text = TextStream(self.target.tokenizer)
        stopped = False
        ending: Ending = "length"
        with closing(self._rounds(task, generation)) as rounds:
            for event in rounds:
                if isinstance(event, Draft):
                    yield event
                    continue
                stats = update(stats, event)
                yield event
                committed = self._tokens[-(event.accepted + (event.next is not None)) :]
                delta, stopped = stop.push(text.push(committed))
                if delta:
                    yield Text(generation, delta)
                if stopped or committed[-1] in task.ends:
                    ending = "stop"
                    break
                if cancelled():
                    ending = "cancelled"
                    break
        self._remember()
        delta, _ = stop.push(text.finish())
        delta += stop.finish()
        if delta:
            yield Text(generation, delta)
        yield Done(generation, "stop" if stop.stopped else ending, stats, cut=stop.cut)

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
        prospects = self.drafter.prospects(prompt)
        return self.policy.worth_reading(prospects, context=len(prompt))

    def _rounds(self, task: Task, generation: str) -> Generator[Draft | Verdict]:
        """The loop's items as events."""
        number, last = 1, perf_counter()
        items = speculate(self.decoder, self.drafter, self.policy, self._tokens, task)
        with closing(items):
            for item in items:
                if isinstance(item, Guess):
                    yield Draft(
                        generation,
                        number,
                        tuple(
                            DraftedToken(token, self._spelling.spell(token), q)
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
                    tuple(map(Judgement, item.p, item.chance)),
                    self._written(item),
                    item.draft_seconds,
                    item.verify_seconds,
                    now - last,
                    item.reason,
                )
                number, last = number + 1, now

    def _written(self, ruling: Ruling) -> WrittenToken | None:
        if ruling.own is None:
            return None
        origin: Origin = "plain"
        if ruling.p:
            origin = "bonus" if ruling.accepted == len(ruling.p) else "correction"
        return WrittenToken(ruling.own, self._spelling.spell(ruling.own), ruling.own_p, origin)
