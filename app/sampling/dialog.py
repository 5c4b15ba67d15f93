"""The dialog for the answers of a conversation: system prompt, sampling, length, context.

Knows `engine.request`, which validates settings; not where settings and presets are stored.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import (
    QDialogButtonBox,
    QDoubleSpinBox,
    QGridLayout,
    QInputDialog,
    QLabel,
    QLineEdit,
    QWidget,
)

from app import files
from app.choice_box import Choice, ChoiceBox
from app.layout import FREE, Part, column_of, row_of, text_area, text_button
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
from app.theme.dialog import Dialog
from app.theme.labels import StatusLine, plain_label
from engine.request import BALANCED, Grammar, Overflow, Request, Sampling
from models.errors import Problem

_MOST = float((1 << 31) - 1)
LONGEST_SCHEMA = 1 << 20  # characters


@dataclass(frozen=True, slots=True)
class NumberField:
    """A number of the settings that can be edited; `key`: the field of a `Sampling` or a `Request`.
    `span`: the least, the largest and the step. Its `effect` is off at the value `off`, if any."""

    key: str
    name: str
    span: tuple[float, float, float]
    effect: str
    off: int | None = None
    decimals: int = 4

    @property
    def tip(self) -> str:
        return self.effect if self.off is None else f"{self.effect}; {self.off} turns it off"

    @property
    def line(self) -> str:
        """Its effect, in a sentence."""
        return f"{self.name}: {self.tip[0].lower()}{self.tip[1:]}."


_LONGEST = "The longest answer, in tokens"
MAX_TOKENS = NumberField("max_tokens", "Max tokens", (1, _MOST, 128), _LONGEST, decimals=0)
_GREEDY = "0 always picks the likeliest token (greedy)"
_NUCLEUS = "Keeps the likeliest tokens, up to this probability in total"
_ONLY = "Keeps only this many of the likeliest tokens"
_RELATIVE = "Keeps tokens at least this likely, relative to the likeliest"
_SAMPLING = (
    NumberField("temperature", "Temperature", (0, 100, 0.1), _GREEDY),
    NumberField("top_p", "Top-p", (0, 1, 0.05), _NUCLEUS, 1),
    NumberField("top_k", "Top-k", (0, _MOST, 10), _ONLY, 0, decimals=0),
    NumberField("min_p", "Min-p", (0, 1, 0.01), _RELATIVE, 0),
)
_LOWERED = "Lowers the scores of tokens that have occurred by this factor"
_ONCE = "Subtracted once from the score of a token that has occurred"
_EACH_TIME = "Subtracted for each time that a token has occurred"
_WINDOW = "How many recent tokens the penalties look at"
_PENALTIES = (
    NumberField("repetition_penalty", "Repetition", (0.01, 100, 0.05), _LOWERED, 1),
    NumberField("presence_penalty", "Presence", (-100, 100, 0.1), _ONCE, 0),
    NumberField("frequency_penalty", "Frequency", (-100, 100, 0.1), _EACH_TIME, 0),
    NumberField("penalty_window", "Penalty window", (1, 1 << 20, 16), _WINDOW, decimals=0),
)
FIELDS = (*_SAMPLING, *_PENALTIES)
"""The fields of a `Sampling` that can be edited."""

OVERFLOWS: tuple[Choice, ...] = (
    Choice("middle", "Leave out the middle", "The first turn and the latest ones are read"),
    Choice("rolling", "Leave out the oldest", "Only the latest turns are read"),
    Choice("stop", "Stop", "The conversation ends where the context is full"),
)


class SamplingDialog(Dialog):
    """The dialog for a conversation's settings; show it with `open`."""

    applied = Signal(str, object)

    def __init__(
        self,
        system_prompt: str,
        settings: Request | None,
        *,
        defaults: Request,
        models_default: Sampling = BALANCED,
        stored: Callable[[], tuple[Preset, ...]],
        keep: Callable[[tuple[Preset, ...]], None],
        parent: QWidget | None = None,
    ) -> None:
        """`stored` returns the user's presets, which another window may change meanwhile."""
        super().__init__(parent)
        self._defaults, self._models_default = defaults, models_default
        self._follows = False  # the model's default, while the fields have its values
        self._own, self._stored, self._keep = stored(), stored, keep
        self._shown = settings or defaults
        self._filling = False
        self._prompt = text_area(system_prompt, hint="Instructions for the model", lines=5)
        self._given = system_prompt, self._prompt.toPlainText()  # which has other spaces
        self._preset = ChoiceBox("Preset")
        self._save = text_button("Save as…", self._ask_name)
        self._remove = text_button("Remove", self._remove_preset)
        self._boxes = {field.key: NumberBox(field) for field in FIELDS}
        self._max_tokens = NumberBox(MAX_TOKENS)
        self._overflow = ChoiceBox("When the context is full", OVERFLOWS)
        self._seed = QLineEdit()
        self._stops = text_area(lines=3)
        self._schema = QLineEdit()
        self._open_schema = text_button(
            "Open…", self._ask_for_schema, name="Open a file with a JSON schema"
        )
        self._line = StatusLine(wraps=True)
        standard = QDialogButtonBox.StandardButton
        self._buttons = QDialogButtonBox(standard.Ok | standard.Cancel | standard.RestoreDefaults)
        self._ok = self._buttons.button(standard.Ok)
        self._buttons.button(standard.RestoreDefaults).setText("Restore defaults")
        self.setWindowTitle("System prompt and sampling")
        self._arrange()
        self._connect()
        self._show_presets()
        self.show_request(self._shown)

    def _arrange(self) -> None:
        self._preset.setPlaceholderText("Custom values")
        self._seed.setPlaceholderText("random")
        self._seed.setToolTip("The same seed gives the same answer to the same question")
        self._seed.setMaxLength(20)
        self._stops.setToolTip("\\n is a line break, \\t a tab")
        self._schema.setPlaceholderText("None: the answer may be any text")
        self._schema.setMaxLength(LONGEST_SCHEMA)
        self._schema.setToolTip("The answer follows this schema")
        self._line.setMinimumHeight(2 * self._line.fontMetrics().lineSpacing())
        presets = row_of((self._preset, 1), self._save, self._remove)
        parts: list[Part] = [_title("System prompt", self._prompt), self._prompt, 10]
        parts += [_title("Preset", self._preset), presets, 10]
        for title, fields in (("Sampling", _SAMPLING), ("Repetition penalties", _PENALTIES)):
            boxes = {field.name: self._boxes[field.key] for field in fields}
            parts += [_title(title), _named(boxes), 10]
        stops = "Stop sequences, one per line"
        ends = _named({MAX_TOKENS.name: self._max_tokens, "Seed": self._seed, stops: self._stops})
        ends.setColumnStretch(2, 2)
        schema = row_of((self._schema, 1), self._open_schema)
        parts += [_title("The answer"), ends, 10, _title("JSON schema", self._schema), schema, 10]
        parts += [_title("When the context is full", self._overflow), self._overflow, 8]
        column_of(
            *parts, self._line, FREE, 4, self._buttons, on=self, margins=(20, 16, 20, 16), gap=6
        )
        self.setMinimumWidth(560)

    def _connect(self) -> None:
        for box in (*self._boxes.values(), self._max_tokens):
            box.valueChanged.connect(self._on_change)
            box.focused.connect(self._on_change)  # explains the field
        self._seed.textChanged.connect(self._on_change)
        self._stops.textChanged.connect(self._on_change)
        self._schema.textChanged.connect(self._on_change)
        self._overflow.chosen.connect(self._on_change)
        self._preset.chosen.connect(self._choose_preset)
        self._buttons.accepted.connect(self._apply)
        self._buttons.rejected.connect(self.reject)
        restore = self._buttons.button(QDialogButtonBox.StandardButton.RestoreDefaults)
        restore.clicked.connect(self._restore)

    def request(self) -> Request:
        """Return the settings in the fields. Raises Problem."""
        given: dict[str, Any] = {key: box.number for key, box in self._boxes.items()}
        seed = self._seed.text().strip()
        if seed and not (seed.isascii() and seed.isdecimal()):
            raise Problem(
                f"The seed {seed!r} is not a whole number.", "Enter a whole number, or none."
            )
        given |= {"seed": int(seed) if seed else None, "repeatable": seed != ""}
        sampling = replace(self._shown_sampling, **given)  # its biases have no field here
        follows = self._follows and sampling == self._models_default
        return replace(
            self._shown,  # whose thinking has no field here
            sampling=None if follows else sampling,
            max_tokens=round(self._max_tokens.value()),
            stops=stops_from_text(self._stops.toPlainText()),
            overflow=next(one for one in get_args(Overflow) if one == self._overflow.value),
            grammar=grammar_of(self._schema.text()),
        )

    def _restore(self) -> None:
        """Show the defaults. The thinking is not chosen here."""
        self.show_request(replace(self._defaults, thinking=self._shown.thinking))

    @property
    def _shown_sampling(self) -> Sampling:
        return self._shown.sampling or self._models_default

    def show_request(self, request: Request) -> None:
        """Fill the fields."""
        self._follows = request.sampling is None
        self._fill(request)

    def _fill(self, request: Request) -> None:
        self._shown, sampling = request, request.sampling or self._models_default
        self._filling = True
        for key, box in self._boxes.items():
            box.setValue(min(float(getattr(sampling, key)), box.maximum()))
        self._max_tokens.setValue(min(float(request.max_tokens), _MOST))
        self._seed.setText("" if sampling.seed is None else str(sampling.seed))
        self._stops.setPlainText(stops_to_text(request.stops))
        self._overflow.set_value(request.overflow)
        self._schema.setText("" if request.grammar is None else request.grammar.source)
        self._schema.setCursorPosition(0)
        self._filling = False
        self._on_change()

    def save_preset(self, name: str) -> None:
        """Save the settings in the fields as a preset with this name."""
        name = tidy_name(name)
        try:
            sampling = _preset_sampling(self.request().sampling or self._models_default)
        except Problem:
            return  # the line says why
        if not name:
            return
        if any(preset.name == name for preset in BUILT_IN):
            self._line.say(f"“{name}” is a built-in preset. Choose another name.", "warning")
            return
        self._use_presets(with_preset(self._stored(), Preset(name, sampling)))

    def open_schema(self, path: Path) -> None:
        """Use the JSON schema in a file."""
        try:
            with path.open(encoding="utf-8") as file:
                text = file.read(LONGEST_SCHEMA + 1)
        except (OSError, UnicodeDecodeError):
            self._line.say(f"{path.name} cannot be read. Choose another file.", "warning")
            return
        if len(text) > LONGEST_SCHEMA:
            self._line.say(f"{path.name} is too long. Choose another file.", "warning")
            return
        self._schema.setText(" ".join(text.splitlines()))  # the field has one line
        self._schema.setCursorPosition(0)

    def _ask_for_schema(self) -> None:
        files.ask_to_open(self, "Open a JSON schema", "JSON (*.json)", self.open_schema)

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
        removed = self._preset.value
        self._use_presets(tuple(each for each in self._stored() if each.name != removed))

    def _use_presets(self, own: tuple[Preset, ...]) -> None:
        """Keep these as the user's presets."""
        self._own = own
        self._keep(own)
        self._preset.set_value("")  # the box lists its value in any case
        self._show_presets()
        self._on_change()

    def _show_presets(self) -> None:
        built_in = tuple(Choice(preset.name, preset.name, preset.line) for preset in BUILT_IN)
        own = tuple(Choice(preset.name, preset.name, "Your preset") for preset in self._own)
        self._preset.set_choices((*built_in, *own))

    def _choose_preset(self, name: str) -> None:
        preset = next(preset for preset in (*BUILT_IN, *self._own) if preset.name == name)
        shown, sampling = self._shown_sampling, preset.sampling or self._models_default
        sampling = replace(
            sampling,
            seed=shown.seed,
            repeatable=shown.repeatable,
            logit_bias=shown.logit_bias,
        )
        self._follows = preset.sampling is None
        self._fill(replace(self._shown, sampling=sampling))

    def _on_change(self) -> None:
        """Explain the fields, or their first fault."""
        if self._filling:
            return
        try:
            request = self.request()
        except Problem as problem:
            self._line.say(str(problem), "warning")
            self._preset.set_value("")
            for button in (self._ok, self._save, self._remove):
                button.setEnabled(False)
            return
        self._shown = request
        sampling = _preset_sampling(request.sampling or self._models_default)
        follows = self._follows and sampling == self._models_default
        preset = find_preset(None if follows else sampling, (*BUILT_IN, *self._own))
        self._preset.set_value(preset.name if preset else "")
        self._remove.setEnabled(preset is not None and preset not in BUILT_IN)
        self._ok.setEnabled(True)
        self._save.setEnabled(preset is None)
        focused = self.focusWidget()
        tips = [focused.field.line] if isinstance(focused, NumberBox) else []
        self._line.say(" ".join([*_meaning(request.sampling or self._models_default), *tips]))

    def _apply(self) -> None:
        request = self.request()
        settings = None if request == self._defaults else request
        prompt, (given, shown) = self._prompt.toPlainText(), self._given
        self.applied.emit(given if prompt == shown else prompt, settings)
        self.accept()


class NumberBox(QDoubleSpinBox):
    """A box for a number without trailing zeros. Signals: `focused`."""

    focused = Signal()

    def __init__(self, field: NumberField) -> None:
        super().__init__()
        self.field = field
        least, most, step = field.span
        self.setDecimals(field.decimals)
        self.setRange(least, most)
        self.setSingleStep(step)
        self.setToolTip(field.tip)
        self.setAccessibleDescription(field.tip)
        self.setMinimumWidth(80)

    @property
    def number(self) -> float:
        """The value, as an int where the field is whole."""
        return self.value() if self.field.decimals else round(self.value())

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focused.emit()

    def textFromValue(self, value: float) -> str:
        text = super().textFromValue(value)
        point = self.locale().decimalPoint()
        return text.rstrip("0").removesuffix(point) if point in text else text


def grammar_of(schema: str) -> Grammar | None:
    """Return the grammar of the JSON schema in this text; None for an empty text. Raises Problem.

    The engine decides whether the schema is meaningful.
    """
    if not schema.strip():
        return None
    remedy = "Correct it, or leave the field empty."
    try:
        value = json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise Problem(f"The JSON schema is not JSON: {error}.", remedy) from None
    if not isinstance(value, dict | bool):
        raise Problem("The JSON schema is not an object.", remedy)
    return Grammar("json schema", json.dumps(value, ensure_ascii=False))


def _preset_sampling(sampling: Sampling) -> Sampling:
    """Return the settings that a preset has; the seed and the biases belong to the conversation."""
    return replace(sampling, seed=None, repeatable=False, logit_bias={})


def _meaning(sampling: Sampling) -> Iterator[str]:
    """Iterate over sentences about the settings' combined effect."""
    if sampling.greedy:
        yield "Greedy: always the likeliest token."
        if sampling.filters:
            yield "Top-k, top-p and min-p have no effect."
        if sampling.seed is not None:
            yield "The seed has no effect."
    if sampling.logit_bias:
        yield f"Token biases ({len(sampling.logit_bias):,}) are kept."


def _named(widgets: Mapping[str, QWidget]) -> QGridLayout:
    """Return widgets next to each other, each below its name."""
    grid = QGridLayout()
    grid.setHorizontalSpacing(12)
    grid.setVerticalSpacing(2)
    for place, (name, widget) in enumerate(widgets.items()):
        widget.setAccessibleName(name)
        grid.addWidget(plain_label(name, buddy=widget), 0, place)
        grid.addWidget(widget, 1, place, Qt.AlignmentFlag.AlignTop)
        grid.setColumnStretch(place, 1)
    return grid


def _title(text: str, widget: QWidget | None = None) -> QLabel:
    label = plain_label(text, bold=True, buddy=widget)
    if widget is not None:
        widget.setAccessibleName(text)
    return label
