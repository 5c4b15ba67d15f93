"""The language of the window and the engine's child process: one JSON object a line.

Commands go in, responses come out: the events of `engine.events` as they are, and a few more that
are about the process itself. Knows no MLX, so that the window can import it.

The window numbers its commands: `id`. The responses to a command carry its id, events as their
`generation`; a `Failed` without an id is the response to a line that holds no command.

    load      -> Loading, Unloaded (where another was loaded), Loading..., Loaded | Failed
    drafting  -> Loading..., Loaded | Failed; where it failed, the drafter stays what it was
    generate  -> Prefill..., (Draft, Verdict, Text)..., Done | Failed
    cancel    -> no response of its own; the generation with that id ends, `cancelled`
    unload    -> Unloaded
    quit      -> the process ends, as it does when its standard input does
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field
from enum import Enum, auto
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from engine import events
from engine.request import ChatMessage, Request, Sampling
from models.errors import Problem

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
class SetDrafter:
    """Draft in another way from the next answer on; None keeps the drafter or the length.

    Its name on the wire is "drafting".
    """

    id: str
    drafter: str | None = None
    draft_length: str | None = None


@dataclass(frozen=True, slots=True)
class Generate:
    """Answer a chat, once all earlier commands are done. `conversation`: which chat it is."""

    id: str
    conversation: str
    messages: tuple[ChatMessage, ...]
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int = 512
    stops: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _ = self.request  # which raises `Problem` for values that are out of range

    @property
    def request(self) -> Request:
        """How to answer, as the engine takes it."""
        return Request(sampling=self.sampling, max_tokens=self.max_tokens, stops=self.stops)


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


Work = Load | SetDrafter | Generate | Unload
Command = Work | Cancel | Quit


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
    """What is loaded now. `vocabulary` is how many logits the target gives.

    `context_length` is in tokens; `precision` is the weights' number type, in words. `remark` is a
    line for people about how the pair runs here; mostly empty.
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


ProcessEvent = Ready | Loading | Loaded | Unloaded
Response = events.Event | ProcessEvent

_COMMANDS: dict[str, type[Any]] = {
    "load": Load,
    "drafting": SetDrafter,
    "generate": Generate,
    "unload": Unload,
    "cancel": Cancel,
    "quit": Quit,
}
_COMMAND_NAMES = {kind: name for name, kind in _COMMANDS.items()}
_PROCESS_EVENTS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in get_args(ProcessEvent)
}
_SURROGATE = re.compile("[\ud800-\udfff]")  # half of a character that was escaped as two
_EXPECTED = {str: "a text", int: "a whole number", float: "a number"}
_NAMES = {dict: "an object", list: "a list", str: "a text", bool: "a truth value"}


class Fault(Enum):
    """What is wrong with a line that holds no command."""

    TOO_LONG = auto()
    EMPTY = auto()
    NOT_UTF_8 = auto()
    NESTED_TOO_DEEPLY = auto()
    NOT_JSON = auto()
    NOT_AN_OBJECT = auto()
    UNKNOWN_COMMAND = auto()
    UNKNOWN_FIELD = auto()
    MISSING_FIELD = auto()
    WRONG_TYPE = auto()
    WRONG_VALUE = auto()


class InvalidCommand(Problem):
    """A line that holds no command. `place` is the field with the `fault`, such as `load.target`.

    `id` is that of the command that the line was meant to be, or empty.
    """

    def __init__(
        self, fault: Fault, message: str, remedy: str, *, place: str = "", id: str = ""
    ) -> None:
        super().__init__(message, remedy)
        self.fault = fault
        self.place = place
        self.id = id


def command_to_json(command: Command) -> str:
    """One line of JSON: `{"command": "load", ...}`, fields as in the dataclass."""
    name = _COMMAND_NAMES[type(command)]
    return json.dumps({"command": name, **dataclasses.asdict(command)})


def parse_command(line: bytes) -> Command:
    """The command that a line holds. Raises InvalidCommand where there is none."""
    id = name = ""
    try:
        fields = _object(line)
        given = fields.pop("command", None)
        # A cancel that cannot be read has not failed the generation.
        if isinstance(fields.get("id"), str) and given != "cancel":
            id = fields["id"]
        if not isinstance(given, str) or given not in _COMMANDS:
            raise InvalidCommand(
                Fault.UNKNOWN_COMMAND,
                f"There is no command {_short(given)}.",
                f"Use {', '.join(_COMMANDS)}.",
            )
        name = given
        command: Command = _build(_COMMANDS[name], fields, name)
        if getattr(command, "id", None) == "":
            raise InvalidCommand(
                Fault.WRONG_VALUE,
                f"{name}.id is empty.",
                "Give each command an id of its own.",
                place=f"{name}.id",
            )
    except InvalidCommand as invalid:
        invalid.id = id
        raise
    except Problem as problem:  # of a request
        raise InvalidCommand(
            Fault.WRONG_VALUE, problem.message, problem.remedy, place=name, id=id
        ) from None
    return command


def response_to_json(response: Response) -> str:
    """One line of JSON: `{"event": "loaded", ...}`, as `engine.events.to_json`."""
    name = type(response).__name__.lower()
    return json.dumps({"event": name, **dataclasses.asdict(response)})


def response_from_json(line: str) -> Response:
    """The response that `response_to_json` wrote. Raises ValueError on anything else."""
    with suppress(ValueError):
        return events.from_json(line)
    try:
        fields = _object(line.encode())
        event: ProcessEvent = _build(_PROCESS_EVENTS[fields.pop("event")], fields, "response")
    except (Problem, KeyError, TypeError) as error:
        raise ValueError(f"not a response: {line[:80]!r}") from error
    return event


def _object(line: bytes) -> dict[str, Any]:
    """The JSON object in a line."""
    remedy = 'Send one JSON object a line, such as {"command": "quit"}.'
    if len(line) > LONGEST_LINE_BYTES:
        message = f"The line is over {LONGEST_LINE_BYTES:,} bytes."
        raise InvalidCommand(Fault.TOO_LONG, message, "Send shorter messages.")
    if not line.strip():
        raise InvalidCommand(Fault.EMPTY, "The line is empty.", remedy)
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        message = f"Byte {error.start} of the line is not UTF-8."
        raise InvalidCommand(Fault.NOT_UTF_8, message, remedy) from None
    except RecursionError:
        message = "The line is nested too deeply."
        raise InvalidCommand(Fault.NESTED_TOO_DEEPLY, message, remedy) from None
    except ValueError as error:  # JSONDecodeError, or a number with too many digits
        raise InvalidCommand(Fault.NOT_JSON, f"The line is not JSON: {error}.", remedy) from None
    if not isinstance(value, dict):
        message = f"The line is {_named(value)}, not an object."
        raise InvalidCommand(Fault.NOT_AN_OBJECT, message, remedy)
    return value


def _build(kind: type[Any], given: dict[str, Any], place: str) -> Any:
    """The dataclass `kind` from a JSON object with all required fields and no unknown ones."""
    known = {item.name: item for item in dataclasses.fields(kind)}
    remedy = f"Its fields are {', '.join(known)}." if known else "It has no fields."
    for name in given:
        if name not in known:
            message = f"{place} has no field {_short(name)}."
            raise InvalidCommand(Fault.UNKNOWN_FIELD, message, remedy, place=place)
    for name, item in known.items():
        if name not in given and item.default is MISSING and item.default_factory is MISSING:
            message = f"{place} lacks {name!r}."
            raise InvalidCommand(Fault.MISSING_FIELD, message, remedy, place=f"{place}.{name}")
    fields = {name: _value(known[name].type, given[name], f"{place}.{name}") for name in given}
    return kind(**fields)


def _value(kind: Any, value: Any, place: str) -> Any:
    """A JSON value as a `kind`, one of the annotations above."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is UnionType:  # with None
        return None if value is None else _value(arguments[0], value, place)
    if origin is Literal:
        if value not in arguments:
            raise _wrong_value(place, f"is {_short(value)}", f"Give {' or '.join(arguments)}.")
        return value
    if origin is tuple and isinstance(value, list):
        return tuple(_value(arguments[0], item, f"{place}[{i}]") for i, item in enumerate(value))
    if origin is Mapping and isinstance(value, dict):
        return {_number(key, place): _value(float, value[key], place) for key in value}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return _build(kind, value, place)
    if kind is float and type(value) in (int, float):
        if not -1e300 < value < 1e300:  # no NaN, no infinity, no 10**999
            raise _wrong_value(place, "is out of range", "Give a smaller number.")
        return float(value)
    if kind is str and type(value) is str and _SURROGATE.search(value):
        remedy = "Escape both halves of a surrogate pair."
        raise _wrong_value(place, "holds half a character", remedy)
    if kind in (str, int) and type(value) is kind:
        return value
    expected = "a list" if origin is tuple else _EXPECTED.get(kind, "an object")
    message = f"{place} is {_named(value)}."
    raise InvalidCommand(Fault.WRONG_TYPE, message, f"Give {expected}.", place=place)


def _number(key: str, place: str) -> int:
    """A token id, which JSON can only have as a text where it is a key."""
    if not (key.isascii() and key.isdecimal() and len(key) < 10):
        raise _wrong_value(place, f"has the key {_short(key)}", "Give token ids as keys.")
    return int(key)


def _wrong_value(place: str, what: str, remedy: str) -> InvalidCommand:
    return InvalidCommand(Fault.WRONG_VALUE, f"{place} {what}.", remedy, place=place)


def _named(value: Any) -> str:
    return "null" if value is None else _NAMES.get(type(value), "a number")


def _short(value: Any) -> str:
    """A text, short enough for one line; of anything else its type."""
    return repr(value[:40]) if isinstance(value, str) else _named(value)
