"""Messages survive their lines, and what is wrong with any other line is said."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import Problem
from models.json_lines import Language, named_by_class
from models.typed_json import WrongJson


@dataclass(frozen=True)
class Add:
    numbers: tuple[int, ...]

    def __post_init__(self):
        if not self.numbers:
            raise Problem("There is nothing to add.", "Give numbers.")


@dataclass(frozen=True)
class Quit:
    pass


SUMS = Language[Add | Quit]("order", named_by_class(Add, Quit))


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20))
def test_a_message_survives_its_line(numbers):
    line = SUMS.to_line(Add(tuple(numbers)))
    assert line.count(b"\n") == line.endswith(b"\n") == 1
    assert SUMS.read(line) == Add(tuple(numbers))
    assert SUMS.to_json(Quit()) == '{"order": "quit"}'


def test_what_is_wrong_with_a_line():
    faults = {
        b" " * (SUMS.longest_bytes + 1): "too long",
        b" \n": "empty",
        b"\xff": "not utf 8",
        b"[" * 100_000: "nested too deeply",
        b"Welcome to mac2!": "not json",
        b"9" * 999: "not an object",
        b"null": "not an object",
        b"{}": "unknown name",
        b'{"order": ["quit"]}': "unknown name",
        b'{"order": "multiply"}': "unknown name",
        b'{"order": "quit", "now": true}': "unknown field",
        b'{"order": "add"}': "missing field",
        b'{"order": "add", "numbers": 1}': "wrong type",
        b'{"order": "add", "numbers": []}': "wrong value",
    }
    for line, mistake in faults.items():
        with pytest.raises(WrongJson) as refused:
            SUMS.read(line)
        assert refused.value.mistake == mistake, line
        assert refused.value.remedy, line


@given(st.binary(max_size=80))
def test_any_line_is_a_message_or_refused(line):
    try:
        SUMS.read(line)
    except WrongJson:
        return
