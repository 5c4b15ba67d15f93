"""Answers as one text: reasoning is found where only marks show it, and nothing is lost."""

from hypothesis import given
from hypothesis import strategies as st

from app.conversations.think_tags import (
    stretches_from_json,
    stretches_in,
    stretches_to_json,
    tagged,
)
from engine.stretches import Stretch, divided, joined, said
from tests.support.app.markdown_texts import reasoning


def test_reasoning_is_found_by_its_marks():
    for text, inside, answer in (
        ("<think>\na\n</think>\n\nb", "a", "b"),
        ("\n<think>a</think>b", "a", "b"),
        ("a\n</think>\n\nb", "a", "b"),
        ("[THINK]a[/THINK]b", "a", "b"),
        ("<think>a", "a", ""),
        ("<think>\n\n</think>\n\nb", "", "b"),
        ("<think></think>b", "", "b"),
        ("a <think>b</think>", "", "a <think>b</think>"),
        ("Use `</think>` so.\n", "", "Use `</think>` so.\n"),
        ("Hello\n\n<think>\na\n</think>\n", "", "Hello\n\n<think>\na\n</think>\n"),
    ):
        stretches = stretches_in(text)
        assert (said(text, stretches, "reasoning"), said(text, stretches)) == (inside, answer), text


@given(text=reasoning)
def test_each_character_has_a_place(text):
    stretches = stretches_in(text)
    assert "".join(part for _, part in divided(text, stretches)) == text
    assert not stretches or sum(one.length for one in stretches) == len(text)
    assert tagged(text, stretches) == text
    assert stretches_from_json(stretches_to_json(stretches), text) == stretches
    assert stretches_from_json(None, text) == stretches_from_json("[7", text) == stretches


@given(kinds=st.lists(st.sampled_from(["content", "reasoning", "mark"]), min_size=1))
def test_what_is_spelled_says_the_same(kinds):
    text = "ab." * len(kinds)
    stretches = joined(Stretch(kind, 3) for kind in kinds)
    again = tagged(text, stretches)
    for kind in ("reasoning", "content"):
        assert said(again, stretches_in(again), kind) == said(text, stretches, kind)
