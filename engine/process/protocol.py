"""The language of the window and the engine's child process: one JSON object a line.

Commands go in, responses come out: the events of `engine.events` as they are, and a few more that
are about the process itself. Knows no MLX, so that the window can import it.

The window numbers its commands: `id`. The responses to a command carry its id, events as their
`generation`; a `Failed` without an id is the response to a line that holds no command.

Generations run side by side, as many as `Load.parallel` says. A command that loads or unloads waits
for those before it, and those after it wait for it.

    load      -> Loading, Unloaded (where another was loaded), Loading..., Loaded | Failed; on
                 several Macs, Ranks whenever the state of one changes, then and later
    drafting  -> Loading..., Loaded | Failed; where it failed, the drafter stays
    generate  -> Waiting..., Prefill..., (Draft, Verdict, Text)...,
                 Done | Failed; the same events of the plain answer, where it is a race, with the
                 generation `rival_of(id)`
    count     -> Counted | Failed, at once, also while answers are written
    keep      -> Kept | Failed
    hurry     -> no response of its own; the generation with that id ends its reasoning
    cancel    -> no response of its own; the generation with that id ends, `cancelled`
    unload    -> Unloaded; from several Macs too, which end
    quit      -> the process ends, as it does when its standard input does

Where one of several Macs is lost, all unfinished commands fail with the line that names it, and the
process ends, with the same line: MLX has one group in the life of a process.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from engine import events
from engine.cluster.states import RankState
from engine.exactness import Exactness, Wish
from engine.request import Prompt, Request, Sampling, Thinking
from models.answers import Refused
from models.errors import Problem
from models.json_lines import Language, named_by_class
from models.typed_json import WrongJson

PROTOCOL = 18  # since `Loaded` says no more whether answers share passes
DRAFTER_BITS = (0, 16, 8, 4)  # as `resolve_drafters` takes them
CACHE_BITS = (0, 8, 4)  # as `Memory` takes them
MOST_PARALLEL = 64
_PLAIN = "/plain"
LONGEST_LINE_BYTES = 8 << 20  # of a command, with its end
LONGEST_RESPONSE_BYTES = 8 * LONGEST_LINE_BYTES  # a prompt's log probabilities are one line


@dataclass(frozen=True, slots=True)
class Memory:
    """Limits of a conversation: at most `context` tokens, 0 for as many as the model allows;
    and numbers of `cache_bits` in the caches of long ones, 0 for the model's own. Weights of the
    drafter have `drafter_bits`: see `models.installed.resolve.resolve_drafters`."""

    context: int = 0
    cache_bits: int = 0
    drafter_bits: int = 0

    def __post_init__(self) -> None:
        if self.context < 0 or self.context == 1:
            raise Problem(
                f"A context of {self.context} tokens is too short.", "Choose at least 2, or 0."
            )
        if self.cache_bits not in CACHE_BITS:
            raise Problem(
                f"Caches cannot have numbers of {self.cache_bits} bits.", "Choose 8, 4 or 0."
            )
        if self.drafter_bits not in DRAFTER_BITS:
            raise Problem(
                f"Drafters cannot have weights of {self.drafter_bits} bits.",
                "Choose 16, 8, 4 or 0.",
            )


@dataclass(frozen=True, slots=True)
class Macs:
    """The place of a target: on the Macs in the file `hosts`, an absolute path; on this Mac alone
    if it is empty. `mode`: how the target is divided; "auto" for the mode that fits."""

    hosts: str = ""
    mode: Literal["auto", "pipeline", "tensor"] = "auto"


@dataclass(frozen=True, slots=True)
class Load:
    """Load the model folder `target`, in place of the loaded model.

    `drafter` and `draft_length` are written as for `engine.conversation.pair`. At most `parallel`
    generations run side by side. They share passes of the target, where the model allows it,
    unless `exact` is "on": see `engine.exactness`. `learn`: earlier answers are drafted from,
    and these are kept for that: see `engine.earlier_answers`. `measure`: the pair is calibrated
    again. `sampling`: the default in place of the target's own. `keep_bytes`: the most that is kept
    on disk of prompts; None leaves that to the engine, 0 keeps nothing. `fitting`: a context that
    the model alone limits is no longer than fits in this Mac's memory. A process that has led the
    Macs in a file loads on these alone, and on none once they are unloaded: another process can.
    """

    id: str
    target: str
    drafter: str = "none"
    draft_length: str = "auto"
    memory: Memory = field(default_factory=Memory)
    parallel: int = 4
    exact: Wish = "auto"
    learn: bool = False
    keep_bytes: int | None = None
    macs: Macs = field(default_factory=Macs)
    measure: bool = False
    sampling: Sampling | None = None
    fitting: bool = False

    def __post_init__(self) -> None:
        if self.keep_bytes is not None and self.keep_bytes < 0:
            message = f"{self.keep_bytes} bytes cannot be kept of documents."
            raise Problem(message, "Give 0 or more.")
        if not 1 <= self.parallel <= MOST_PARALLEL:
            raise Problem(
                f"{self.parallel} generations cannot run side by side.",
                f"Choose a number from 1 to {MOST_PARALLEL}.",
            )


@dataclass(frozen=True, slots=True)
class SetDrafter:
    """Draft in another way from the next answer on; None keeps the drafter or the length.

    With `measure` the pair is calibrated again. Its name on the wire is "drafting".
    """

    id: str
    drafter: str | None = None
    draft_length: str | None = None
    measure: bool = False


@dataclass(frozen=True, slots=True)
class Generate:
    """Answer a prompt. `conversation`: which chat it is; empty if it belongs to none.

    A `race` is answered twice, in turns and alone: with drafts, and without.
    The plain answer's `Done` comes before the other's; where one fails, there is only the `Failed`
    of this id.
    """

    id: str
    conversation: str
    prompt: Prompt
    request: Request = field(default_factory=Request)
    race: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """Count the tokens of a prompt. `thinking` as in `Request`."""

    id: str
    prompt: Prompt
    thinking: Thinking = ""


@dataclass(frozen=True, slots=True)
class Keep:
    """Write the caches of the latest prompt to disk, as far as its request allows that; a command
    that comes meanwhile ends it."""

    id: str


@dataclass(frozen=True, slots=True)
class Hurry:
    """End the reasoning of the generation with this id, so that its answer begins. Nothing happens
    to a generation that does not reason, and to the plain answer of a race."""

    id: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the generation with this id, running or waiting. Nothing happens where it is over."""

    id: str


@dataclass(frozen=True, slots=True)
class Unload:
    """Give the memory back."""

    id: str


@dataclass(frozen=True, slots=True)
class Quit:
    """Cancel everything and end."""


Work = Load | SetDrafter | Generate | Keep | Unload
Command = Work | Count | Hurry | Cancel | Quit


@dataclass(frozen=True, slots=True)
class Ready:
    """The first line: the process takes commands. `protocol` is the version of this language."""

    protocol: int
    python: str
    mlx: str
    mlx_lm: str
    device: str


@dataclass(frozen=True, slots=True)
class Loading:
    """Loading has begun, and may take a while.

    A pair that is new on this machine is calibrated at the end: later ones say in `measured` which
    share of that is done, from 0 to 1.
    """

    id: str
    target: str
    drafter: str
    draft_length: str
    measured: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """The pair that is loaded now. `vocabulary`: the number of the target's logits. The target can
    reason (`reasons`), fill gaps in texts, and be shown pictures (`sees`). `held_bytes`: of models
    and caches, in this process."""

    id: str
    target: str
    drafter: str
    draft_length: str
    precision: str
    context_length: int
    vocabulary: int
    remark: str
    memory: Memory
    sampling: Sampling
    parallel: int
    exact: Exactness
    macs: Macs
    thinking: tuple[str, ...]
    reasons: bool
    fills_gaps: bool
    sees: bool
    held_bytes: int


@dataclass(frozen=True, slots=True)
class Unloaded:
    """Nothing is loaded any more, until the next `Loaded`."""

    id: str


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of tokens of the prompt in the `Count` with this id."""

    id: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Kept:
    """The end of the `Keep` with this id. `remarks`: why something of the latest answer, its caches
    or its measured speed, could not be stored."""

    id: str
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ranks:
    """The state of each of several Macs, rank 0's first; none once they are left."""

    ranks: tuple[RankState, ...]


ProcessEvent = Ready | Loading | Loaded | Unloaded | Counted | Kept | Ranks
Response = events.Event | ProcessEvent

COMMANDS = Language[Command](
    "command",
    {
        "load": Load,
        "drafting": SetDrafter,
        "generate": Generate,
        "count": Count,
        "keep": Keep,
        "unload": Unload,
        "hurry": Hurry,
        "cancel": Cancel,
        "quit": Quit,
    },
    longest_bytes=LONGEST_LINE_BYTES,
)
RESPONSES = Language[Response](
    "event",
    named_by_class(*get_args(events.Event), *get_args(ProcessEvent)),
    longest_bytes=LONGEST_RESPONSE_BYTES,
)


CHECKED = Language[Ranks | Refused]("answer", named_by_class(Ranks, Refused))
"""The lines of `slipstream cluster check --json`."""


class InvalidCommand(Problem):
    """A line that holds no command. `place` is the field with the `fault`, such as `load.target`.

    `id`: the command's, if the line has one; otherwise empty.
    """

    def __init__(self, wrong: WrongJson, *, id: str) -> None:
        super().__init__(wrong.message, wrong.remedy)
        self.fault, self.place = wrong.mistake, wrong.place
        self.id = id


def rival_of(generation: str) -> str:
    """The generation of the plain answer in a race."""
    return generation + _PLAIN


def command_of(generation: str) -> str:
    """The id of the command that a generation belongs to."""
    return generation.removesuffix(_PLAIN)


def parse_command(line: bytes) -> Command:
    """The command that a line holds. Raises InvalidCommand if there is none."""
    id = ""
    try:
        fields = COMMANDS.fields(line)
        # A wish that cannot be read has not failed the generation.
        if isinstance(fields.get("id"), str) and fields.get("command") not in ("hurry", "cancel"):
            id = fields["id"]
        name = fields.get("command")
        if isinstance(name, str) and name in COMMANDS.kinds:
            _refuse_half_characters(fields, name)
        command = COMMANDS.message(fields)
        if getattr(command, "id", None) == "":
            place = f"{name}.id"
            remedy = "Give each command an id of its own."
            raise WrongJson("wrong value", place, f"{place} is empty.", remedy)
    except WrongJson as wrong:
        raise InvalidCommand(wrong, id=id) from None
    return command


def _refuse_half_characters(fields: dict[str, Any], name: str) -> None:
    """JSON can escape half of a surrogate pair, which no tokenizer and no file can take."""
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        message = f"A text in {name} is not valid UTF-8: it holds half a character."
        raise WrongJson("wrong value", name, message, "Convert it to UTF-8.") from None
