"""A dialog in which a person combines drafters in an order, and sets the layers of early exit.

Knows choices and names; not how they draft.
"""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialogButtonBox,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.choice_box import Choice
from app.models.formatting import drafter_name
from app.theme.dialog import Dialog
from app.theme.labels import ToneLabel, plain_label

_EARLY_EXIT = "early-exit"
_ALONE = ("auto", "none")  # cannot be combined
_MOST_LAYERS = 200
_VALUE = int(Qt.ItemDataRole.UserRole)


class CombineDialog(Dialog):
    """Attribute: `value`, for `--drafter`; empty if nothing is ticked.

    Signals: `chosen(str)`: a person accepted this value.
    """

    chosen = Signal(str)

    def __init__(self, choices: Sequence[Choice], chosen: str, *, parent: QWidget) -> None:
        """`choices` are those of the drafters' menu; unavailable ones are not listed."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Combine draft models")
        self.list, self.layers = QListWidget(), QSpinBox()
        self._up, self._down = QPushButton("Up"), QPushButton("Down")
        self._shown = ToneLabel(tone="muted")
        self._buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel, self
        )
        self._ok = self._buttons.button(QDialogButtonBox.StandardButton.Ok)
        self._ok.setText("Use")
        self.layers.setRange(0, _MOST_LAYERS)
        self.layers.setSpecialValueText("Half of the layers")
        self._fill(choices, chosen)
        self._arrange()
        self.list.itemChanged.connect(self._follow)
        self.list.currentRowChanged.connect(self._follow)
        self.layers.valueChanged.connect(self._follow)
        self._up.clicked.connect(lambda: self.move_current(-1))
        self._down.clicked.connect(lambda: self.move_current(1))
        self._buttons.accepted.connect(self.accept)
        self._buttons.rejected.connect(self.reject)
        self.accepted.connect(lambda: self.chosen.emit(self.value))
        self._follow()

    @property
    def value(self) -> str:
        return "+".join(self._written(value) for value in self._ticked())

    def move_current(self, by: int) -> None:
        """Move the selected drafter up or down."""
        place = self.list.currentRow()
        if place >= 0 and 0 <= place + by < self.list.count():
            item = self.list.takeItem(place)
            self.list.insertItem(place + by, item)
            self.list.setCurrentRow(place + by)
        self._follow()

    def _fill(self, choices: Sequence[Choice], chosen: str) -> None:
        parts = [part.strip() for part in chosen.split("+")]
        words = [part.partition(":")[0] if part.startswith(_EARLY_EXIT) else part for part in parts]
        for part in parts:
            word, _, layers = part.partition(":")
            if word == _EARLY_EXIT and layers.isdecimal():
                self.layers.setValue(int(layers))
        single = [
            choice
            for choice in choices
            if not choice.reason
            and choice.value not in _ALONE
            and "+" not in choice.value
            and not choice.value.startswith(f"{_EARLY_EXIT}:")
        ]
        order = {word: place for place, word in enumerate(words)}
        for choice in sorted(single, key=lambda choice: order.get(choice.value, len(order))):
            item = QListWidgetItem(choice.name)
            item.setData(_VALUE, choice.value)
            item.setToolTip(choice.line)
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
            ticked = choice.value in order
            item.setCheckState(Qt.CheckState.Checked if ticked else Qt.CheckState.Unchecked)
            self.list.addItem(item)
        self.list.setCurrentRow(0)

    def _arrange(self) -> None:
        words = ToneLabel()
        words.say(
            "With a fixed draft length, the first of these that has something to propose drafts a "
            "round. With an automatic length, the drafter with the highest expected gain does."
        )
        self.list.setSpacing(2)
        self.list.setAccessibleName("Drafters, in the order in which they are asked")
        self.layers.setAccessibleName("Layers of early exit")
        moves = QVBoxLayout()
        moves.addWidget(self._up)
        moves.addWidget(self._down)
        moves.addStretch(1)
        row = QHBoxLayout()
        row.addWidget(self.list, 1)
        row.addLayout(moves)
        label = plain_label("Early exit drafts with", buddy=self.layers)
        below = QHBoxLayout()
        below.addWidget(label)
        below.addWidget(self.layers)
        below.addStretch(1)
        column = QVBoxLayout(self)
        column.setSpacing(12)
        column.addWidget(words)
        column.addLayout(row, 1)
        column.addLayout(below)
        column.addWidget(self._shown)
        column.addWidget(self._buttons)
        self.resize(460, 400)

    def _ticked(self) -> list[str]:
        items = (self.list.item(row) for row in range(self.list.count()))
        return [
            str(item.data(_VALUE)) for item in items if item.checkState() == Qt.CheckState.Checked
        ]

    def _written(self, value: str) -> str:
        layers = self.layers.value()
        return f"{value}:{layers}" if value == _EARLY_EXIT and layers else value

    def _follow(self) -> None:
        place, last = self.list.currentRow(), self.list.count() - 1
        self._up.setEnabled(place > 0)
        self._down.setEnabled(0 <= place < last)
        self.layers.setEnabled(_EARLY_EXIT in self._ticked())
        self._ok.setEnabled(bool(self.value))
        self._shown.say(drafter_name(self.value) if self.value else "Tick at least one drafter.")
