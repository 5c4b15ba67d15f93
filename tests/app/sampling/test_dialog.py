"""The dialog returns the settings that it was given, and explains them or a fault in a line;
presets survive being kept as text, and nothing that was kept can do harm."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtWidgets import QComboBox, QLineEdit, QPushButton

from app.choice_box import ChoiceBox
from app.sampling.dialog import FIELDS, LONGEST_SCHEMA, NumberBox, SamplingDialog
from app.sampling.presets import (
    BUILT_IN,
    MODELS_DEFAULT,
    Preset,
    presets_from_json,
    presets_to_json,
    stops_from_text,
    stops_to_text,
    tidy_name,
    with_preset,
)
from app.theme.labels import StatusLine
from engine.request import BALANCED, Grammar, Request, Sampling
from tests.support.app.window_use import part, pick

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
        return part(self.dialog, kind, name)

    def button(self, text):
        return part(self.dialog, QPushButton, text)

    @property
    def line(self):
        return part(self.dialog, StatusLine)

    @property
    def preset(self):
        return self.field(QComboBox, "Preset")

    def answer(self):
        """Press OK."""
        self.button("OK").click()
        (prompt, settings) = self.applied.pop()
        assert prompt == PROMPT
        return settings


@pytest.fixture
def opened(qtbot):
    return Opened(qtbot, ALL, MINE)


def test_the_dialog_returns_the_settings_that_it_was_given_and_the_defaults_as_none(qtbot):
    for settings, answer in ((ALL, ALL), (None, None), (DEFAULTS, None)):
        opened = Opened(qtbot, settings)
        assert opened.answer() == answer
    opened = Opened(qtbot, ALL)
    opened.button("Restore defaults").click()
    assert opened.answer() == replace(DEFAULTS, thinking="low")  # which is not chosen here


def test_every_number_has_a_field(opened):
    names = {field.key for field in FIELDS}
    assert names == set(Sampling.__dataclass_fields__) - {"seed", "repeatable", "logit_bias"}
    boxes = opened.dialog.findChildren(NumberBox)
    for place, box in enumerate(boxes):
        box.setValue(place / 16 + 1 if box.field.decimals else place + 2)
    overflow = opened.field(ChoiceBox, "When the context is full")
    overflow.setCurrentIndex(overflow.findData("stop"))
    overflow.activated.emit(overflow.currentIndex())
    settings = opened.answer()
    assert settings.overflow == "stop"
    for place, box in enumerate(boxes):
        owner = settings if box.field.key == "max_tokens" else settings.sampling
        value = getattr(owner, box.field.key)
        assert value == (min(place / 16 + 1, box.maximum()) if box.field.decimals else place + 2)
        assert isinstance(value, float if box.field.decimals else int)


@pytest.mark.parametrize(
    ("field", "text"),
    [("Seed", "12x"), ("Seed", "99999999999999999999"), ("Temperature", "0.0005")],
)
def test_invalid_values_are_explained_and_a_preset_takes_their_place(opened, field, text):
    pick(opened.preset, "Exact (greedy)")
    if field == "Seed":
        opened.field(QLineEdit, field).setText(text)
    else:
        opened.field(NumberBox, field).setValue(float(text))
    assert text in opened.line.text
    assert opened.line.tone == "warning"
    assert not opened.button("OK").isEnabled()
    assert not opened.button("Save as…").isEnabled()
    pick(opened.preset, "Exact (greedy)")
    opened.field(QLineEdit, "Seed").clear()
    assert opened.button("OK").isEnabled()
    assert opened.line.tone == "muted"


@pytest.mark.parametrize("preset", [*BUILT_IN, MINE], ids=lambda preset: preset.name)
def test_a_preset_fills_the_fields_and_is_recognized(opened, preset):
    pick(opened.preset, preset.name)
    assert opened.preset.currentText() == preset.name
    assert opened.button("Remove").isEnabled() == (preset == MINE)
    settings = opened.answer()
    assert settings.sampling.temperature == (preset.sampling or BALANCED).temperature
    assert settings.sampling.top_k == 0
    kept = (settings.sampling.seed, settings.sampling.logit_bias, settings.stops)
    assert kept == (ALL.sampling.seed, ALL.sampling.logit_bias, ALL.stops)


def test_the_models_default_is_followed_until_a_value_is_changed(qtbot):
    models = Sampling(temperature=0.6, top_p=0.95, top_k=20)
    defaults = Request(sampling=None, overflow="middle")

    def opened(default=models):
        return Opened(qtbot, None, defaults=defaults, models_default=default)

    dialog = opened()
    assert dialog.preset.currentText() == MODELS_DEFAULT.name
    assert dialog.field(NumberBox, "Temperature").value() == 0.6
    assert dialog.answer() is None
    dialog.field(NumberBox, "Max tokens").setValue(77)
    assert dialog.answer() == Request(sampling=None, overflow="middle", max_tokens=77)
    dialog = opened()
    dialog.field(NumberBox, "Top-k").setValue(30)
    assert dialog.preset.currentIndex() == -1
    dialog.field(QLineEdit, "Seed").setText("4")
    dialog.field(NumberBox, "Top-k").setValue(20)
    assert dialog.preset.currentText() == MODELS_DEFAULT.name
    # A seed is to give the same words again: it keeps the values of this model.
    assert dialog.answer().sampling == replace(models, seed=4, repeatable=True)
    dialog = opened(BALANCED)
    pick(dialog.preset, "Balanced")
    assert dialog.preset.currentText() == "Balanced"
    assert dialog.answer() == replace(defaults, sampling=BALANCED)


def test_other_values_have_no_name_until_they_are_saved(opened):
    assert opened.preset.currentIndex() == -1
    opened.dialog.save_preset("  Exact (greedy) ")
    assert "“Exact (greedy)”" in opened.line.text
    assert opened.line.tone == "warning"
    opened.dialog.save_preset(" \n ")
    assert opened.kept == []
    opened.dialog.save_preset(" Hot\nand cold ")
    (kept,) = opened.kept
    assert [one.name for one in kept] == ["Hot and cold", "Mine"]
    assert (kept[0].sampling.top_k, kept[0].sampling.seed) == (40, None)
    assert opened.preset.currentText() == "Hot and cold"
    assert not opened.button("Save as…").isEnabled()
    opened.kept.append((*kept, Preset("Theirs", Sampling(temperature=0.7))))  # another window
    opened.button("Remove").click()
    assert [one.name for one in opened.kept[-1]] == ["Mine", "Theirs"]
    assert opened.preset.findText("Hot and cold") < 0
    opened.dialog.save_preset("New")
    assert [one.name for one in opened.kept[-1]] == ["Mine", "New", "Theirs"]
    assert opened.answer() == ALL


def test_a_schema_is_checked_to_be_json_and_may_come_from_a_file(opened, tmp_path):
    field = opened.field(QLineEdit, "JSON schema")
    for wrong in ("{", "[1]", "3", '"text"', "[" * 100_000):
        field.setText(wrong)
        assert opened.line.tone == "warning"
        assert "JSON schema" in opened.line.text
        assert not opened.button("OK").isEnabled()
    array = Grammar("json schema", '{"type": "array"}')
    for written, grammar in (('  {"type":\t"array"} ', array), ("  ", None)):
        field.setText(written)
        assert opened.answer().grammar == grammar
    schema = {"type": "object", "title": "Größe"}
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema, ensure_ascii=False, indent=2), encoding="utf-8")
    opened.dialog.open_schema(file)
    assert json.loads(opened.answer().grammar.source) == schema
    before = field.text()
    for name, content in (("long", b"x" * (LONGEST_SCHEMA + 1)), ("broken", b"\xff\xfe")):
        (tmp_path / name).write_bytes(content)
        opened.dialog.open_schema(tmp_path / name)
        assert opened.line.tone == "warning"
        assert field.text() == before
    opened.dialog.open_schema(tmp_path / "missing")
    assert field.text() == before


names = st.text(min_size=1, max_size=40).map(tidy_name).filter(bool)
samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.5]),
    top_k=st.integers(0, 100),
    top_p=st.floats(0, 1),
    seed=st.none() | st.integers(0, 2**64 - 1),
)
presets = st.builds(Preset, names, samplings)
LENGTHS = st.integers(0, 3)


@given(st.lists(presets))
def test_saved_presets_are_read_back(kept):
    own = ()
    for preset in kept:
        own = with_preset(own, preset)
    assert presets_from_json(presets_to_json(own)) == own
    assert len({one.name for one in own}) == len(own)


@given(st.lists(presets, min_size=1), st.data())
def test_any_other_text_is_no_preset(kept, data):
    """A file in which one part is another."""
    text = presets_to_json(tuple(kept))
    start = data.draw(st.integers(0, len(text)))
    spoilt = text[:start] + data.draw(st.text(max_size=3)) + text[start + data.draw(LENGTHS) :]
    assert all(isinstance(one, Preset) for one in presets_from_json(spoilt))


def test_an_invalid_preset_leaves_the_others_and_a_name_is_one_line():
    kept = json.loads(presets_to_json((Preset("good", Sampling(top_k=3)),)))
    kept |= {"hot": {"sampling": {"temperature": 1e9}}, "\n": kept["good"], "list": []}
    assert presets_from_json(json.dumps(kept)) == (Preset("good", Sampling(top_k=3)),)
    assert presets_from_json("[" * 100_000) == ()
    assert tidy_name(" a\n\u202eb\t c\x00 ") == "a b c"
    assert tidy_name("x" * 100) == "x" * 60


@given(st.lists(st.text(min_size=1)))
def test_stop_texts_survive_being_written_in_lines(stops):
    assert stops_from_text(stops_to_text(tuple(stops))) == tuple(stops)
    table = {
        "": (),
        "\n\n": (),
        "END\n\n ": ("END", " "),
        r"\n\nUser:": ("\n\nUser:",),
        r"\q\\n" + "\\": ("\\q\\n\\",),
    }
    assert {text: stops_from_text(text) for text in table} == table
