"""What happens during a generation, as plain values with a JSON form.

Everything that shows or records a generation (terminal, window, tests, the host's pipe)
consumes these and nothing else. They know nothing of MLX. Every event carries the id of its
generation, so that a late event of a cancelled one is not taken for one of the next.

Laws, checked by the tests on every run:
    proposed  = accepted + rejected + discarded
    committed = accepted + corrections + bonuses + plain + forced
    the committed tokens decode to exactly the text, plus what a stop string cut off (`Done.cut`)
    the lengths of a `Text`'s spans sum to its length
    spans come in the order in which their tokens were committed, and none before its `Verdict`;
        by `Done` every committed token has had exactly one
    a span has all the text that its token gave to the answer: 0 for a special token, and for one
        behind a stop string; what is before the stop string for the token that it cuts
    a character that several tokens share belongs to the one that completed it; U+FFFD, for bytes
        that are no character, to the one that began it
    only the last `Text` may be empty: its spans are of tokens that gave nothing
"""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Literal, get_args

from engine.near_ties import Fork
from engine.tree import Tree
from models.typed_json import decode

Origin = Literal["correction", "bonus", "plain", "forced"]
DoneReason = Literal["stop", "length", "cancelled"]
Cause = Literal["request", "too long", "engine"]
"""Why a generation failed: the request cannot be done, whenever it is asked; its prompt is longer
than the model's context; something went wrong here."""


@dataclass(frozen=True, slots=True)
class DraftedToken:
    """A drafted token: its id, its text, and `q`, the probability that the drafter gave it.

    `q` is taken after the sampler chain. At temperature 0, where the chain leaves nothing but 0 and
    1, it is the probability at temperature 1, for information. `confidence` is the drafter's own
    estimate of the chance that it is accepted; None where it has none.
    """

    id: int
    text: str
    q: float
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class TokenVerdict:
    """The verdict on one drafted token.

    `p` is the target's probability of it (as for `DraftedToken.q`); `chance` is how likely it was
    to be accepted, given the tokens drafted before it (and, in block verification, after it).
    """

    p: float
    chance: float


@dataclass(frozen=True, slots=True)
class WrittenToken:
    """A token that was not drafted.

    `origin`: the target wrote it at the end of a round, as a "correction" after a rejection, a
    "bonus" after a clean sweep, or "plain" where nothing was drafted; or it is "forced", the only
    one that a grammar allows. `p` as for `TokenVerdict`.
    """

    id: int
    text: str
    p: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class TopToken:
    """A token that could have been in a place: its id, its bytes, its log probability."""

    id: int
    bytes: tuple[int, ...]
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of the answer, or of the prompt, and its log probability.

    This is the target's after bias, penalties and grammar, before temperature and filters. `top`:
    the likeliest tokens in its place, as many as were asked for. `bytes`: of its text, which may be
    a part of a character. The prompt's first token has no `logprob`.
    """

    id: int
    bytes: tuple[int, ...]
    logprob: float | None
    top: tuple[TopToken, ...] = ()


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of a run, which `engine.stats` derives from its events; times in seconds.

    `rounds` are those with a pass of the target: a round of forced tokens is none.
    `plain_seconds` went into the `plain` rounds, those without a draft; `plain_round_seconds` has
    what each of them took, or some of them, spread evenly. `reference_seconds` are those of plain
    passes that were measured right behind the answer and are no part of it. `accompanied`: rounds
    in whose time other answers had their turns.
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
        """Accepted / proposed; None where nothing was proposed."""
        return self.accepted / self.proposed if self.proposed else None

    @property
    def acceptance_length(self) -> float | None:
        """Committed tokens per target pass; None before the first."""
        return self.committed / self.rounds if self.rounds else None

    @property
    def tokens_per_second(self) -> float | None:
        """Cumulative over the whole answer, prefill not counted; None before the first token."""
        return self.committed / self.decode_seconds if self.decode_seconds > 0 else None

    @property
    def own_seconds(self) -> float:
        """The time that went neither into drafting nor into verifying."""
        return self.decode_seconds - self.draft_seconds - self.verify_seconds


@dataclass(frozen=True, slots=True)
class Waiting:
    """The generation waits: `ahead` others are to begin before it."""

    generation: str
    ahead: int


@dataclass(frozen=True, slots=True)
class Prefill:
    """The prompt is being read: `processed` of `total` tokens, `reused` of them from the cache.

    The first one has the prompt's `ending`, its last characters, names of special tokens among
    them. Of a conversation that is too long, `left_out` messages from number `left_out_from` on
    (from 0, the system prompt included) are not in the prompt, so that it fits into `context`
    tokens.
    """

    generation: str
    processed: int
    total: int
    reused: int
    seconds: float
    left_out_from: int = 0
    left_out: int = 0
    context: int = 0
    ending: str = ""


@dataclass(frozen=True, slots=True)
class PromptLogprobs:
    """The log probabilities of the prompt's tokens, where they were asked for."""

    generation: str
    tokens: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A place in a chat: the character at `offset` in the content of message number `message`, from
    0, those that were left out of the prompt included."""

    message: int
    offset: int


@dataclass(frozen=True, slots=True)
class Draft:
    """A round's draft, sent before it is verified. Plain rounds have none.

    Of a tree, `parents` has for each token the number of the one that it stands behind, and -1
    where that is committed; alternatives come in the order in which they are tried. It is empty for
    a chain, where each token stands behind the one before it.

    `source`: what the first token was copied from, and those that stand behind it; None for what
    was not copied from a message, or where it cannot be told exactly which characters it is.
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

    `accepted` drafted tokens are accepted: the first ones, or those of a tree whose numbers are in
    `path`, in their order; `parents` as in `Draft`. `judgements` has one entry per drafted token.
    `next` is the target's own token; None where an accepted token ended the text.
    `draft_seconds` and `verify_seconds` are the round's two passes, `seconds` is the wall time
    since the verdict before it; `reason` says in words why the draft had its length.

    A round of `forced` tokens has nothing else: no draft, no pass. `logprobs` has an entry for each
    token that the round committed, in their order, where they were asked for. `accompanied`: other
    answers had their turns within `seconds`. `edge`: a plain pass at an end of a run, where
    passes overlap: how long it took is not what plain decoding takes.
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
        """The shape of what was drafted."""
        return Tree(self.parents) if self.parents else Tree.chain(len(self.judgements))

    @property
    def accepted_path(self) -> tuple[int, ...]:
        """The numbers of the accepted tokens."""
        return self.path or tuple(range(self.accepted))

    @property
    def rejected(self) -> tuple[int, ...]:
        """The numbers of those that were judged and not accepted."""
        return self.tree.rejected(self.accepted_path, ended=self.next is None)


@dataclass(frozen=True, slots=True)
class Span:
    """The `length` code points of a text that one token gave: see the laws above.

    The token is number `index`, from 0, of those that `round` committed: first the accepted ones
    in their order, then the target's own (correction, bonus or plain); or the forced ones.
    """

    round: int
    index: int
    length: int


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is final, and which token gave which part of it.

    Text without `spans` is of unknown tokens, as in traces of earlier versions; the engine always
    sends them.
    """

    generation: str
    delta: str
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """The end. `cut` is decoded text that belongs to a stop string or follows it. `fork`: where the
    drafted answer of a race leaves the plain one."""

    generation: str
    reason: DoneReason
    stats: Stats
    cut: str = ""
    fork: Fork | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The generation failed: a line that says what is wrong, and one that says what to do.

    Of a prompt that is "too long": its `tokens`, and the `context` that they have no room in.
    """

    generation: str
    message: str
    remedy: str
    cause: Cause = "engine"
    tokens: int = 0
    context: int = 0


Event = Waiting | Prefill | PromptLogprobs | Draft | Verdict | Text | Done | Failed

_KINDS: dict[str, type[Any]] = {kind.__name__.lower(): kind for kind in get_args(Event)}


def to_json(event: Event) -> str:
    """One line of JSON: `{"event": "draft", ...}`, fields as in the dataclass."""
    return json.dumps({"event": type(event).__name__.lower(), **dataclasses.asdict(event)})


def from_json(line: str) -> Event:
    """The event that `to_json` wrote. Raises ValueError on anything else."""
    try:
        fields = json.loads(line)
        kind = _KINDS[fields.pop("event")]
        event: Event = decode(kind, fields, place="event")
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"not an event: {line[:80]!r}") from error
    return event
