"""Every event survives its JSON line, and no other line is taken for one."""

import contextlib
import json
from dataclasses import is_dataclass
from types import UnionType
from typing import get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import Event, from_json, to_json

SCALARS = {
    str: st.text() | st.just("\ud800 \u2028 \x1b[2J"),
    int: st.integers(0, 10**6),
    float: st.floats(allow_nan=False),
}


def any_of(kind):
    """Any value of a type; of a dataclass, with a value in each field."""
    if is_dataclass(kind):
        fields = get_type_hints(kind).items()
        return st.builds(kind, **{name: any_of(each) for name, each in fields})
    if get_origin(kind) is tuple:
        return st.lists(any_of(get_args(kind)[0]), max_size=3).map(tuple)
    if isinstance(kind, UnionType):
        return st.one_of(map(any_of, get_args(kind)))
    return SCALARS.get(kind, st.from_type(kind))


kinds = {kind.__name__.lower(): any_of(kind) for kind in get_args(Event)}


@pytest.mark.parametrize("kind", kinds)
@given(data=st.data())
def test_an_event_survives_its_line(kind, data):
    event = data.draw(kinds[kind])
    line = to_json(event)
    assert "\n" not in line
    assert line.isascii()
    assert json.loads(line)["event"] == kind
    assert from_json(line) == event
    assert from_json(line + "\n") == event
    assert type(from_json(line)) is type(event)
    hash(from_json(line))  # tuples and frozen dataclasses all the way down


NEAR_MISSES = (
    "",
    "null",
    "[]",
    '"text"',
    "{}",
    '{"event": "text"}',
    '{"event": ["text"]}',
    '{"event": "Text", "generation": "g", "delta": "a"}',
    '{"event": "event", "generation": "g", "delta": "a"}',
    '{"event": "text", "generation": "g", "delta": "a", "more": 1}',
    '{"event": "text", "generation": "g", "delta": "a", "spans": [[1, 0, 1]]}',
    '{"event": "text", "generation": "g", "delta": "a", "spans": [{"round": 1}]}',
    '{"event": "draft", "generation": "g", "round": 0, "tokens": [7], "drafter": "d"}',
    '{"event": "draft", "generation": "g", "round": 0, "tokens": null, "drafter": "d"}',
    '{"event": "done", "generation": "g", "reason": "stop", "stats": []}',
    '{"event": "done", "generation": "g", "reason": "stop", "stats": {"rounds": "1"}}',
    '{"event": "done", "generation": "g", "reason": "over", "stats": {}}',
)


def test_near_misses_are_refused():
    for line in NEAR_MISSES:
        with pytest.raises(ValueError, match="event"):
            pytest.fail(f"{line} is {from_json(line)}")


@given(data=st.data(), event=st.one_of(*kinds.values()))
def test_a_line_that_breaks_off_or_is_changed_raises_a_value_error_at_most(data, event):
    line = to_json(event)
    place = data.draw(st.integers(0, len(line) - 1))
    with pytest.raises(ValueError, match=r"."):
        from_json(line[:place])
    changed = line[:place] + data.draw(st.text(max_size=2)) + line[place + 1 :]
    with contextlib.suppress(ValueError):
        from_json(changed)
