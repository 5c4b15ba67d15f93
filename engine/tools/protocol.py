"""The language of a chat and the process that runs its tools: one JSON object a line.

    start    -> State for each server, and again whenever it changes
    restart  -> State..., of that server
    call     -> Progress..., Result: exactly one, even if the server fails
    cancel   -> no response of its own; the call with that id ends, `cancelled`

The process and all servers end when its standard input does.

A server that dies, hangs or sends nonsense ends its own calls alone. Texts are the servers' own:
treat them as text when you show them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from models.json_lines import Language, named_by_class

PROTOCOL = 1
OWN = "Slipstream"
"""The name of the server of the tools that come along, which always runs."""
LONGEST_LINE_BYTES = 8 << 20

ServerState = Literal["starting", "running", "failed"]
Ending = Literal["done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Server:
    """A server as the user has set it up: a program with arguments, or the address of an HTTP
    server. `env` and `headers` may hold keys: they are never logged or shown whole. `${env:NAME}`
    in any of them is filled in from the environment when the server starts. `type`: "sse", if it
    was set up as one of this older kind. The limits of a call and of a start in seconds, 0 for
    ours, have the names that Codex gives them."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    type: str = ""
    tool_timeout_sec: float = 0.0
    startup_timeout_sec: float = 0.0

    @property
    def is_older(self) -> bool:
        """Whether it looks like a server of the older kind over HTTP."""
        return self.type == "sse" or self.url.partition("?")[0].rstrip("/").endswith("/sse")


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool that a server offers. `schema` is the JSON text of the schema of its arguments;
    `read_only`: the server says that it changes nothing."""

    server: str
    name: str
    title: str = ""
    description: str = ""
    schema: str = "{}"
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Run exactly these servers, and `OWN`: others end, and a server with changed settings starts
    again. `folders`, absolute paths, may be read by the built-in file tools."""

    servers: tuple[Server, ...]
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Restart:
    """Start a server again."""

    server: str


@dataclass(frozen=True, slots=True)
class Call:
    """Call a tool. `arguments` is the JSON text of an object. After `seconds` it has failed."""

    id: str
    server: str
    tool: str
    arguments: str
    seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the call with this id. Nothing happens if it is over."""

    id: str


Command = Start | Restart | Call | Cancel


@dataclass(frozen=True, slots=True)
class Ready:
    """The first line: the process takes commands. `protocol` is the version of this language."""

    protocol: int


@dataclass(frozen=True, slots=True)
class State:
    """A server as it is now. `version` and `instructions` are its own words about itself. A failed
    server has the `message` and its `remedy`; it starts again when it is asked to."""

    server: str
    state: ServerState
    tools: tuple[Offered, ...] = ()
    version: str = ""
    instructions: str = ""
    message: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """A call goes on: `done` of `total`, 0 if that is not known, and the server's own words."""

    id: str
    done: float
    total: float = 0.0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a call. `text` is what the server returned, or a line on why there is nothing;
    `bytes` counts all that it returned; the text may be a part."""

    id: str
    ending: Ending
    text: str
    seconds: float = 0.0
    bytes: int = 0


Response = Ready | State | Progress | Result

COMMANDS = Language[Command](
    "command", named_by_class(*get_args(Command)), longest_bytes=LONGEST_LINE_BYTES
)
RESPONSES = Language[Response](
    "event", named_by_class(*get_args(Response)), longest_bytes=LONGEST_LINE_BYTES
)
