"""`slipstream agent`: runs an agent in the terminal with a local server.

Knows options, processes and the terminal. An agent gets its settings through its environment and
its arguments (`engine.server.clients`); no file of the user is changed.
"""

import asyncio
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import MISSING, dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from engine.cli.folders import learning_folder, target_folder
from engine.cli.options import ModelOptions, option, positional, with_options
from engine.cli.serve import DEFAULT_PORT
from engine.process.interrupts import noting
from engine.server.clients import NO_KEY, Agent, Server, agents
from models.errors import Problem

if TYPE_CHECKING:
    from engine.process.protocol import Loaded
    from engine.server.running import Place

PROGRAMS = tuple(agents(Server("", "")))
_SECONDS = 2.0  # in which a running server answers
_ARGUMENTS = "Its own arguments; write -- before them if they begin with -."


@dataclass(frozen=True, kw_only=True)
class AgentOptions(ModelOptions):
    """Also which agent, and the port of a server that may run already."""

    program: str = positional(MISSING, "The agent: " + ", ".join(PROGRAMS) + ".", "AGENT")
    arguments: list[str] | None = positional(None, _ARGUMENTS, "ARG")
    port: int = option(DEFAULT_PORT, "Use the server at this port, if one runs.", "N", min=1)
    key_file: Path | None = option(None, "A file with that server's key.", "FILE")


@with_options
def agent(options: AgentOptions) -> None:
    """Run an agent with a local server."""
    if options.program not in PROGRAMS:
        known = f"{', '.join(PROGRAMS[:-1])} or {PROGRAMS[-1]}"
        raise Problem(f"Unknown agent: {options.program}.", f"Choose {known}.")
    found = agents(Server("", ""))[options.program]
    if shutil.which(found.program) is None:
        raise Problem(f"{found.name} is not installed.", f"Install it: {found.install}")
    running = _running(options)
    if running is None:
        status = _with_a_server(options)
    else:
        say(f"{running.model} at {running.address}")
        command, environment = _started(agents(running)[options.program], options)
        with noting(signal.SIGINT):  # Ctrl-C is for the agent
            status = subprocess.run(command, env=environment, check=False).returncode
    raise typer.Exit(status if status >= 0 else 128 - status)


def say(line: str) -> None:
    """Print a line about the server to standard error."""
    print(f"slipstream: {line}", file=sys.stderr, flush=True)


def _started(agent: Agent, options: AgentOptions) -> tuple[list[str], dict[str, str]]:
    """Return an agent's command and its environment."""
    program = shutil.which(agent.program) or agent.program
    command = [program, *agent.arguments, *(options.arguments or ())]
    return command, {**os.environ, **agent.variables}


def _running(options: AgentOptions) -> Server | None:
    """Return the server that runs already, if it has the target that the user named; else None.
    Raises `Problem`."""
    from engine.server.keys import default_key_file, read_key
    from engine.server.target import name_of

    path = options.key_file or default_key_file()
    key, (status, body) = NO_KEY, _listed(options.port, NO_KEY)
    if status == HTTPStatus.UNAUTHORIZED and path.exists():
        key = read_key(path)
        status, body = _listed(options.port, key)
    if status == HTTPStatus.UNAUTHORIZED:
        raise Problem(
            f"The server at port {options.port} needs another key.",
            "Name the key's file with --key-file, or choose another --port.",
        )
    models = _models(body)
    if not models:
        return None
    wanted = next(iter(models))
    if options.target is not None:
        wanted = name_of(str(target_folder(options.target).path))
    address = f"http://127.0.0.1:{options.port}"
    return Server(address, wanted, key, models[wanted]) if wanted in models else None


def _listed(port: int, key: str) -> tuple[int, bytes]:
    """Return the status and the body of a server's list of models; status 0 without a server."""
    connection = HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    with closing(connection), suppress(OSError, HTTPException):
        connection.request("GET", "/v1/models", headers={"authorization": f"Bearer {key}"})
        response = connection.getresponse()
        return response.status, response.read()
    return 0, b""


def _models(body: bytes) -> dict[str, int]:
    """Return the models in a Slipstream server's list, with their contexts in tokens; {} for other
    servers."""
    from models.memory.fit import DEFAULT_CONTEXT  # which takes long

    with suppress(ValueError, KeyError, TypeError):
        ours = [m for m in json.loads(body)["data"] if m["owned_by"] == "slipstream"]
        return {str(m["id"]): int(m.get("context_length") or DEFAULT_CONTEXT) for m in ours}
    return {}


def _with_a_server(options: AgentOptions) -> int:
    """Run the agent with a new server. Returns the agent's exit status. Raises `Problem`."""
    from engine.server.pool import Offers
    from engine.server.running import Place, serve
    from engine.server.target import name_of

    folder = target_folder(options.target)
    learning_folder(options.learn)
    offers = Offers(
        loads={name_of(str(folder.path)): options.load(folder, id="agent", parallel=8)},
        thinking=options.thinking or "",
        thinking_budget=options.thinking_budget,
    )
    # A new key for each run: no other program on this machine can use the server.
    place = Place(port=0, key=secrets.token_urlsafe(24))
    with _without_standard_error() as errors:
        running = _ServedAgent(options, errors)
        asyncio.run(serve(place, offers, loaded=running.begin, report=running.report))
    for remark in running.remarks:
        say(remark)
    if running.task is not None and not running.task.cancelled():
        running.task.result()  # raises why the agent could not be started
    return running.status


class _ServedAgent:
    """An agent that runs while this process serves it.

    Attributes: `status`, its exit status; `remarks`, lines about the server while it ran; `task`,
    which runs it, once the server answers.
    """

    def __init__(self, options: AgentOptions, errors: int) -> None:
        self.status, self.remarks = 1, list[str]()
        self._options, self._errors = options, errors
        self.task: asyncio.Task[None] | None = None

    def begin(self, place: "Place", loaded: "Loaded") -> None:
        """Start the agent as soon as the server answers. The server ends with the agent."""
        from engine.server.target import name_of

        assert place.key is not None
        server = Server(place.address, name_of(loaded.target), place.key, loaded.context_length)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lambda: None)  # the agent's
        self.task = asyncio.create_task(self._run(server))

    def report(self, line: str) -> None:
        """Print a line about the server; while the agent uses the screen, store it as a remark."""
        if self.task is not None:
            self.remarks.append(line)
        else:
            os.write(self._errors, f"slipstream: {line}\n".encode())

    async def _run(self, server: Server) -> None:
        command, environment = _started(agents(server)[self._options.program], self._options)
        process = None
        try:
            process = await asyncio.create_subprocess_exec(
                *command, env=environment, stderr=self._errors
            )
            self.status = await process.wait()
        finally:
            if process is not None and process.returncode is None:
                process.terminate()
            signal.raise_signal(signal.SIGTERM)


@contextmanager
def _without_standard_error() -> Iterator[int]:
    """Discard this process's standard error, which would disturb the agent's screen. Yields a
    descriptor of the original one."""
    sys.stderr.flush()
    before = os.dup(2)
    try:
        with tempfile.TemporaryFile() as nowhere:
            os.dup2(nowhere.fileno(), 2)
            yield before
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)
