"""Connects the panel of several Macs to their state and their commands.

Knows the Macs and the panel; no process, and no pixels.
"""

from dataclasses import replace

from PySide6.QtCore import QObject

from app import files
from app.cluster.hostfile_dialog import HostfileDialog
from app.cluster.mac_list import MacShown
from app.cluster.panel import MacsPanel
from app.cluster.setup_steps import steps_of
from app.cluster.several_macs import SeveralMacs
from app.theme.labels import Tone
from engine.cluster.hosts import HERE
from engine.cluster.states import RankState, divided
from models.errors import Problem

_NONE = "Off. Choose the file that names the Macs, or make one."
_OFF = "Off. Models are loaded on this Mac alone."
_OFF_SOON = "Will be off when the answer has ended and the model is loaded here."
_UNTRUSTED = Problem(
    "Nobody on the network of the Macs is trusted.",
    "Use a cable between them, or answer the question above.",
)


class MacsController(QObject):
    """Controls one panel."""

    def __init__(self, panel: MacsPanel, macs: SeveralMacs) -> None:
        super().__init__(panel)
        self._panel, self._macs = panel, macs
        panel.switched.connect(self._use)
        panel.choice_asked.connect(self._choose)
        panel.making_asked.connect(self._make)
        panel.check_asked.connect(self._check)
        panel.trust_answered.connect(macs.trust)
        macs.changed.connect(self.show)
        self.show()

    def show(self) -> None:
        """Update the whole panel."""
        macs, panel = self._macs, self._panel
        line, tone = self._line()
        panel.show_state(line, tone, on=macs.used, possible=macs.used or bool(macs.names))
        panel.show_file(macs.path, action=self._action())
        panel.macs.show_macs(self._shown())
        open_at = next((rank for rank in macs.ranks if rank.open_network), None)
        finding = macs.finding
        if open_at is None:
            panel.trust.ask("", "", trusted=False)
        else:
            panel.trust.ask(self._name(open_at), open_at.open_network, trusted=macs.trusted)
            if finding is not None and not macs.trusted:
                finding = _UNTRUSTED
        panel.show_steps(
            steps_of(
                named=bool(macs.names),
                ranks=macs.ranks,
                joined=macs.checked or (macs.used and _joined(macs.ranks)),
                loaded=macs.loaded,
                finding=finding,
            )
        )

    def _line(self) -> tuple[str, Tone]:
        macs = self._macs
        if not macs.used:
            if macs.waiting:
                return _OFF_SOON, "muted"
            return (_OFF if macs.path else _NONE), "muted"
        if macs.lost is not None:
            lost = self._name(macs.lost)
            return f"{lost} is lost. The engine starts again, then the chat goes on.", "warning"
        if macs.finding is not None:
            return "No model could be loaded on these Macs: see below, or switch off.", "warning"
        if macs.resting:
            return "On. The model was unloaded. The next message loads it again.", "muted"
        if macs.loaded:
            return f"On. {divided(macs.ranks)}", "good"
        if macs.waiting and not macs.loading:
            return "The model will be loaded on these Macs when the answer has ended.", "muted"
        joined = _joined(macs.ranks)
        return ("Loading the model\u2026" if joined else "Joining the Macs\u2026"), "muted"

    def _action(self) -> str:
        """Return what the button beside the file does; empty to hide it."""
        macs = self._macs
        if macs.used:
            return "Try again" if macs.finding is not None else ""
        return "" if macs.checking or not macs.path else "Check"

    def _shown(self) -> list[MacShown]:
        macs = self._macs
        if macs.ranks:
            return [self._shown_rank(rank) for rank in macs.ranks]
        asked = macs.checking or macs.loading
        words = "Connecting\u2026" if asked else "Not connected"
        return [
            MacShown(_named(name, here=place == 0), words) for place, name in enumerate(macs.names)
        ]

    def _shown_rank(self, rank: RankState) -> MacShown:
        words, tone = self._words(rank)
        finding = self._macs.finding
        if finding is not None and rank.detail == finding.message:
            rank = replace(rank, detail="")  # shown below already
        return MacShown(self._name(rank), words, tone, rank)

    def _words(self, rank: RankState) -> tuple[str, Tone]:
        macs = self._macs
        match rank.state:
            case "starting" if macs.checking or macs.loading:
                return "Connecting\u2026", "muted"
            case "starting":
                return "Not joined", "muted"
            case "loading":
                return "Loading\u2026", "muted"
            case "ready":
                return "Ready", "good"
            case "working":
                return "Working", "good"
            case "lost":
                return ("Lost" if rank.chip else "Not reached"), "warning"

    def _name(self, rank: RankState) -> str:
        alone = sum(each.host == rank.host for each in self._macs.ranks) == 1
        if alone or rank.rank == 0:
            return _named(rank.host, here=rank.rank == 0)
        return f"{rank.host} (rank {rank.rank})"

    def _use(self, on: bool) -> None:
        self._macs.use(on)
        self.show()

    def _choose(self) -> None:
        files.ask_to_open(self._panel, "Choose a hostfile", "*.json", self._macs.choose)

    def _make(self) -> None:
        dialog = HostfileDialog(self._panel)
        dialog.made.connect(self._macs.choose)
        dialog.open()

    def _check(self) -> None:
        if self._macs.used:
            self._macs.try_again()
        else:
            self._macs.check()


def _joined(ranks: tuple[RankState, ...]) -> bool:
    return bool(ranks) and all(rank.state not in ("starting", "lost") for rank in ranks)


def _named(host: str, *, here: bool) -> str:
    if not here:
        return host
    return "This Mac" if host in HERE else f"{host} (this Mac)"
