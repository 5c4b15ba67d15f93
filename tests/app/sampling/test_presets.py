"""Presets survive being kept as text, and nothing that was kept can do harm."""

import json

from hypothesis import given
from hypothesis import strategies as st

from app.sampling.presets import (
    Preset,
    presets_from_json,
    presets_to_json,
    stops_from_text,
    stops_to_text,
    tidy_name,
    with_preset,
)
from engine.request import Sampling

names = st.text(min_size=1, max_size=40).map(tidy_name).filter(bool)
samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.5]),
    top_k=st.integers(0, 100),
    top_p=st.floats(0, 1),
    seed=st.none() | st.integers(0, 2**64 - 1),
)
presets = st.builds(Preset, names, samplings)


@given(st.lists(presets))
def test_saved_presets_are_read_back(kept):
    own = ()
    for preset in kept:
        own = with_preset(own, preset)
    assert presets_from_json(presets_to_json(own)) == own
    assert len({one.name for one in own}) == len(own)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(),
                                lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
                                ).map(json.dumps))  # fmt: skip
def test_any_other_text_is_no_preset(text):
    assert all(isinstance(one, Preset) for one in presets_from_json(text))


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


def test_stop_texts_are_read_as_they_are_written():
    table = {
        "": (),
        "\n\n": (),
        "END\n\n ": ("END", " "),
        r"\n\nUser:": ("\n\nUser:",),
        r"\q\\n" + "\\": ("\\q\\n\\",),
    }
    assert {text: stops_from_text(text) for text in table} == table
