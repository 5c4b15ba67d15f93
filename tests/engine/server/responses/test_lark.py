"""Grammars as expressions, compared with what they allow."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.server.responses.lark import NotRegular, expression_of

PATCH = r"""
start: begin hunk+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?

// Either of these.
hunk: add | delete
    | update  # or this
add: "*** Add File: " name LF line+
delete: "*** Delete File: " name LF
update: "*** Update File: " name LF ("@@" | "@@ " /(.+)/) LF change~1..3 [last]
name: /(.+)/
line: "+" /(.*)/ LF -> added
change: ("+" | "-" | " ") /(.*)/ LF
last: "*** End of File" LF
%import common.LF
"""


def allows(grammar: str, text: str) -> bool:
    return re.fullmatch(expression_of(grammar), text) is not None


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def test_a_grammar_of_patches() -> None:
    for text, allowed in (
        (patch("*** Add File: a", "+b", "+"), True),
        (patch("*** Add File: a", "+b") + "\n", True),
        (patch("*** Delete File: a", "*** Update File: b", "@@ c", "-d", "+e"), True),
        (patch("*** Update File: b", "@@", " c", "*** End of File"), True),
        (patch("*** Update File: b", "@@", "-c", "-d", "-e", "-f"), False),
        (patch("*** Add File: a"), False),
        (patch("*** Add File: a", "b"), False),
        (patch(), False),
        ("", False),
    ):
        assert allows(PATCH, text) == allowed


@given(st.text(alphabet='ab.*+?()[]{}|^$\\"/\n\t -'))
def test_a_text_allows_itself(text: str) -> None:
    quoted = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n").replace("\t", r"\t")
    assert allows(f'start: "{quoted}"', text)
    assert not allows(f'start: "{quoted}"', text + "x")


def test_what_grammars_are_made_of() -> None:
    for grammar, text in (
        ('start: "a"i', "A"),
        ("start: /a.b/s", "a\nb"),
        ("start: /a\\/b/", "a/b"),
        ('start: A~3\nA: "a"', "aaa"),
        (
            "%import common.INT\n%import common.WS_INLINE\n%import common.CNAME\n"
            "start: INT WS_INLINE CNAME",
            "1 a_1",
        ),
        ('?start: (a | "b")*\n!a.2: "a" ["c"]', "acab"),
        ("start: ", ""),
    ):
        assert allows(grammar, text)
        assert not allows(grammar, text + "!")


def test_what_is_no_expression() -> None:
    for grammar in (
        'start: "(" start ")" | "a"',
        'start: a\na: "x" b\nb: a?',
        "start: a",
        'begin: "a"',
        "",
        'start: "a"\n%ignore " "',
        'start: "a"\n%import common.ESCAPED_STRING',
        'start: "a".."z"',
        'start: ("a"',
        'start: "a")',
        "start: /a/x",
        'start: "\\x41"',
        'start: "a"~',
        "start: a{b}",
        '"a"',
        "start: " + "(" * 5000,
        "\n".join(["start: a", "a: b b b b", "b: c c c c", "c: d d d d", f'd: "{"x" * 999}"']),
    ):
        with pytest.raises(NotRegular):
            expression_of(grammar)


@given(st.text(alphabet='start: ab"/\\|()[]?*+~.123%\n->#', max_size=40))
def test_nonsense_is_refused(nonsense: str) -> None:
    try:
        expression_of("start: " + nonsense)
    except NotRegular:
        return
