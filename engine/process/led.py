"""Has rank 0 on several Macs do what an engine is asked for.

Knows the protocol's messages, when ranks are started, and what no Macs can do together; not MLX.
"""

import sys
from collections.abc import Callable

from engine.cluster.hosts import Hosts
from engine.events import Failed
from engine.process.launch import Launch
from engine.process.protocol import (
    COMMANDS,
    RESPONSES,
    Cancel,
    Count,
    Hurry,
    Load,
    Loading,
    Ranks,
    Response,
    Unload,
    Unloaded,
    Work,
)
from models.errors import Problem
from models.installed.resolve import resolve_drafters, resolve_target
from models.sharing import check

_ENDLESS = ("prefill", "draft", "verdict", "text")
# Most lines are of these, which end no command: to read and write them again takes long.
_OF_ANSWERS = tuple(f'{{"{RESPONSES.tag}": "{name}",'.encode() for name in _ENDLESS)


class LedMacs:
    """The Macs in the hostfile at `path`. They are joined for the first load, and again after they
    were left."""

    def __init__(
        self,
        path: str,
        hosts: Hosts,
        *,
        send: Callable[[Response | bytes], None],
        lost: Callable[[Problem], None],
        stopped: Callable[[], bool],
    ) -> None:
        """`send` and `lost` are called from another thread, too; `lost` once, if the ranks cannot
        go on. Joining ends once `stopped`."""
        self._path, self._hosts = path, hosts
        self._send, self._lost, self._stopped = send, lost, stopped
        self._launch: Launch | None = None
        self._why: Problem | None = None  # rank 0 ends, as it says

    def do(self, command: Work | Count | Cancel | Hurry) -> None:
        """Have this done. Raises `Problem`."""
        match command:
            case Load(macs=macs) if macs.hosts != self._path:
                raise Problem("This engine has led other Macs before.", "Restart the engine.")
            case Load(id, target, drafter, draft_length):
                self.require(command)
                if self._launch is None:
                    self._send(Loading(id, target, drafter, draft_length, measured=0.0))
                    self._join()
            case Unload():
                self.leave()
                self._send(Ranks(()))
                self._send(Unloaded(command.id))
                return
        if self._launch is not None:
            self._launch.write(COMMANDS.to_line(command))
        elif not isinstance(command, Cancel | Hurry):
            raise Problem("No model is loaded.", "Load one first.")

    def leave(self) -> None:
        """End the ranks."""
        launch, self._launch = self._launch, None
        if launch is not None:
            launch.close()

    def require(self, load: Load) -> None:
        """Raise `Problem` if no Macs can do this: before they are joined, or let go of a model."""
        target, mode, ranks = resolve_target(load.target), load.macs.mode, len(self._hosts.hosts)
        if mode == "auto":  # what the Macs have free decides later; some models have no mode
            mode, ranks = "pipeline", 1
        check(target.config, mode=mode, ranks=ranks)
        parts = resolve_drafters(load.drafter, target).parts
        if any(part.name.startswith("early-exit") for part in parts):
            message = "early-exit does not support a target on several Macs."
            raise Problem(message, "Choose suffix, a head or a drafting model.")

    def _join(self) -> None:
        launch = Launch(
            self._hosts,
            heard=self._hear,
            lost=lambda problem: self._lost(self._why or problem),
            complained=sys.stderr.buffer.write,
        )
        self._send(Ranks(launch.states))
        try:
            launch.meet(self._stopped)
        except Problem:  # they have ended
            self._send(Ranks(()))
            raise
        self._send(Ranks(launch.states))
        self._launch = launch

    def _hear(self, line: bytes) -> None:
        if line.startswith(_OF_ANSWERS):
            self._send(line)
            return
        response = RESPONSES.read(line)
        if isinstance(response, Failed) and not response.generation:
            self._why = Problem(response.message, response.remedy)
        else:
            self._send(response)
