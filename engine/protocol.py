"""What the window and the engine's child process say to each other: one JSON object a line.

Commands go in, answers come out: the events of `engine.events` as they are, and a few more that
are about the process itself. Knows no MLX, so that the window can import it.

The window numbers its commands: `id`. The answers to one carry its id, an event as its
`generation`; a `Failed` without one answers a line that could not be told to be any command.

    load      -> Loading, Unloaded (where another was loaded), Loading..., Loaded | Failed
    drafting  -> Loading..., Loaded | Failed; what was loaded before stays where it failed
    generate  -> Prefill..., (Draft, Verdict, Text)..., Done | Failed
    cancel    -> nothing of its own; the generation with that id ends, `cancelled`
    unload    -> Unloaded
    quit      -> the process ends, as it does when its standard input does
"""

import dataclasses
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, get_args

from engine import events
from engine.request import Message, Request, Sampling
from models.errors import Problem
from models.typed_json import WrongJson, decode, named, short

PROTOCOL = 2  # since texts have spans
LONGEST_LINE_BYTES = 8 << 20  # with its end


@dataclass(frozen=True, slots=True)
class Load:
    """Load the model folder `target`, in place of what is loaded.

    `drafter` and `draft_length` are written as for `engine.pair`.
    """

    id: str
    target: str
    drafter: str = "none"
    draft_length: str = "auto"


@dataclass(frozen=True, slots=True)
class Drafting:
    """Draft otherwise from the next answer on. None leaves a thing as it is."""

    id: str
    drafter: str | None = None
    draft_length: str | None = None


@dataclass(frozen=True, slots=True)
class Generate:
    """Answer a chat, once what was asked for before is done. `conversation`: which chat it is."""

    id: str
    conversation: str
    messages: tuple[Message, ...]
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int = 512
    stops: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _ = self.request  # refuses what cannot be

    @property
    def request(self) -> Request:
        """How to answer, as the engine takes it."""
        return Request(sampling=self.sampling, max_tokens=self.max_tokens, stops=self.stops)


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the generation with this id, running or waiting; one that is over stays over."""

    id: str


@dataclass(frozen=True, slots=True)
class Unload:
    """Give the memory back."""

    id: str


@dataclass(frozen=True, slots=True)
class Quit:
    """Cancel everything and end."""


Work = Load | Drafting | Generate | Unload
Command = Work | Cancel | Quit


@dataclass(frozen=True, slots=True)
class Ready:
    """The first line: the process takes commands. `protocol` is the version of all this."""

    protocol: int
    python: str
    mlx: str
    mlx_lm: str
    device: str


@dataclass(frozen=True, slots=True)
class Loading:
    """Loading has begun, and may take a while.

    Its last part, where this pair is new here, is to measure what it costs: `measured` is the
    share of that which is done, in further ones.
    """

    id: str
    target: str
    drafter: str
    draft_length: str
    measured: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """What is loaded now. `vocabulary` is how many logits the target gives.

    `context_length` is in tokens; `precision` says what the weights are here, in words. `remark`:
    what a person should know of how it runs here, in a line; mostly empty.
    """

    id: str
    target: str
    drafter: str
    draft_length: str
    precision: str
    context_length: int
    vocabulary: int
    remark: str


@dataclass(frozen=True, slots=True)
class Unloaded:
    """Nothing is loaded any more, until the next `Loaded`."""

    id: str


Notice = Ready | Loading | Loaded | Unloaded
Answer = events.Event | Notice

_COMMANDS: dict[str, type[Any]] = {kind.__name__.lower(): kind for kind in get_args(Command)}
_NOTICES: dict[str, type[Any]] = {kind.__name__.lower(): kind for kind in get_args(Notice)}


class BadLine(Problem):
    """A line that is no command. `id` is that of the command it was meant to be, or empty."""

    def __init__(self, message: str, remedy: str, *, id: str = "") -> None:
        super().__init__(message, remedy)
        self.id = id


def command_to_json(command: Command) -> str:
    """One line of JSON: `{"command": "load", ...}`, fields as in the dataclass."""
    name = type(command).__name__.lower()
    return json.dumps({"command": name, **dataclasses.asdict(command)})


def parse_command(line: bytes) -> Command:
    """The command that a line holds. Raises BadLine, and nothing else, where there is none."""
    id = ""
    try:
        fields = _object(line)
        name = fields.pop("command", None)
        # A cancel that cannot be read has not failed the generation.
        if isinstance(given := fields.get("id"), str) and name != "cancel":
            id = given
        if not isinstance(name, str) or name not in _COMMANDS:
            raise Problem(f"There is no command {short(name)}.", f"Use {', '.join(_COMMANDS)}.")
        _refuse_half_characters(fields, name)
        command: Command = decode(_COMMANDS[name], fields, place=name)
        if getattr(command, "id", None) == "":
            raise Problem(f"{name}.id is empty.", "Give each command an id of its own.")
    except (Problem, WrongJson) as error:
        raise BadLine(error.message, error.remedy, id=id) from None
    return command


def answer_to_json(answer: Answer) -> str:
    """One line of JSON: `{"event": "loaded", ...}`, as `engine.events.to_json`."""
    name = type(answer).__name__.lower()
    return json.dumps({"event": name, **dataclasses.asdict(answer)})


def answer_from_json(line: str) -> Answer:
    """The answer that `answer_to_json` wrote. Raises ValueError on anything else."""
    with suppress(ValueError):
        return events.from_json(line)
    try:
        fields = _object(line.encode())
        notice: Notice = decode(_NOTICES[fields.pop("event")], fields, place="answer")
    except (Problem, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"not an answer: {line[:80]!r}") from error
    return notice


def _object(line: bytes) -> dict[str, Any]:
    """The JSON object in a line."""
    one_object = 'Send one JSON object a line, such as {"command": "quit"}.'
    if len(line) > LONGEST_LINE_BYTES:
        raise Problem(f"The line is over {LONGEST_LINE_BYTES:,} bytes.", "Send shorter messages.")
    if not line.strip():
        raise Problem("The line is empty.", one_object)
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Problem(f"Byte {error.start} of the line is not UTF-8.", one_object) from None
    except RecursionError:
        raise Problem("The line is nested too deeply.", one_object) from None
    except ValueError as error:  # of which JSONDecodeError is one; a number too long is another
        raise Problem(f"The line is not JSON: {error}.", one_object) from None
    if not isinstance(value, dict):
        raise Problem(f"The line is {named(value)}, not an object.", one_object)
    return value


def _refuse_half_characters(fields: dict[str, Any], name: str) -> None:
    """JSON can escape half of a surrogate pair, which no tokenizer and no file can take."""
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Problem(
            f"{name} holds half a character.", "Escape both halves of a surrogate pair."
        ) from None
