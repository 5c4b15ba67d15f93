"""The dialog returns the settings that it was given, and explains them or a fault in a line."""

import json
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
)

from app.choice_box import ChoiceBox
from app.sampling.dialog import (
    FIELDS,
    LONGEST_SCHEMA,
    NumberBox,
    SamplingDialog,
)
from app.sampling.presets import BUILT_IN, MODELS_DEFAULT, Preset
from app.theme.labels import StatusLine
from engine.request import BALANCED, Grammar, Request, Sampling

DEFAULTS = Request()
PROMPT = "Be\u00a0brief."
ALL = Request(
    sampling=Sampling(
        temperature=0.65,
        top_k=40,
        top_p=0.955,
        min_p=0.0125,
        repetition_penalty=1.1,
        presence_penalty=-0.5,
        frequency_penalty=0.25,
        penalty_window=128,
        logit_bias={5: -1.5},
        seed=2**64 - 1,
        repeatable=True,
    ),
    max_tokens=1_000_000,
    thinking="low",
    thinking_budget=400,
    stops=("\n\nUser:", "END\\"),
    grammar=Grammar("json schema", '{"type": "object"}'),
)
MINE = Preset("Mine", Sampling(temperature=0.3))


class Opened:
    """A dialog, and what came out of it."""

    def __init__(self, qtbot, settings, *own, defaults=DEFAULTS, models_default=BALANCED):
        self.kept = []
        self.applied = []
        self.dialog = SamplingDialog(
            PROMPT,
            settings,
            defaults=defaults,
            models_default=models_default,
            stored=lambda: self.kept[-1] if self.kept else own,
            keep=self.kept.append,
        )
        qtbot.addWidget(self.dialog)
        self.dialog.applied.connect(lambda *said: self.applied.append(said))

    def field(self, kind, name):
        (found,) = (one for one in self.dialog.findChildren(kind) if one.accessibleName() == name)
        return found

    def button(self, text):
        buttons = self.dialog.findChildren(QPushButton)
        (found,) = (one for one in buttons if one.text().replace("&", "") == text)
        return found

    def line(self):
        found = self.dialog.findChild(StatusLine)
        return found

    def choose(self, preset):
        box = self.field(QComboBox, "Preset")
        box.setCurrentIndex(box.findText(preset))
        box.activated.emit(box.currentIndex())

    def answer(self):
        """Press OK."""
        self.button("OK").click()
        (prompt, settings) = self.applied.pop()
        assert prompt == PROMPT
        assert settings is None or isinstance(settings, Request)
        return settings


@pytest.fixture
def opened(qtbot):
    return Opened(qtbot, ALL, MINE)


def test_the_dialog_returns_the_settings_that_it_was_given(opened):
    assert opened.answer() == ALL


def test_the_defaults_are_returned_as_none(qtbot):
    assert Opened(qtbot, None).answer() is None
    assert Opened(qtbot, DEFAULTS).answer() is None
    opened = Opened(qtbot, ALL)
    opened.button("Restore defaults").click()
    assert opened.answer() == replace(DEFAULTS, thinking="low")  # which is not chosen here


def test_every_number_has_a_field(opened):
    names = {field.key for field in FIELDS}
    assert names == set(Sampling.__dataclass_fields__) - {"seed", "repeatable", "logit_bias"}
    for place, box in enumerate(opened.dialog.findChildren(NumberBox)):
        box.setValue(place / 16 + 1 if box.field.decimals else place + 2)
    overflow = opened.field(ChoiceBox, "When the context is full")
    overflow.setCurrentIndex(overflow.findData("stop"))
    overflow.activated.emit(overflow.currentIndex())
    settings = opened.answer()
    assert settings.overflow == "stop"
    for place, box in enumerate(opened.dialog.findChildren(NumberBox)):
        owner = settings if box.field.key == "max_tokens" else settings.sampling
        value = getattr(owner, box.field.key)
        assert value == (min(place / 16 + 1, box.maximum()) if box.field.decimals else place + 2)
        assert isinstance(value, float if box.field.decimals else int)


@pytest.mark.parametrize(
    ("field", "text"),
    [("Seed", "12x"), ("Seed", "99999999999999999999"), ("Temperature", "0.0005")],
)
def test_invalid_values_are_explained(opened, field, text):
    if field == "Seed":
        opened.field(QLineEdit, field).setText(text)
    else:
        opened.field(NumberBox, field).setValue(float(text))
    assert text in opened.line().text
    assert opened.line().tone == "warning"
    assert not opened.button("OK").isEnabled()
    assert not opened.button("Save as…").isEnabled()
    opened.choose("Exact (greedy)")
    opened.field(QLineEdit, "Seed").clear()
    assert opened.button("OK").isEnabled()
    assert opened.line().tone == "muted"


def test_greedy_sampling_names_what_has_no_effect(opened):
    before = opened.line().text
    opened.field(NumberBox, "Temperature").setValue(0)
    for fact in ("Greedy", "Top-k", "seed"):
        assert fact not in before
        assert fact in opened.line().text
    assert "Token biases (1)" in opened.line().text


@pytest.mark.parametrize("preset", [*BUILT_IN, MINE], ids=lambda preset: preset.name)
def test_a_preset_fills_the_fields_and_is_recognized(opened, preset):
    opened.choose(preset.name)
    assert opened.field(QComboBox, "Preset").currentText() == preset.name
    assert opened.button("Remove").isEnabled() == (preset == MINE)
    settings = opened.answer()
    assert settings.sampling.temperature == (preset.sampling or BALANCED).temperature
    assert settings.sampling.top_k == 0
    kept = (settings.sampling.seed, settings.sampling.logit_bias, settings.stops)
    assert kept == (ALL.sampling.seed, ALL.sampling.logit_bias, ALL.stops)


def test_the_models_default_is_followed_until_a_value_is_changed(qtbot):
    models = Sampling(temperature=0.6, top_p=0.95, top_k=20)
    defaults = Request(sampling=None, overflow="middle")
    opened = Opened(qtbot, None, defaults=defaults, models_default=models)
    assert opened.field(QComboBox, "Preset").currentText() == MODELS_DEFAULT.name
    assert opened.field(NumberBox, "Temperature").value() == 0.6
    assert opened.answer() is None
    opened = Opened(qtbot, None, defaults=defaults, models_default=models)
    opened.field(NumberBox, "Max tokens").setValue(77)
    assert opened.answer() == Request(sampling=None, overflow="middle", max_tokens=77)
    opened = Opened(qtbot, None, defaults=defaults, models_default=models)
    opened.field(NumberBox, "Top-k").setValue(30)
    assert opened.field(QComboBox, "Preset").currentIndex() == -1
    opened.field(QLineEdit, "Seed").setText("4")
    opened.field(NumberBox, "Top-k").setValue(20)
    assert opened.field(QComboBox, "Preset").currentText() == MODELS_DEFAULT.name
    # A seed is to give the same words again: it keeps the values of this model.
    settings = opened.answer()
    assert settings.sampling == replace(models, seed=4, repeatable=True)


def test_other_values_have_no_name_until_they_are_saved(opened):
    assert opened.field(QComboBox, "Preset").currentIndex() == -1
    opened.dialog.save_preset("  Exact (greedy) ")
    assert "“Exact (greedy)”" in opened.line().text
    assert opened.line().tone == "warning"
    opened.dialog.save_preset(" \n ")
    assert opened.kept == []
    opened.dialog.save_preset(" Hot\nand cold ")
    (kept,) = opened.kept
    assert [one.name for one in kept] == ["Hot and cold", "Mine"]
    assert (kept[0].sampling.top_k, kept[0].sampling.seed) == (40, None)
    assert opened.field(QComboBox, "Preset").currentText() == "Hot and cold"
    assert not opened.button("Save as…").isEnabled()
    opened.button("Remove").click()
    assert opened.kept[-1] == (MINE,)
    assert opened.field(QComboBox, "Preset").findText("Hot and cold") < 0
    assert opened.answer() == ALL


def test_presets_that_another_window_saved_stay(opened):
    opened.kept.append((MINE, Preset("Theirs", Sampling(temperature=0.7))))
    opened.dialog.save_preset("New")
    assert [one.name for one in opened.kept[-1]] == ["Mine", "New", "Theirs"]
    opened.button("Remove").click()
    assert [one.name for one in opened.kept[-1]] == ["Mine", "Theirs"]


def test_tab_leads_through_every_field(opened, qtbot):
    with qtbot.waitActive(opened.dialog):
        opened.dialog.show()
        opened.dialog.activateWindow()
    first = opened.field(QPlainTextEdit, "System prompt")
    first.setFocus()
    seen = []
    for _ in range(12):
        focused = opened.dialog.focusWidget()
        seen.append(focused.accessibleName())
        if focused.accessibleName() == "Top-p":
            tip = opened.field(NumberBox, "Top-p").field.line
            assert opened.line().text.endswith(tip)
        QTest.keyClick(focused, Qt.Key.Key_Tab)
    fields = [field.name for field in FIELDS]
    wanted = ["System prompt", "Preset", *fields]
    assert [name for name in seen if name in wanted] == wanted
    opened.dialog.close()


def test_a_schema_is_checked_to_be_json(opened):
    field, line = opened.field(QLineEdit, "JSON schema"), opened.line()
    for wrong in ("{", "[1]", "3", '"text"', "[" * 100_000):
        field.setText(wrong)
        assert line.tone == "warning"
        assert "JSON schema" in line.text
        assert not opened.button("OK").isEnabled()
    array = Grammar("json schema", '{"type": "array"}')
    for written, grammar in (('  {"type":\t"array"} ', array), ("  ", None)):
        field.setText(written)
        assert opened.answer().grammar == grammar


def test_a_schema_may_come_from_a_file(opened, tmp_path):
    field, line = opened.field(QLineEdit, "JSON schema"), opened.line()
    file = tmp_path / "person.json"
    file.write_text('{\n  "type": "object",\n  "title": "Gr\u00f6\u00dfe"\n}\n', encoding="utf-8")
    opened.dialog.open_schema(file)
    settings = opened.answer()
    assert json.loads(settings.grammar.source) == {"type": "object", "title": "Gr\u00f6\u00dfe"}
    before = field.text()
    for name, content in (("long", b"x" * (LONGEST_SCHEMA + 1)), ("broken", b"\xff\xfe")):
        (tmp_path / name).write_bytes(content)
        opened.dialog.open_schema(tmp_path / name)
        assert line.tone == "warning"
        assert field.text() == before
    opened.dialog.open_schema(tmp_path / "missing")
    assert field.text() == before


def test_balanced_is_balanced_whatever_the_model(qtbot):
    defaults = Request(sampling=None)
    opened = Opened(qtbot, None, defaults=defaults, models_default=BALANCED)
    opened.choose("Balanced")
    assert opened.field(QComboBox, "Preset").currentText() == "Balanced"
    assert opened.answer() == replace(defaults, sampling=BALANCED)
