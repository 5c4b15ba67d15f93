"""The dialog for how a conversation is answered: system prompt, sampling, where answers end.

Knows `engine.request`, which has the only opinion on what is possible. Where settings and
presets are kept is for others.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QGridLayout,
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.choice_box import Choice, ChoiceBox
from app.sampling.presets import (
    BUILT_IN,
    LONGEST_NAME,
    Preset,
    find_preset,
    stops_from_text,
    stops_to_text,
    tidy_name,
    with_preset,
)
from app.status_line import StatusLine
from engine.request import Request, Sampling
from models.errors import Problem

_MOST = float((1 << 31) - 1)


@dataclass(frozen=True, slots=True)
class Number:
    """A number of the settings, by its field in `Sampling` or `Request`."""

    field: str
    name: str
    low: float
    high: float
    step: float
    tip: str
    decimals: int = 4

    @property
    def line(self) -> str:
        """What it is, in a sentence."""
        return f"{self.name}: {self.tip[0].lower()}{self.tip[1:]}."


NUMBERS = (
    Number("temperature", "Temperature", 0, 100, 0.1, "0: always the likeliest token (greedy)"),
    Number(
        "top_p",
        "Top-p",
        0,
        1,
        0.05,
        "Only the likeliest tokens, up to this probability together; 1: off",
    ),
    Number("top_k", "Top-k", 0, _MOST, 10, "Only so many of the likeliest tokens; 0: off", 0),
    Number(
        "min_p",
        "Min-p",
        0,
        1,
        0.01,
        "Only tokens at least this likely, measured by the likeliest; 0: off",
    ),
    Number(
        "repetition_penalty",
        "Repetition",
        0.01,
        100,
        0.05,
        "Divides the chance of what occurred; 1: off",
    ),
    Number("presence_penalty", "Presence", -100, 100, 0.1, "Taken once from what occurred; 0: off"),
    Number(
        "frequency_penalty", "Frequency", -100, 100, 0.1, "Taken for each time it occurred; 0: off"
    ),
    Number(
        "penalty_window",
        "Looking back",
        1,
        1 << 20,
        16,
        "So many of the latest tokens are looked at",
        0,
    ),
    Number("max_tokens", "Longest answer", 1, _MOST, 128, "In tokens", 0),
)
_ROWS = (
    ("Choice of tokens", ("temperature", "top_p", "top_k", "min_p")),
    (
        "Penalties for repeating",
        ("repetition_penalty", "presence_penalty", "frequency_penalty", "penalty_window"),
    ),
)


class SamplingDialog(QDialog):
    """One conversation's settings; show it with `open`.

    `settings` is None where the `defaults` hold. `keep` is called with all of a person's own
    presets whenever one is saved or removed, at once.

    Signals: `applied(str, object)`, the system prompt, and the settings as a Request, or None
    where they are the defaults.
    """

    applied = Signal(str, object)

    def __init__(
        self,
        system_prompt: str,
        settings: Request | None,
        *,
        defaults: Request,
        own: tuple[Preset, ...],
        keep: Callable[[tuple[Preset, ...]], None],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._defaults = defaults
        self._own = own
        self._keep = keep
        self._shown = settings or defaults
        self._filling = False
        self._prompt = QPlainTextEdit(system_prompt)
        self._preset = ChoiceBox("Preset")
        self._save = QPushButton("Save as…")
        self._remove = QPushButton("Remove")
        self._boxes = {number.field: NumberBox(number) for number in NUMBERS}
        self._seed = QLineEdit()
        self._stops = QPlainTextEdit()
        self._line = StatusLine(wraps=True)
        standard = QDialogButtonBox.StandardButton
        self._buttons = QDialogButtonBox(standard.Ok | standard.Cancel | standard.RestoreDefaults)
        self._ok = self._buttons.button(standard.Ok)
        self.setWindowTitle("System prompt and sampling")
        self._arrange()
        self._connect()
        self._offer()
        self.show_request(self._shown)

    def _arrange(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 16, 20, 16)
        column.setSpacing(6)
        self._prompt.setTabChangesFocus(True)
        self._prompt.setPlaceholderText("What the model is told before the conversation begins")
        self._prompt.setFixedHeight(5 * self._prompt.fontMetrics().lineSpacing() + 12)
        column.addWidget(_title("System prompt", self._prompt))
        column.addWidget(self._prompt)
        column.addSpacing(10)
        presets = QHBoxLayout()
        presets.addWidget(self._preset, 1)
        presets.addWidget(self._save)
        presets.addWidget(self._remove)
        column.addWidget(_title("Preset", self._preset))
        column.addLayout(presets)
        for title, fields in _ROWS:
            column.addSpacing(10)
            column.addWidget(_title(title))
            grid = QGridLayout()
            grid.setHorizontalSpacing(12)
            grid.setVerticalSpacing(2)
            for place, field in enumerate(fields):
                self._put(grid, self._boxes[field], self._boxes[field].number.name, place)
            column.addLayout(grid)
        column.addSpacing(10)
        column.addWidget(_title("The answer"))
        ends = QGridLayout()
        ends.setHorizontalSpacing(12)
        ends.setVerticalSpacing(2)
        self._put(ends, self._boxes["max_tokens"], "Longest, in tokens", 0)
        self._put(ends, self._seed, "Seed", 1)
        self._put(ends, self._stops, "Ends before one of these, one a line", 2)
        ends.setColumnStretch(2, 2)
        self._seed.setPlaceholderText("random")
        self._seed.setToolTip("The same seed gives the same answer to the same question")
        self._seed.setMaxLength(20)
        self._stops.setTabChangesFocus(True)
        self._stops.setToolTip("\\n is a line break, \\t a tab")
        self._stops.setFixedHeight(3 * self._stops.fontMetrics().lineSpacing() + 12)
        column.addLayout(ends)
        column.addSpacing(8)
        self._line.setMinimumHeight(2 * self._line.fontMetrics().lineSpacing())
        column.addWidget(self._line)
        column.addStretch(1)
        column.addSpacing(4)
        column.addWidget(self._buttons)
        self.setMinimumWidth(560)

    def _put(self, grid: QGridLayout, widget: QWidget, name: str, place: int) -> None:
        label = QLabel(name)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setBuddy(widget)
        widget.setAccessibleName(name)
        grid.addWidget(label, 0, place)
        grid.addWidget(widget, 1, place, Qt.AlignmentFlag.AlignTop)
        grid.setColumnStretch(place, 1)

    def _connect(self) -> None:
        for box in self._boxes.values():
            box.valueChanged.connect(self._on_change)
            box.focused.connect(self._on_change)  # says what the field is for
        self._seed.textChanged.connect(self._on_change)
        self._stops.textChanged.connect(self._on_change)
        self._preset.chosen.connect(self._choose_preset)
        self._save.clicked.connect(self._ask_name)
        self._remove.clicked.connect(self._remove_preset)
        self._buttons.accepted.connect(self._apply)
        self._buttons.rejected.connect(self.reject)
        restore = self._buttons.button(QDialogButtonBox.StandardButton.RestoreDefaults)
        restore.clicked.connect(lambda: self.show_request(self._defaults))

    def request(self) -> Request:
        """What is asked for, as it stands in the fields. Raises Problem."""
        value = {field: box.value() for field, box in self._boxes.items()}
        seed = self._seed.text().strip()
        if seed and not (seed.isascii() and seed.isdecimal()):
            raise Problem(f"The seed is {seed!r}.", "Choose a whole number, or leave it empty.")
        sampling = Sampling(
            temperature=value["temperature"],
            top_k=round(value["top_k"]),
            top_p=value["top_p"],
            min_p=value["min_p"],
            repetition_penalty=value["repetition_penalty"],
            presence_penalty=value["presence_penalty"],
            frequency_penalty=value["frequency_penalty"],
            penalty_window=round(value["penalty_window"]),
            logit_bias=self._shown.sampling.logit_bias,  # which has no field here
            seed=int(seed) if seed else None,
        )
        return Request(
            sampling=sampling,
            max_tokens=round(value["max_tokens"]),
            stops=stops_from_text(self._stops.toPlainText()),
        )

    def show_request(self, request: Request) -> None:
        """Fill the fields."""
        self._shown = request
        self._filling = True
        for field, box in self._boxes.items():
            owner = request if field == "max_tokens" else request.sampling
            box.setValue(min(float(getattr(owner, field)), box.maximum()))
        self._seed.setText("" if request.sampling.seed is None else str(request.sampling.seed))
        self._stops.setPlainText(stops_to_text(request.stops))
        self._filling = False
        self._on_change()

    def save_preset(self, name: str) -> None:
        """Keep what stands in the fields under this name."""
        name = tidy_name(name)
        try:
            sampling = _bare(self.request().sampling)
        except Problem:
            return  # the line says why
        if not name:
            return
        if any(preset.name == name for preset in BUILT_IN):
            self._line.say(f"“{name}” comes with Slipstream. Choose another name.", "warning")
            return
        self._own = with_preset(self._own, Preset(name, sampling))
        self._keep(self._own)
        self._offer()
        self._on_change()

    def _ask_name(self) -> None:
        dialog = QInputDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle("Save preset")
        dialog.setLabelText("Name of the preset")
        if field := dialog.findChild(QLineEdit):
            field.setMaxLength(LONGEST_NAME)
        dialog.textValueSelected.connect(self.save_preset)
        dialog.open()

    def _remove_preset(self) -> None:
        self._own = tuple(one for one in self._own if one.name != self._preset.value)
        self._keep(self._own)
        self._offer()
        self._on_change()

    def _offer(self) -> None:
        built_in = tuple(Choice(one.name, one.name, one.line) for one in BUILT_IN)
        own = tuple(Choice(one.name, one.name, "One of yours") for one in self._own)
        self._preset.set_choices((*built_in, *own))

    def _choose_preset(self, name: str) -> None:
        preset = next(one for one in (*BUILT_IN, *self._own) if one.name == name)
        shown = self._shown.sampling
        sampling = replace(preset.sampling, seed=shown.seed, logit_bias=shown.logit_bias)
        self.show_request(replace(self._shown, sampling=sampling))

    def _on_change(self) -> None:
        """Say what the fields mean, or what is wrong with them."""
        if self._filling:
            return
        try:
            request = self.request()
        except Problem as problem:
            self._line.say(str(problem), "warning")
            self._ok.setEnabled(False)
            self._save.setEnabled(False)
            return
        self._shown = request
        preset = find_preset(_bare(request.sampling), (*BUILT_IN, *self._own))
        if preset is None:
            self._preset.setPlaceholderText("Your own values")
        self._preset.set_value(preset.name if preset else "")
        self._remove.setEnabled(preset is not None and preset not in BUILT_IN)
        self._ok.setEnabled(True)
        self._save.setEnabled(preset is None)
        focused = self.focusWidget()
        tips = [focused.number.line] if isinstance(focused, NumberBox) else []
        self._line.say(" ".join([*_meaning(request.sampling), *tips]))

    def _apply(self) -> None:
        request = self.request()
        settings = None if request == self._defaults else request
        self.applied.emit(self._prompt.toPlainText(), settings)
        self.accept()


class NumberBox(QDoubleSpinBox):
    """A number, without the zeros at its end. Signals: `focused`."""

    focused = Signal()

    def __init__(self, number: Number) -> None:
        super().__init__()
        self.number = number
        self.setDecimals(number.decimals)
        self.setRange(number.low, number.high)
        self.setSingleStep(number.step)
        self.setToolTip(number.tip)
        self.setAccessibleDescription(number.tip)
        self.setMinimumWidth(80)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focused.emit()

    def textFromValue(self, value: float) -> str:
        text = super().textFromValue(value)
        point = self.locale().decimalPoint()
        return text.rstrip("0").removesuffix(point) if point in text else text


def _bare(sampling: Sampling) -> Sampling:
    """The way of choosing alone: the seed and the biases belong to the conversation."""
    return replace(sampling, seed=None, logit_bias={})


def _meaning(sampling: Sampling) -> Iterator[str]:
    """What holds, in sentences."""
    if sampling.greedy:
        yield "Greedy: always the likeliest token."
        if sampling.filters:
            yield "Top-k, top-p and min-p change nothing."
        if sampling.seed is not None:
            yield "The seed changes nothing."
    if sampling.logit_bias:
        yield f"Token biases ({len(sampling.logit_bias):,}) stay as they are."


def _title(text: str, widget: QWidget | None = None) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    font = label.font()
    font.setBold(True)
    label.setFont(font)
    if widget is not None:
        label.setBuddy(widget)
        widget.setAccessibleName(text)
    return label
