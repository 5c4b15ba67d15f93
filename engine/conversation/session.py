"""A conversation with a pair: prompts in, events out. The beginning that two prompts share is read
once.

Joins the loop (`engine.core.loop`), which knows token ids, with text and events.
"""

import secrets
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from time import perf_counter

from engine.conversation.answer_events import AnswerEvents
from engine.conversation.eyes import Eyes, refuse_unseen, without_earlier
from engine.conversation.gaps import knows, with_gap
from engine.conversation.kept_blocks import KeptBlocks
from engine.conversation.kept_prefixes import KeptPrefix, KeptPrefixes, Unkept
from engine.conversation.loading import LoadedModel
from engine.conversation.overflow import fit, without
from engine.conversation.pair import make_drafter
from engine.conversation.pair_costs import PairCosts, Remark, plain_passes
from engine.conversation.proof import Stalls
from engine.conversation.sources import Sources
from engine.conversation.stats import ENOUGH_PLAIN_ROUNDS, update
from engine.conversation.template import (
    abilities_for,
    encode_prompt,
    reply_syntax,
    with_thinking,
)
from engine.conversation.text import AnswerText, TokenTexts, ending_of, text_of
from engine.conversation.thought import Thought, with_thought
from engine.core.batch import can_share
from engine.core.cache import QuantizedCaches
from engine.core.decoder import Decoder
from engine.core.grammar import Constraint, Grammars
from engine.core.loop import alone, candidates_for, draft_and_verify, show_verdicts_during_next_pass
from engine.core.rounds import Company, Pass, RoundDraft, RoundVerdict, Task
from engine.draft_length import DraftLengthPolicy
from engine.draft_length.calibrations import CalibrationStore
from engine.draft_length.policy import Automatic, FixedTree
from engine.drafters import Drafter, NoDrafter
from engine.drafters.cascade import Cascade
from engine.drafters.copying import PredictionDrafter
from engine.earlier_answers import LEAD, EarlierAnswers
from engine.events import Done, DoneReason, Event, Prefill, Stats
from engine.near_ties import alike
from engine.replies.grammars import grammar_of_prose, grammar_of_reply
from engine.replies.reading import ReplyReader
from engine.replies.syntax import ReplySyntax
from engine.replies.tools import Tool, tools_of
from engine.request import CallRules, ChatMessage, Prompt, Request, Thinking, TooLong, chat
from engine.virtual_ids import pictures_in, text_begins
from models.errors import Problem
from models.installed.resolve import Drafters, resolve_drafters

_DEFAULT = Request()
_DROPPED = "{} computed NaN or infinity and was switched off. Choose another drafter."


def never() -> bool:
    """Return False."""
    return False


@dataclass(frozen=True, slots=True)
class Control:
    """The questions that an answer asks while it is written.

    `cancelled` and `hurried` are asked at least once a round: whether it ends, and whether
    reasoning that is under way ends. `compare`: whether plain passes are measured after its last
    text, if the answer has too few plain rounds to tell its speed-up; asked as long as they take.
    `clock` gives the seconds of the rounds; it may rest while the answer does.
    """

    cancelled: Callable[[], bool] = never
    hurried: Callable[[], bool] = never
    compare: Callable[[], bool] = never
    clock: Callable[[], float] = perf_counter


_UNDISTURBED = Control()


@dataclass(frozen=True, slots=True)
class _Shared:
    """The objects that conversations with the same target have in common."""

    target: LoadedModel
    calibrations: CalibrationStore | None
    token_texts: TokenTexts
    grammars: Grammars
    earlier: EarlierAnswers | None
    prefixes: KeptPrefixes | None
    eyes: Eyes | None


class Session:
    """One conversation, used by one thread.

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
        calibrations: CalibrationStore | None = None,
        earlier: Path | None = None,
        kept: KeptBlocks | None = None,
    ) -> None:
        """`earlier`: the folder of earlier answers, which are drafted from; new ones are added.
        `kept`: where the caches of prompts' beginnings are kept, if a request asks for it."""
        trial = cache(partial(can_share, target.model))  # one for all sessions with this model
        eyes = None
        if target.tower is not None and target.alone:
            eyes = Eyes(target.tower)
        decoder = target.decoder(target.model, quantized=quantized, trial=trial)
        decoder.sights = None if eyes is None else eyes.sights
        decoder.promise = target.promise
        tokenizer, size = target.tokenizer, decoder.vocabulary
        shared = _Shared(
            target=target,
            calibrations=calibrations,
            token_texts=TokenTexts(tokenizer),
            grammars=Grammars(tokenizer, vocabulary=size, ends=target.ends),
            earlier=None
            if earlier is None
            else EarlierAnswers(earlier, tokenizer.get_vocab(), size=size),
            prefixes=None if kept is None else KeptPrefixes(kept, target, decoder),
            eyes=eyes,
        )
        nothing = PairCosts(None, target, Drafters("none", ()))
        self._set_up(shared, decoder, NoDrafter(), policy or Automatic(), nothing)
        self.use_drafter(drafter)

    def _set_up(
        self,
        shared: _Shared,
        decoder: Decoder,
        drafter: Drafter,
        policy: DraftLengthPolicy,
        costs: PairCosts,
        *,
        tokens: Sequence[int] = (),
    ) -> None:
        """Set all that a conversation consists of. `decoder` has read `tokens`."""
        self._shared, self.target = shared, shared.target
        self.decoder, self.drafter, self.policy, self._costs = decoder, drafter, policy, costs
        self.disturbed = False
        self._announced = frozenset[str]()  # the drafters that are known to be switched off
        self._stalls = Stalls(self.target)
        self._kept: KeptPrefix | None = None  # of the latest prompt
        self._tokens = list(tokens)  # committed; the models have read a prefix of them

    @property
    def sees(self) -> bool:
        """Whether prompts can have pictures."""
        return self._shared.eyes is not None

    @property
    def drafters(self) -> Drafters:
        """The drafters in use, as they were named and found."""
        return self._costs.drafters

    @property
    def tokens(self) -> tuple[int, ...]:
        """The ids of all committed tokens: prompt and answer."""
        return tuple(self._tokens)

    def use_drafter(self, drafter: str | Drafters) -> None:
        """Draft with this drafter from now on; a name is looked up first: see
        `engine.conversation.pair`."""
        if isinstance(drafter, str):
            drafter = resolve_drafters(drafter, self.target.folder)
        self.drafter = make_drafter(
            drafter, target=self.target, decoder=self.decoder, earlier=self._shared.earlier
        )
        self._costs = PairCosts(self._shared.calibrations, self.target, drafter)
        self.policy.restart()

    def calibrate(
        self,
        *,
        progress: Callable[[float], None] = lambda share: None,
        cancelled: Callable[[], bool] = never,
        again: bool = False,
    ) -> list[Remark]:
        """Give an automatic policy the costs of this pair: the stored ones, or new measurements,
        which take up to 5 seconds. `progress` gets the share that is done; `again` measures even if
        costs are stored. For another policy, find out whether the target can read its trees.

        Returns remarks that the user should read; mostly none.
        """
        if isinstance(self.drafter, NoDrafter):
            return []
        trees = isinstance(self.policy, Automatic | FixedTree)
        in_vain = trees and not self.decoder.branches  # tried now, not while a draft is timed
        if not isinstance(self.policy, Automatic):
            return [Remark.ONLY_CHAINS] if in_vain else []
        self.policy, remarks = self._costs.calibrate(
            self.decoder,
            self.drafter,
            self._tokens,
            progress=progress,
            cancelled=cancelled,
            again=again,
        )
        return remarks

    def another(self) -> "Session":
        """Return a session for another conversation. It shares the weights, and begins with the
        measured costs of the pair."""
        return self._beside(self.decoder.another())

    def copy(self) -> "Session":
        """As `another`, with a copy of what this one has read."""
        decoder, _recorded = self.decoder.copy()
        return self._beside(decoder)

    def _beside(self, decoder: Decoder) -> "Session":
        other = Session.__new__(Session)
        other._set_up(
            self._shared,
            decoder,
            self.drafter.fork(decoder),
            self.policy.another(),
            self._costs,
            tokens=self._tokens[: decoder.length],
        )
        other.drafter.dropped |= self.drafter.dropped
        return other

    def plain(self) -> "Session":
        """A session for another conversation, without drafts, to race with. This one forgets what
        it has read in other blocks than that one will."""
        self.decoder.rewind(self.decoder.as_afresh(self.length))
        return Session(self.target, quantized=self.decoder.timeline.quantized)

    @property
    def length(self) -> int:
        """The number of tokens that it has read."""
        return self.decoder.length

    def shared(self, prompt: Sequence[int]) -> int:
        """The number of tokens that `prompt` begins with and that have been read."""
        return min(alike(self._tokens, prompt), self.length)

    def encode(self, prompt: Prompt, *, thinking: Thinking = "") -> list[int]:
        """The tokens of a prompt. A chat is written by the model's own chat template.

        If the last message is the assistant's, the answer continues it.
        """
        tokenizer, eyes = self.target.tokenizer, self._shared.eyes
        prompt = with_thinking(tokenizer, prompt, thinking)
        prompt = prompt if eyes else without_earlier(prompt)
        refuse_unseen(prompt, eyes, self.target.folder)
        if eyes is None or not any(message.pictures for message in prompt.messages):
            return encode_prompt(tokenizer, prompt)
        return eyes.see(prompt, encode_prompt(tokenizer, prompt, eyes.shown(prompt)))

    def answer(
        self,
        messages: Sequence[ChatMessage],
        request: Request = _DEFAULT,
        *,
        tools: str = "",
        generation: str = "",
        cancelled: Callable[[], bool] = never,
        hurried: Callable[[], bool] = never,
        compare: Callable[[], bool] = never,
    ) -> Iterator[Event]:
        """Answer a chat, with `tools` as in `Prompt`, and no other answers meanwhile: see
        `Control`."""
        prompt = replace(chat(messages), tools=tools)
        answer = self.prepare(prompt, request, generation=generation)
        control = Control(cancelled, hurried, compare)
        return alone(self.decoder, self.begin(answer, control))

    def complete(
        self,
        prompt: Sequence[int],
        request: Request = _DEFAULT,
        *,
        generation: str = "",
        cancelled: Callable[[], bool] = never,
    ) -> Iterator[Event]:
        """Continue `prompt`, token ids, with no other answers meanwhile."""
        answer = self.prepare(Prompt(tokens=tuple(prompt)), request, generation=generation)
        return alone(self.decoder, self.begin(answer, Control(cancelled)))

    def prepare(self, prompt: Prompt, request: Request, *, generation: str = "") -> "Answer":
        """Make a prompt and a request ready to be begun. Raises `Problem` if they cannot be."""
        _refuse_unanswerable(prompt.messages)
        tokenizer, eyes = self.target.tokenizer, self._shared.eyes
        prompt, request = with_gap(prompt, request, knows(tokenizer))
        prompt = with_thinking(tokenizer, prompt, request.thinking)
        prompt = prompt if eyes else without_earlier(prompt)
        encode_text = partial(tokenizer.encode, add_special_tokens=False, verbose=False)
        tokens, gap = fit(
            prompt,
            overflow=request.overflow,
            limit=request.room(self.target.context_length),
            encode=self.encode,
            encode_text=encode_text,
            rows=lambda message: eyes.rows(message.pictures) if eyes else 0,
        )
        read = without(prompt, gap)
        sources = Sources(
            tokenizer,
            read,
            eyes.blind(tokens) if eyes else tokens,
            left_out=gap,
            shown=eyes.shown(read) if eyes else None,
        )
        context = self.target.context_length
        if not tokens:
            raise Problem("The prompt is empty.", "Write something to answer.")
        if len(tokens) >= context:
            raise TooLong(len(tokens), context, tools=len(encode_text(prompt.tools)))
        constraint = self._constraint(read, request, tokens)
        tools = tools_of(prompt.tools) if request.may_call else ()
        reader = self._reader(read, tokens, tools, certain=constraint is not None)
        text = AnswerText(
            tokenizer,
            request.stops,
            special=request.special or (reader is not None and reader.special),
            ends=self.target.ends,
            reader=reader,
        )
        keeps = (request.keep_as or request.keep_instructions) and not request.private
        return Answer(
            generation,
            tokens,
            gap,
            sources,
            self._task(prompt, request, tokens, constraint),
            text,
            prediction=encode_text(request.prediction) if request.prediction else [],
            keep_as=frozenset(request.keep_as) if keeps else None,
            learned=not request.private,
            recurring=partial(self._recurring, read, tokens, about=bool(request.keep_as)),
        )

    def _task(
        self,
        prompt: Prompt,
        request: Request,
        tokens: list[int],
        constraint: Constraint | None,
    ) -> Task:
        """The task of the loop: to answer a prompt of these tokens under this grammar."""
        sampling = request.sampling or self.target.sampling
        task = Task(
            sampling=sampling,
            seed=secrets.randbits(32) if sampling.seed is None else sampling.seed,
            max_tokens=min(request.max_tokens, self.target.context_length - len(tokens)),
            ends=self.target.ends,
            logprobs=request.logprobs,
        )
        rules = task.constraint if constraint is None else constraint
        tokenizer, texts = self.target.tokenizer, self._shared.token_texts
        return replace(
            task, constraint=with_thought(rules, tokenizer, texts, prompt, request, tokens)
        )

    def _recurring(self, prompt: Prompt, tokens: list[int], *, about: bool) -> int:
        """The number of tokens at the beginning of a prompt that another question will have, too:
        `about` the same documents, or after the same instructions, which a mere text has not."""
        if not prompt.messages:
            return len(tokens) if about else 0
        try:
            return alike(tokens, self.encode(another_question(prompt)))
        except Problem:  # a template may refuse a chat that is not the user's
            return 0

    def _syntax(self, prompt: Prompt, *, for_grammar: bool = False) -> ReplySyntax:
        """The notation of a reply to a prompt."""
        able = abilities_for(self.target.tokenizer, tools=True)
        return reply_syntax(
            self.target.tokenizer,
            knows_tools=not tools_of(prompt.tools) or able.knows_tools,
            found=able.notation if able.knows_tools else None,
            for_grammar=for_grammar,
        )

    def _constraint(
        self, prompt: Prompt, request: Request, tokens: Sequence[int]
    ) -> Constraint | None:
        """Return the grammar that a reply must follow; None without one. Where the request asks for
        none, it holds the reply to the schemas of strict tools as far as possible, or to prose if
        it may call none."""
        constrain, form = self._shared.grammars.constrain, request.grammar
        asked = request.calls != CallRules()
        if not prompt.messages or (form and not asked):
            return None if form is None else constrain(form)
        goes_on = prompt.messages[-1].role == "assistant" and not asked
        if goes_on or not (prompt.tools or form):
            return None
        ending = ending_of(self.target.tokenizer, tokens)
        syntax = self._syntax(prompt, for_grammar=True)
        if asked or request.may_call:
            tools = prompt.tools if request.may_call else ""
            found = grammar_of_reply(syntax, tools, request.calls, prompt_ending=ending, form=form)
        else:
            found = grammar_of_prose(syntax, prompt_ending=ending)
        try:
            return None if found is None else constrain(found)
        except Problem:
            if asked:
                raise
            return None

    def _reader(
        self, prompt: Prompt, tokens: Sequence[int], tools: Sequence[Tool], *, certain: bool
    ) -> ReplyReader | None:
        """What reads the reply to a chat, and calls of these tools in it; None if all of it is
        content. A reply that is continued is read from its beginning, which is in the prompt."""
        tokenizer, messages = self.target.tokenizer, prompt.messages
        if not messages:
            return None
        syntax = self._syntax(prompt)
        if not (syntax.reasons or tools):
            return None
        begun = list(tokens)
        if len(messages) > 1 and messages[-1].role == "assistant":
            shorter = self.encode(replace(prompt, messages=messages[:-1]))
            begun = shorter if begun[: len(shorter)] == shorter else begun
        return ReplyReader(
            syntax,
            tools=tools,
            certain=certain,
            prompt_ending=ending_of(tokenizer, begun),
            written=text_of(tokenizer, tokens[len(begun) :]),
        )

    def begin(
        self,
        answer: "Answer",
        control: Control = _UNDISTURBED,
        *,
        company: Company | None = None,
    ) -> Generator[Event | Pass]:
        """The events of an answer, and the passes that it asks for: see `engine.core.loop`.

        `company`: the other answers that are written meanwhile. May be closed early, which is the
        same as cancelling.
        """
        task = replace(answer.task, company=company or Company(), clock=control.clock)
        with self.decoder.busy():
            done = yield from self._write(replace(answer, task=task), control)
        yield done

    def plain_passes(
        self,
        request: Request = _DEFAULT,
        *,
        passes: int = ENOUGH_PLAIN_ROUNDS,
        going_on: Callable[[], bool] = lambda: True,
    ) -> tuple[float, ...]:
        """The seconds of plain passes, measured after the last answer, which stays as it is.

        Empty without an answer or room for the tokens, and if `going_on` returns False.
        """
        if not self._tokens or len(self._tokens) + passes + 2 > self.target.context_length:
            return ()
        sampling = request.sampling or self.target.sampling
        return plain_passes(self.decoder, self._tokens, sampling, passes=passes, going_on=going_on)

    def _write(self, answer: "Answer", control: Control) -> Generator[Event | Pass, None, Done]:
        """The events of an answer and its passes; returns the last event."""
        generation, task = answer.generation, answer.task
        earlier = self._shared.earlier if answer.learned else None
        stats, contention, self.disturbed = Stats(), self._costs.watch(), False
        if earlier is not None:
            earlier.refresh()
        for prefill in self._prefill(answer):
            stats = update(stats, prefill)
            yield prefill
            if control.cancelled():
                return Done(generation, "cancelled", stats)

        drafter = self.drafter
        if answer.prediction:
            prediction = PredictionDrafter(answer.prediction, start=len(answer.tokens))
            drafter = Cascade(prediction, drafter)
        writer = AnswerEvents(generation, self._shared.token_texts, answer.text, answer.sources.of)
        ending, stats = yield from self._rounds(answer, drafter, writer, control, stats)
        self.decoder.free_pool(len(self._tokens))
        yield from writer.finish(cut=ending != "stop")
        if earlier is not None and ending != "cancelled" and not control.cancelled():
            # Before `Done`: a chat that is deleted after it is forgotten here, too.
            lead = text_begins(answer.tokens, max(len(answer.tokens) - LEAD, 0))
            earlier.learn(self._tokens[lead:])
        self.disturbed = self._costs.learn(
            self.policy, contention, accompanied=task.company.in_turns
        )
        few = stats.proposed and stats.plain < ENOUGH_PLAIN_ROUNDS
        if few and ending != "cancelled" and control.compare() and not control.cancelled():
            reference = self.plain_passes(
                Request(sampling=task.sampling),
                going_on=lambda: control.compare() and not control.cancelled(),
            )
            stats = replace(stats, reference_seconds=reference)
        ending = "stop" if answer.text.stopped else ending
        self.drafter.dropped |= drafter.dropped
        dropped, self._announced = drafter.dropped - self._announced, drafter.dropped
        remark = _DROPPED.format(" and ".join(sorted(dropped))) if dropped else ""
        return Done(generation, ending, stats, cut=answer.text.cut, remark=remark)

    def _rounds(
        self,
        answer: "Answer",
        drafter: Drafter,
        writer: AnswerEvents,
        control: Control,
        stats: Stats,
    ) -> Generator[Event | Pass, None, tuple[DoneReason, Stats]]:
        """The events of an answer's rounds, and their passes. Returns why the answer ended, and
        `stats` with these events counted."""
        task = answer.task
        last = task.clock()
        loop = draft_and_verify(self.decoder, drafter, self.policy, self._tokens, task)
        if self.decoder.device.beside_host:
            loop = show_verdicts_during_next_pass(loop, task.company)
        with closing(loop) as items:
            for item in items:
                if isinstance(item, Pass):
                    yield item
                    continue
                now = task.clock()
                for event in writer.push(item, now - last, accompanied=task.company.in_turns):
                    stats = update(stats, event)
                    yield event
                if isinstance(item, RoundDraft):
                    continue
                last = now
                if isinstance(item, RoundVerdict):
                    self._stalls.push(len(item.p), item.verify_seconds)
                if isinstance(task.constraint, Thought) and control.hurried():
                    task.constraint.end()
                if answer.text.stopped or item.committed[-1] in task.ends:
                    return "stop", stats
                if control.cancelled():
                    return "cancelled", stats
        return "length", stats

    def keep(self) -> bool:
        """Write some of the latest prompt to disk, if its request asked for it and there is time: a
        part of a second's work. Returns whether there may be more to write."""
        return self._kept is not None and self._kept.write()

    @property
    def unkept(self) -> Unkept | None:
        """Why `keep` has kept nothing of the latest prompt, though its request asked for it."""
        return None if self._kept is None else self._kept.unkept

    def _prefill(self, answer: "Answer") -> Iterator[Prefill]:
        """Read all but the last token of the prompt: after the tokens that it shares with the
        text so far, or after its kept prefix, if that is longer."""
        began, prompt, gap = perf_counter(), answer.tokens, answer.left_out
        held = min(self.shared(prompt), len(prompt) - 1)
        before, self._kept, prefixes = self._kept, None, self._shared.prefixes
        if prefixes is not None and answer.keep_as is not None:
            if before is None or not before.goes_on(answer.keep_as, held):
                wanted = answer.keep_as, answer.recurring
                before = KeptPrefix(prefixes, self.decoder, prompt, *wanted)
            self._kept, held = before, before.start(held)
        self._tokens = list(prompt)
        self.decoder.rewind(held)
        self.drafter.rewind(held)
        self.drafter.leave_out(partial(pictures_in, prompt))

        first = Prefill(
            answer.generation,
            processed=self.decoder.length,
            total=len(prompt),
            reused=self.decoder.length,
            seconds=0.0,
            left_out_from=gap.start,
            left_out=len(gap),
            context=self.target.context_length if gap else 0,
        )
        reused = first.reused

        def read(processed: int) -> Prefill:
            seconds = perf_counter() - began
            return replace(first, processed=processed, reused=reused, seconds=seconds)

        yield first
        if self._kept is not None:
            for reused in self._kept.read(first.reused):
                yield read(reused)
            reused = self.decoder.length
            if reused < self._kept.stop:
                for length in self.decoder.prefill(prompt[: self._kept.stop + 1]):
                    yield read(length)
                self.decoder.bookmark()
        for length in self.decoder.prefill(prompt):
            yield read(length)
        if self._drafter_reads(prompt):
            for _ in self.drafter.prepare(prompt):
                yield read(len(prompt) - 1)
        self.decoder.bookmark()
        yield read(len(prompt))

    def _drafter_reads(self, prompt: list[int]) -> bool:
        """Whether the drafter reads the prompt at once, and not with its first draft."""
        if not isinstance(self.policy, Automatic):
            return True
        candidates = candidates_for(self.decoder, self.drafter, prompt)
        return self.policy.worth_reading(candidates, context=len(prompt))


def _refuse_unanswerable(messages: Sequence[ChatMessage]) -> None:
    if messages and messages[-1].tool_calls and not _says_something(messages[-1]):
        raise Problem(
            "The last message calls tools, and their results are missing.",
            "Send the result of each call, or the user's next message.",
        )
    if messages and not any(map(_says_something, messages)):
        raise Problem("The prompt is empty.", "Write something to answer.")


def _says_something(message: ChatMessage) -> bool:
    said = (message.content + message.reasoning + message.written).strip()
    return bool(said or message.tool_call_id or message.pictures)


def another_question(prompt: Prompt) -> Prompt:
    """A chat that asks something else: about the same documents or, without documents, after the
    same instructions."""
    messages, another = prompt.messages, "?"
    about = [number for number, message in enumerate(messages) if message.attached]
    if about:
        message = messages[about[-1]]
        asked = replace(message, content=message.content[: message.attached] + another)
        return replace(prompt, messages=(*messages[: about[-1]], asked))
    system = [message for message in messages if message.role == "system"]
    return replace(prompt, messages=(*system, ChatMessage("user", another)))


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that can be begun.

    Attributes: `tokens`, the prompt; `left_out`, the numbers of the messages that it is without;
    `sources` finds the message of a token; `task` and `text`, for the loop and for its text;
    `prediction`, tokens to draft from; `keep_as`, the digests of the documents under which the
    prompt's caches may be kept on disk, None if they may not be; `learned`, whether later
    answers may be drafted from it; `recurring` counts the tokens at the beginning of the prompt
    that another question will have, too.
    """

    generation: str
    tokens: list[int]
    left_out: range
    sources: Sources
    task: Task
    text: AnswerText
    prediction: list[int]
    keep_as: frozenset[str] | None = None
    learned: bool = True
    recurring: Callable[[], int] = int

    @property
    def most_tokens(self) -> int:
        """The greatest length of prompt and answer together."""
        return len(self.tokens) + self.task.max_tokens
