"""The state of a server, as values with a JSON form: for the window that it is attached to.

Knows no HTTP. No prompt and no answer is in it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from models.json_lines import Language

RequestState = Literal["waiting", "reading", "writing"]
ModelState = Literal["not loaded", "loading", "loaded"]


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """A request that is being answered. `client`: its name, from the user agent; `tokens`: written
    so far, in all its answers; `model`: the name of the target that answers."""

    id: str
    endpoint: str
    client: str
    state: RequestState = "waiting"
    prompt_tokens: int = 0
    tokens: int = 0
    model: str = ""


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """The number of requests that a client has sent so far."""

    client: str
    requests: int


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """A model that clients may ask for, and the memory that it takes; 0 where that is not known.
    `remark`: its newest remark on an answer, for the user."""

    name: str
    state: ModelState
    needed_bytes: int = 0
    remark: str = ""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The whole server. `address` is empty while nothing can be asked; `problem` says why."""

    address: str = ""
    problem: str = ""
    running: int = 0
    waiting: int = 0
    requests: tuple[RequestStatus, ...] = ()
    clients: tuple[ClientStatus, ...] = ()
    models: tuple[ModelStatus, ...] = ()


class Board:
    """The requests that are being answered now. `changed` is called whenever something changes."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._changed = changed
        self._requests: dict[str, RequestStatus] = {}
        self._clients: Counter[str] = Counter()
        self._address = ""
        self._models: tuple[ModelStatus, ...] = ()

    @property
    def status(self) -> ServerStatus:
        """The server as it is now."""
        requests = tuple(self._requests.values())
        waiting = sum(request.state == "waiting" for request in requests)
        return ServerStatus(
            self._address,
            running=len(requests) - waiting,
            waiting=waiting,
            requests=requests,
            clients=tuple(ClientStatus(*asked) for asked in self._clients.items()),
            models=self._models,
        )

    def listens(self, address: str) -> None:
        """Note where requests can be sent."""
        self._address = address
        self._changed()

    def offer(self, models: tuple[ModelStatus, ...]) -> None:
        """Note which models clients may ask for."""
        if models != self._models:
            self._models = models
            self._changed()

    def show(self, request: RequestStatus) -> None:
        """Note a request, or how far it has come."""
        self._clients[request.client] += request.id not in self._requests
        if self._requests.get(request.id) != request:
            self._requests[request.id] = request
            self._changed()

    def progress(self, id: str, **fields: Any) -> None:
        """Note how far a request has come."""
        if id in self._requests:
            self.show(replace(self._requests[id], **fields))

    def remove(self, id: str) -> None:
        """Note that a request is over."""
        if self._requests.pop(id, None) is not None:
            self._changed()


STATUSES = Language[ServerStatus]("status", {"serving": ServerStatus})
"""For one line each: `{"status": "serving", ...}`."""
