"""Connects the dialog of several Macs to their state. Knows no process, and no pixels."""

from PySide6.QtCore import QObject

from app import files
from app.cluster.panel import MacsPanel
from app.cluster.several_macs import SeveralMacs
from app.theme.labels import Tone
from engine.cluster.states import RankState, divided
from models.in_words import clean, size

_HOW = """\
Several Macs together hold a target that is too large for one. Never run over Thunderbolt yet.

1. On each Mac: Slipstream in the same folder, and Remote Login (System Settings, General, Sharing).
2. Here, in Terminal, for each other Mac: ssh-copy-id MAC
3. A Thunderbolt cable between the Macs, and here, with mlx-lm:
   mlx.distributed_config --hosts THIS-MAC,MAC --over thunderbolt --backend ring --auto-setup \
--output-hostfile macs.json
4. Choose that file, and check it. Its first Mac is this one.

What the Macs send each other is not encrypted: use a cable, or a network of your own.
"""


class MacsController(QObject):
    """Controls one dialog."""

    def __init__(self, panel: MacsPanel, macs: SeveralMacs) -> None:
        super().__init__(panel)
        self._panel, self._macs = panel, macs
        panel.switched.connect(macs.use)
        panel.choice_asked.connect(
            lambda: files.ask_to_open(panel, "Choose a hostfile", "*.json", macs.choose)
        )
        panel.check_asked.connect(macs.check)
        macs.changed.connect(self.show)
        self.show()

    def show(self) -> None:
        """Update the whole dialog."""
        macs = self._macs
        line, tone = self._line()
        self._panel.show_state(line, tone, on=macs.used, possible=bool(macs.used or macs.path))
        action = "" if macs.checking or not macs.path else "Check"
        if macs.used:
            action = "Try again" if macs.finding else ""
        self._panel.show_file(macs.path, action=action)
        parts = [str(macs.finding)] if macs.finding else []
        parts += [_said_of(rank) for rank in macs.ranks]
        self._panel.show_report(clean("\n\n".join(parts or [_HOW])))

    def _line(self) -> tuple[str, Tone]:
        macs = self._macs
        if not macs.used:
            if macs.checking:
                return "Joining the Macs\u2026", "muted"
            if macs.finding is not None:
                return "Off. The check found something: see below.", "warning"
            if macs.waiting:
                return (
                    "Will be off when the answer has ended and the model is loaded here.",
                    "muted",
                )
            return "Off. Models are loaded on this Mac alone.", "muted"
        if macs.finding is not None:
            return "No model could be loaded on these Macs: see below, or switch off.", "warning"
        if macs.resting:
            return "On. The model was unloaded. The next message loads it again.", "muted"
        if macs.loaded:
            return f"On. {divided(macs.ranks)}", "good"
        if macs.waiting and not macs.loading:
            return "The model will be loaded on these Macs when the answer has ended.", "muted"
        joined = macs.ranks and all(rank.state != "starting" for rank in macs.ranks)
        return ("Loading the model\u2026" if joined else "Joining the Macs\u2026"), "muted"


def _said_of(rank: RankState) -> str:
    """A Mac in two lines: its name and state, its chip, layers and memory."""
    facts = [rank.chip]
    if rank.layers is not None:
        facts.append(f"layers {rank.layers[0]}\u2013{rank.layers[1] - 1}")
    elif rank.needed_bytes:
        facts.append("a part of every layer")
    if rank.needed_bytes:
        facts.append(f"{size(rank.needed_bytes)} needed of {size(rank.free_bytes)} that were free")
    elif rank.free_bytes:
        facts.append(f"{size(rank.free_bytes)} free")
    here = " (this Mac)" if rank.rank == 0 else ""
    return f"{rank.host}{here}: {rank.state}\n    {', '.join(filter(None, facts))}".rstrip()
