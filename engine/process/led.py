"""Has rank 0 on several Macs do what an engine is asked for.

Knows the protocol's messages, when ranks are started, and what no Macs can do together; not MLX.
"""

import sys
from collections.abc import Callable
from time import sleep

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

_GLANCE_SECONDS = 0.05  # between two looks at whether rank 0 has unloaded
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
        go on. Joining and leaving wait no longer once `stopped`."""
        self._path, self._hosts = path, hosts
        self._send, self._lost, self._stopped = send, lost, stopped
        self._launch: Launch | None = None
        self._why: Problem | None = None  # rank 0 ends, as it says
        self._unloading = ""  # the id of the command for which the Macs are left

    def do(self, command: Work | Count) -> None:
        """Have this done. Raises `Problem`."""
        match command:
            case Load(macs=macs) if macs.hosts != self._path:
                raise Problem("This engine has led other Macs before.", "Restart the engine.")
            case Load():
                self.join(command)
            case Unload():
                self._unload(command)
                return
        if self._launch is None:
            raise Problem("No model is loaded.", "Load one first.")
        self._launch.write(COMMANDS.to_line(command))

    def _unload(self, command: Unload) -> None:
        """Leave the Macs, once rank 0 has done all that it was asked for before."""
        if self._launch is not None:
            self._unloading = command.id
            self._launch.write(COMMANDS.to_line(command))
            while self._unloading and not self._stopped():
                sleep(_GLANCE_SECONDS)
        self.leave()
        self._send(Ranks(()))
        self._send(Unloaded(command.id))

    def wish(self, wish: Cancel | Hurry) -> None:
        """Pass this on to rank 0, also while another thread waits in `do`."""
        if (launch := self._launch) is not None:
            launch.write(COMMANDS.to_line(wish))

    def leave(self) -> None:
        """End the ranks."""
        launch, self._launch = self._launch, None
        if launch is not None:
            launch.close()

    def join(self, load: Load) -> None:
        """Start the ranks that are to do this, unless they run. Raises `Problem`, before that if no
        Macs can do it."""
        self._require(load)
        if self._launch is not None:
            return
        self._send(Loading(load.id, load.target, load.drafter, load.draft_length, measured=0.0))
        launch = Launch(
            self._hosts,
            heard=self._hear,
            lost=lambda problem: self._lost(self._why or problem),
            complained=lambda line: sys.stderr.write(line.decode(errors="replace")),
        )
        self._send(Ranks(launch.states))
        try:
            launch.meet(self._stopped)
        except Problem:  # they have ended
            self._send(Ranks(()))
            raise
        self._send(Ranks(launch.states))
        self._launch = launch

    def _require(self, load: Load) -> None:
        target, mode, ranks = resolve_target(load.target), load.macs.mode, len(self._hosts.hosts)
        if mode == "auto":  # what the Macs have free decides later; some models have no mode
            mode, ranks = "pipeline", 1
        check(target.config, mode=mode, ranks=ranks)
        parts = resolve_drafters(load.drafter, target).parts
        if any(part.name.startswith("early-exit") for part in parts):
            message = "early-exit does not support a target on several Macs."
            raise Problem(message, "Choose suffix, a head or a drafting model.")

    def _hear(self, line: bytes) -> None:
        if line.startswith(_OF_ANSWERS):
            self._send(line)
            return
        response = RESPONSES.read(line)
        if isinstance(response, Failed) and not response.generation:
            self._why = Problem(response.message, response.remedy)
        elif response == Unloaded(self._unloading):
            self._unloading = ""
        else:
            self._send(response)
