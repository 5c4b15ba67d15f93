"""The text in a custom tool's arguments, however they are cut."""

import json

from hypothesis import given
from hypothesis import strategies as st

from engine.server.responses import CustomInput

PATCH = '*** Begin Patch\n+"ä" \\ \U0001f600\t\n*** End Patch'


def read(arguments: list[str]) -> tuple[list[str], str]:
    """What is given piece by piece, and the whole text."""
    custom = CustomInput()
    given = [custom.push(piece) for piece in arguments]
    given.append(custom.finish())
    return given, "".join(given)


@given(
    st.text() | st.just(PATCH),
    st.booleans(),
    st.sampled_from([None, 1]),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_every_cut_gives_the_text(
    text: str, ascii: bool, indent: int | None, cuts: list[int]
) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii, indent=indent)
    ends = sorted({min(cut, len(arguments)) for cut in cuts} | {len(arguments)})
    pieces = [arguments[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    given, whole = read(pieces)
    assert "".join(given) == whole == text


def test_it_comes_as_it_is_written() -> None:
    given, _ = read(['{"inp', 'ut": "a', "b\\", "nc\\ud8", '3d\\ude00"', "}"])
    assert given == ["", "a", "b", "\nc", "\U0001f600", "", ""]


def test_what_is_not_as_agreed() -> None:
    for arguments, text in (
        ('{"patch": "a\\n"}', "a\n"),
        ('"a\\n"', "a\n"),
        ('{"a": 1, "b": "c"}', '{"a": 1, "b": "c"}'),
        ("*** Begin", "*** Begin"),
        ("", ""),
        ('{"input": "cut', "cut"),
        ('{"input": "half \\ud83d"}', "half "),
    ):
        assert read([arguments])[1] == text
