"""A server from its start to its end: with engines of its own, or attached to another's too.

Knows which parts there are, and in which order they begin and end.
"""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from engine.pipes import claim_pipes
from engine.process.protocol import LONGEST_RESPONSE_BYTES, Loaded
from engine.server.app import App
from engine.server.child import EngineChild
from engine.server.guard import Guard, hosts_of
from engine.server.link import EngineLink
from engine.server.pool import Offers, Pair, Pool
from engine.server.service import MOST_WAITING, Service
from engine.server.serving import MOST_CONNECTIONS, Serving, bound, is_loopback
from engine.server.status import STATUSES, Board, ServerStatus
from models.errors import Problem

_STATUS_SECONDS = 0.25  # between two lines
_MODELS_SECONDS = 1.0  # between two looks at the models
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The address that a server listens at. `key`: the API key, if clients need one; `origins`: of
    pages that may send requests; `names`: further host names of the server; `most_waiting`: the
    longest queue of requests."""

    host: str = "127.0.0.1"
    port: int = 8737
    key: str | None = None
    origins: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    most_waiting: int = MOST_WAITING

    def __post_init__(self) -> None:
        if self.host in ("0.0.0.0", "::", ""):
            raise Problem(
                "The server cannot listen on all addresses.",
                "Set --host to the address of this Mac in your network.",
            )
        if self.key is None and not is_loopback(self.host):
            raise Problem(
                f"Other computers can reach {self.host}, so an API key is needed.",
                "Add --key-file default.",
            )

    def bind(self) -> tuple[list[socket.socket], "Place"]:
        """Its sockets, and the place with the port that they have. Raises Problem."""
        sockets = bound(self.host, self.port)
        return sockets, replace(self, port=sockets[0].getsockname()[1])

    @property
    def address(self) -> str:
        """For clients: http://127.0.0.1:8737."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@asynccontextmanager
async def _serving(
    place: Place, sockets: Sequence[socket.socket], pool: Pool, board: Board
) -> AsyncIterator[asyncio.Task[None]]:
    """The server's task. On leaving the pool's engines end, then it does, once the answers have."""
    hosts = hosts_of(place.host, place.port, place.names)
    guard = Guard(hosts, key=place.key, origins=place.origins)
    service = Service(pool, board, most_waiting=place.most_waiting)
    most = MOST_CONNECTIONS + max(0, place.most_waiting - MOST_WAITING)
    serving = Serving(App(service, guard), most_connections=most)
    task, tending = asyncio.create_task(serving.run(sockets)), asyncio.create_task(pool.tend())
    try:
        yield task
    finally:
        # Answers that are being written fail first, so that nothing waits for them.
        tending.cancel()
        await asyncio.gather(tending, return_exceptions=True)
        await pool.close()
        serving.stop()
        await task


def _own(offers: Offers, **more: Any) -> Iterator[Pair]:
    """The pairs that are offered, each with a link to an engine of its own. `more`: as for
    `EngineChild`."""
    for name, load in offers.loads.items():
        link = EngineLink(thinking=offers.thinking, thinking_budget=offers.thinking_budget)
        child = EngineChild(link, load, **more)
        yield Pair(link, child, name=name, keep_seconds=offers.keep_seconds)


async def serve(
    place: Place,
    offers: Offers,
    *,
    command: Sequence[str] = (),
    loaded: Callable[[Place, Loaded], None] = lambda place, loaded: None,
    report: Report = lambda line: None,
) -> None:
    """Serve with engines of its own until a signal ends it. The first pair is loaded at once.

    `loaded` is called once requests are answered; `report` with what happens later. `command`
    starts an engine; ours where it is empty. Raises Problem.
    """
    sockets, place = place.bind()
    pairs = _own(offers, command=command, report=report)
    pool = Pool([*pairs], aliases=offers.aliases, report=report)
    first, ending = pool.pairs[0], _signalled()
    async with _serving(place, sockets, pool, Board()) as http:
        loading = asyncio.create_task(pool.load(first))
        await asyncio.wait((loading, http, ending), return_when=asyncio.FIRST_COMPLETED)
        if loading.done():
            loading.result()
            if first.link.loaded is not None:
                loaded(place, first.link.loaded)
            await asyncio.wait((http, ending), return_when=asyncio.FIRST_COMPLETED)
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)


async def serve_attached(
    place: Place, offers: Offers, *, report: Report = lambda line: None
) -> None:
    """Serve with an engine whose responses come from standard input, and whose commands go to
    standard output, until the input ends. The output has lines of the server's status too.

    All other pairs that are offered have engines of their own. `report` as for `serve`.
    """
    reader, writer = await _claimed_streams()
    changed = asyncio.Event()
    board = Board(changed.set)

    def tell(status: ServerStatus) -> None:
        writer.write(STATUSES.to_line(status))

    async def keep_telling() -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_MODELS_SECONDS):
                    await changed.wait()
            board.offer(pool.statuses)
            if changed.is_set():
                changed.clear()
                tell(board.status)
                await asyncio.sleep(_STATUS_SECONDS)

    try:
        sockets, place = place.bind()
    except Problem as problem:
        tell(ServerStatus(problem=problem.message))  # the window has a remedy of its own
        await writer.drain()
        raise
    link = EngineLink()
    # Errors of an engine may quote a prompt, and the window keeps a log.
    own = _own(offers, errors=asyncio.subprocess.DEVNULL, report=report)
    pool = Pool([Pair(link), *own], aliases=offers.aliases, report=report)
    telling = asyncio.create_task(keep_telling())
    try:
        async with _serving(place, sockets, pool, board):
            board.listens(place.address)
            await link.run(reader, writer)
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        writer.close()


def _signalled() -> asyncio.Future[None]:
    """Return a future that is done when the process is asked to end, or its terminal closes."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not future.done():
            future.set_result(None)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # by nohup
            loop.add_signal_handler(number, end)
    return future


async def _claimed_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    responses, commands = claim_pipes()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST_RESPONSE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), responses)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), commands
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)
