"""The panel of several Macs: the hostfile, a switch, and a report as text.

Knows the state of the Macs; no process.
"""

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app import files
from app.cluster.several_macs import SeveralMacs
from app.layout import column_of, row_of, text_area, text_button
from app.switch import Switch
from app.theme.dialog import Dialog
from app.theme.labels import ShortenedLabel, StatusLine, Tone, closing
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


class MacsPanel(Dialog):
    """Not modal, so that the chat can go on. Attributes: its parts."""

    def __init__(self, macs: SeveralMacs, *, parent: QWidget) -> None:
        super().__init__(parent)
        self._macs = macs
        self.switch, self.line = Switch("Use several Macs"), StatusLine(wraps=True)
        self.file = ShortenedLabel(elide=Qt.TextElideMode.ElideMiddle)
        self.choose = text_button("Choose\u2026", self._ask_for_file)
        self.check = text_button("Check", macs.check)
        self.report = text_area(name="The Macs", fixed=True)
        self.setWindowTitle("Several Macs")
        first = row_of((self.switch, Qt.AlignmentFlag.AlignTop), (self.line, 1))
        file = row_of((self.file, 1), self.choose, self.check)
        parts = (first, file, (self.report, 1), closing(self))
        column_of(*parts, on=self, margins=(20, 18, 20, 14), gap=12)
        self.resize(600, 440)
        self.switch.clicked.connect(macs.use)
        macs.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show all as it is now."""
        macs = self._macs
        line, tone = _state_line(macs)
        self.switch.failed = tone == "warning"
        self.switch.setChecked(macs.used)
        self.switch.setEnabled(bool(macs.used or macs.path))
        self.switch.update()
        self.line.say(line, tone)
        name = Path(macs.path).name if macs.path else "No hostfile is chosen."
        self.file.say(name, "text" if macs.path else "muted", tip=macs.path)
        self.check.setText("Try again" if macs.used and macs.finding else "Check")
        can_check = macs.finding is not None if macs.used else macs.path and not macs.checking
        self.check.setEnabled(bool(can_check))
        parts = [str(macs.finding)] if macs.finding else []
        report = clean("\n\n".join([*parts, *map(_lines_of, macs.ranks)] or [_HOW]))
        if report != self.report.toPlainText():
            self.report.setPlainText(report)

    def _ask_for_file(self) -> None:
        files.ask_to_open(self, "Choose a hostfile", "*.json", self._macs.choose)


def _state_line(macs: SeveralMacs) -> tuple[str, Tone]:
    """Return whether the Macs are used, and their state."""
    if not macs.used:
        if macs.checking:
            return "Joining the Macs\u2026", "muted"
        if macs.finding is not None:
            return "Off. The check found something: see below.", "warning"
        if macs.waiting:
            return "Will be off when the answer has ended and the model is loaded here.", "muted"
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


def _lines_of(rank: RankState) -> str:
    """Return a Mac in two lines: its name and state, its chip, layers and memory."""
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
