"""The events of a generation, as plain values with a JSON form.

Everything that shows or records a generation (terminal, window, tests, the host's pipe)
consumes these events and nothing else. They know nothing of MLX. Every event carries the id of
its generation, so that a late event of a cancelled generation is not mistaken for the next one's.

Laws, checked by the tests on every run:
    proposed  = accepted + rejected + discarded
    committed = accepted + corrections + bonuses + plain + forced
    the committed tokens decode to exactly the text, plus what a stop string cut off (`Done.cut`)
    the lengths of a `Text`'s spans sum to its length
    spans come in the order in which their tokens were committed, and none before its `Verdict`;
        by `Done` every committed token has had exactly one
    a span has all the text that its token gave to the answer: 0 for a special token and for a
        token after a stop string; the part before the stop string for the token that it cuts
    the lengths of a `Text`'s stretches sum to its length, if it has any; of all texts together they
        are those of the whole text, read at once
    a character that several tokens share belongs to the token that completed it; U+FFFD, for
        bytes that are not a character, to the token that began it
    only the last `Text` may be empty: its spans are of tokens that gave no text
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from engine.near_ties import Fork
from engine.stretches import Stretch, joined
from engine.tree import Tree
from models.json_lines import Language, named_by_class

Origin = Literal["correction", "bonus", "plain", "forced"]
DoneReason = Literal["stop", "length", "cancelled"]
Cause = Literal["request", "too long", "engine"]
"""Why a generation failed. "request": it can never be done. "too long": the prompt is longer than
the model's context. "engine": an error of the engine."""


@dataclass(frozen=True, slots=True)
class DraftedToken:
    """A drafted token: its id, its text, and `q`, the probability that the drafter gave it.

    `q` is taken after the sampler chain. At temperature 0 the chain leaves only 0 and 1, so `q` is
    the probability at temperature 1, for information. `confidence` is the drafter's own estimate
    of the chance of acceptance; None if the drafter makes none.
    """

    id: int
    text: str
    q: float
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class TokenVerdict:
    """The verdict on one drafted token.

    `p` is the target's probability of the token (as for `DraftedToken.q`). `chance` is how likely
    it was to be accepted, given the tokens drafted before it (and, in block verification, after).
    """

    p: float
    chance: float


@dataclass(frozen=True, slots=True)
class WrittenToken:
    """A token that was not drafted.

    `origin` is "correction" after a rejection, "bonus" after a draft that was accepted whole,
    "plain" without a draft, or "forced" for the only token that is allowed. `p` as for
    `TokenVerdict`.
    """

    id: int
    text: str
    p: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class TopToken:
    """A token among the likeliest at a place: its id, its bytes, its log probability."""

    id: int
    bytes: tuple[int, ...]
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of the answer, and its log probability.

    `logprob` is the target's, after bias, penalties and grammar, before temperature and filters.
    `top`: the likeliest tokens at the same place, as many as the request asks for. `bytes`: of the
    token's text, which may be part of a character.
    """

    id: int
    bytes: tuple[int, ...]
    logprob: float
    top: tuple[TopToken, ...] = ()


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of a run, which `engine.conversation.stats` derives from its events; times in
    seconds.

    `rounds` counts rounds with a pass of the target, so not rounds of forced tokens.
    `plain_seconds` is the time of the `plain` rounds, which have no draft; `plain_round_seconds`
    has the time of each, or of some, spread evenly. `reference_seconds` has the times of plain
    passes measured right after the answer, and not a part of it. `accompanied` counts rounds
    during which other answers had turns.
    """

    prompt_tokens: int = 0
    reused_tokens: int = 0
    prefill_seconds: float = 0.0
    rounds: int = 0
    proposed: int = 0
    accepted: int = 0
    rejected: int = 0
    discarded: int = 0
    corrections: int = 0
    bonuses: int = 0
    plain: int = 0
    forced: int = 0
    plain_seconds: float = 0.0
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    decode_seconds: float = 0.0
    proposed_by_position: tuple[int, ...] = ()
    accepted_by_position: tuple[int, ...] = ()
    plain_round_seconds: tuple[float, ...] = ()
    reference_seconds: tuple[float, ...] = ()
    accompanied: int = 0

    @property
    def committed(self) -> int:
        """Tokens of the answer, the end-of-text token included."""
        return self.accepted + self.corrections + self.bonuses + self.plain + self.forced

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / proposed; None if nothing was proposed."""
        return self.accepted / self.proposed if self.proposed else None

    @property
    def acceptance_length(self) -> float | None:
        """Committed tokens per target pass; None before the first."""
        return self.committed / self.rounds if self.rounds else None

    @property
    def tokens_per_second(self) -> float | None:
        """Committed tokens per second of the whole answer, without prefill; None before the first
        token."""
        return self.committed / self.decode_seconds if self.decode_seconds > 0 else None

    @property
    def own_seconds(self) -> float:
        """The time outside drafting and verifying; 0 if a GPU hid all of it."""
        return max(self.decode_seconds - self.draft_seconds - self.verify_seconds, 0.0)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The generation waits: `ahead` others begin before it."""

    generation: str
    ahead: int


@dataclass(frozen=True, slots=True)
class Prefill:
    """The prompt is being read: `processed` of `total` tokens, `reused` of them from the cache.

    If the conversation was too long for `context` tokens, `left_out` messages are not in the
    prompt, from number `left_out_from` on (counted from 0, with the system prompt).
    """

    generation: str
    processed: int
    total: int
    reused: int
    seconds: float
    left_out_from: int = 0
    left_out: int = 0
    context: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """A place in a chat: the character at `offset` in the content of message number `message`.

    Messages count from 0, and messages left out of the prompt count, too.
    """

    message: int
    offset: int


@dataclass(frozen=True, slots=True)
class Draft:
    """A round's draft, sent before it is verified. Plain rounds have none.

    `parents` is empty for a chain. For a tree it has, for each token, the number of the token that
    it follows, or -1 after the committed tokens; alternatives come in the order in which
    they are tried. Example: (-1, -1, 0) is two alternatives, and a third token after the first.

    `source`: the place that the first token and those after it were copied from; None if they
    were not copied from a message, or if its characters are not known exactly.
    """

    generation: str
    round: int
    tokens: tuple[DraftedToken, ...]
    drafter: str
    parents: tuple[int, ...] = ()
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A round's verdict.

    `accepted` counts the accepted tokens: the first ones of a chain, or the tokens of a tree whose
    numbers are in `path`, in order; `parents` as in `Draft`. `judgements` has one entry per drafted
    token. `next` is the target's own token; None if an accepted token ended the text.
    `draft_seconds` and `verify_seconds` are the round's two passes, `seconds` is the wall time
    since the last verdict; `reason` says in words why the draft had its length.

    A round of `forced` tokens has no draft and no pass. `logprobs` has an entry for each committed
    token, in order, if the request asks for them. `accompanied`: other answers had turns within
    `seconds`. `edge`: a plain pass at the end of a run; as passes overlap, its time is not the time
    of plain decoding.
    """

    generation: str
    round: int
    accepted: int
    judgements: tuple[TokenVerdict, ...]
    next: WrittenToken | None
    draft_seconds: float
    verify_seconds: float
    seconds: float
    reason: str
    forced: tuple[WrittenToken, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    accompanied: bool = False
    parents: tuple[int, ...] = ()
    path: tuple[int, ...] = ()
    edge: bool = False

    @property
    def tree(self) -> Tree:
        """The shape of the draft."""
        return Tree(self.parents) if self.parents else Tree.chain(len(self.judgements))

    @property
    def accepted_path(self) -> tuple[int, ...]:
        """The numbers of the accepted tokens."""
        return self.path or tuple(range(self.accepted))

    @property
    def rejected(self) -> tuple[int, ...]:
        """The numbers of the tokens that were judged and not accepted."""
        return self.tree.rejected(self.accepted_path, ended=self.next is None)


@dataclass(frozen=True, slots=True)
class Span:
    """The `length` code points of a text that one token gave: see the laws above.

    The token is number `index`, from 0, of the tokens that `round` committed: the accepted ones in
    order, then the target's own (correction, bonus or plain); or the forced ones.
    """

    round: int
    index: int
    length: int


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A piece of a tool call: call number `index` of the answer, from 0.

    The first piece has the tool's `name`. The `arguments` of all pieces together are the JSON text
    of an object, unless the answer was cut within it; the last piece has `ended`.
    """

    index: int
    name: str = ""
    arguments: str = ""
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """Final text, with the token that gave each part of it, and the parts that are reasoning.

    The engine always sends `spans`; traces of earlier versions have text without them. A text
    without `stretches` is all content. Only answers to chats have others, read by the target's own
    syntax; the names of special tokens among its marks are in their text, too. `calls` is what its
    stretches of calls say, if the prompt has tools. Only of an answer with a grammar, in which a
    call that begins is one for certain, a call comes before it is whole.
    """

    generation: str
    delta: str
    spans: tuple[Span, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    calls: tuple[CallPiece, ...] = ()

    @property
    def parts(self) -> tuple[Stretch, ...]:
        """The stretches, also if all is content."""
        return self.stretches or (Stretch("content", len(self.delta)),)


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a generation.

    `cut` is decoded text that belongs to a stop string or follows it. `fork`: the first difference
    of the two answers of a race. `remark`: a line for people, of drafters that were switched off;
    mostly empty.
    """

    generation: str
    reason: DoneReason
    stats: Stats
    cut: str = ""
    fork: Fork | None = None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The generation failed: `message` states the problem, `remedy` the way out.

    If the `cause` is "too long": the prompt's `tokens`, and the `context` that is too short.
    """

    generation: str
    message: str
    remedy: str
    cause: Cause = "engine"
    tokens: int = 0
    context: int = 0


def stretches_of(events: Iterable["Event"]) -> tuple[Stretch, ...]:
    """The stretches of an answer's text; empty if all of it is content."""
    texts = (event for event in events if isinstance(event, Text))
    return joined(one for text in texts for one in text.parts)


Event = Waiting | Prefill | Draft | Verdict | Text | Done | Failed

_EVENTS = Language[Event]("event", named_by_class(*get_args(Event)), longest_bytes=1 << 30)


def to_json(event: Event) -> str:
    """An event as one line of JSON: its name as "event", then the dataclass's fields.

    Example: `{"event": "waiting", "generation": "g1", "ahead": 2}`.
    """
    return _EVENTS.to_json(event)


def from_json(line: str) -> Event:
    """Read the JSON of `to_json`. Raises ValueError for anything else."""
    try:
        return _EVENTS.read(line.encode())
    except ValueError as error:
        raise ValueError(f"not an event: {line[:80]!r}") from error
