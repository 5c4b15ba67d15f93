"""A dialog in which a person names the Macs and their addresses; it writes the hostfile.

Knows the format of a hostfile; not its use.
"""

import json
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialogButtonBox,
    QGridLayout,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app import files
from app.copying import CopyField
from app.theme.dialog import Dialog
from app.theme.labels import StatusLine, ToneLabel
from app.theme.style import STYLE_SHEET
from engine.cluster.hosts import HERE, MOST_HOSTS, WrongHosts, hosts_of
from models.errors import Problem

_NAME = "macs.json"
_WORDS = (
    "This Mac is the first. Name the others as ssh knows them (mini.local, or me@mini.local), and "
    "give the address of each Mac on the cable between them."
)
_INCOMPLETE = "Give each Mac a name and an address, or leave both empty."
_MLX = (
    "Or let MLX set up the addresses and write the file, with mlx-lm in Terminal. Never run over "
    "Thunderbolt yet."
)


class HostfileDialog(Dialog):
    """Attributes: `names` and `addresses`, the fields, this Mac's first; `more`, the button for
    another Mac; `line`, the error. Signals: `made(Path)`: a hostfile was written."""

    made = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.names: list[QLineEdit] = []
        self.addresses: list[QLineEdit] = []
        self.more = QPushButton("Another Mac")
        self.line = StatusLine(wraps=True)
        self._grid = QGridLayout()
        self._mlx = CopyField("Command")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Make a hostfile")
        self.setStyleSheet(STYLE_SHEET)
        self._arrange()

    def _arrange(self) -> None:
        words, mlx = ToneLabel(tone="muted"), ToneLabel(tone="muted")
        words.say(_WORDS)
        mlx.say(_MLX)
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(8)
        for place, title in enumerate(("Mac", "Address")):
            heading = ToneLabel(tone="muted")
            heading.say(title)
            self._grid.addWidget(heading, 0, place)
        for _ in range(2):
            self._add()
        self.names[0].setText(HERE[-1])
        self.names[0].setReadOnly(True)
        self.more.setAutoDefault(False)
        self.more.clicked.connect(self._add)
        roles = QDialogButtonBox.StandardButton
        buttons = QDialogButtonBox(roles.Save | roles.Cancel, self)
        buttons.accepted.connect(self.save)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(18, 16, 18, 14)
        column.setSpacing(12)
        column.addWidget(words)
        column.addLayout(self._grid)
        column.addWidget(self.more, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(mlx)
        column.addWidget(self._mlx)
        column.addWidget(self.line)
        column.addStretch(1)
        column.addWidget(buttons)
        self.resize(520, 420)
        self._show_command()

    def save(self) -> None:
        """Ask for a file name and write the hostfile, if the entries are valid."""
        entered = [
            (name.text().strip(), address.text().strip())
            for name, address in zip(self.names, self.addresses, strict=True)
        ]
        if any(bool(name) != bool(address) for name, address in entered):
            self.line.say(_INCOMPLETE, "warning")
            return
        macs = [{"ssh": name, "ips": [address]} for name, address in entered if name]
        try:
            hosts_of(Path(_NAME), macs)
        except WrongHosts as wrong:
            self.line.say(f"{wrong.reason} Correct it above.", "warning")
            return
        text = json.dumps(macs, indent=2) + "\n"
        files.ask_to_save(self, "Save the hostfile", _NAME, lambda path: self._write(path, text))

    def _write(self, path: Path, text: str) -> None:
        try:
            files.write_text(path, text)
        except Problem as problem:
            self.line.say(str(problem), "warning")
            return
        self.made.emit(path)
        self.accept()

    def _add(self) -> None:
        row = len(self.names) + 1
        for column, (fields, name) in enumerate(((self.names, "Mac"), (self.addresses, "Address"))):
            field = QLineEdit()
            field.setAccessibleName(f"{name} {row}")
            fields.append(field)
            self._grid.addWidget(field, row, column)
        self.names[-1].setPlaceholderText("mini.local")
        self.names[-1].textChanged.connect(self._show_command)
        self.addresses[-1].setPlaceholderText(f"192.168.0.{row}")
        self.more.setEnabled(row < MOST_HOSTS)

    def _show_command(self) -> None:
        names = [name.text().strip() for name in self.names]
        names = [name for name in names if name]
        if len(names) < 2:
            names.append("mini.local")
        self._mlx.show_text(
            f"mlx.distributed_config --hosts {','.join(names)} --over thunderbolt --backend ring "
            f"--auto-setup --output-hostfile {_NAME}"
        )
