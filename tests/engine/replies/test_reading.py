"""Stretches: the same however a reply is cut, and from wherever it is continued."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.replies.reading import ReplyReader
from engine.replies.syntax import ReplySyntax
from engine.stretches import Stretch, divided, joined, said
from tests.engine.replies.reading import cut
from tests.engine.replies.test_parser import HARMONY, HERMES, REPLIES, altered


def stretches(reader: ReplyReader, pieces: list[str]) -> list[Stretch]:
    return [one for piece in pieces for one in reader.push(piece)] + reader.finish()


@pytest.mark.parametrize(("syntax", "reply"), REPLIES, ids=[one.family for one, _ in REPLIES])
@given(data=st.data())
def test_stretches_do_not_depend_on_cuts(
    syntax: ReplySyntax, reply: str, data: st.DataObject
) -> None:
    text, inside = data.draw(altered(reply)), data.draw(st.sampled_from(["", "<think>\n"]))
    whole = stretches(ReplyReader(syntax, prompt_ending=inside), [text])
    assert sum(one.length for one in whole) == len(text)
    pieces = cut(text, data.draw(st.lists(st.integers(0, 400), max_size=12)))
    assert joined(stretches(ReplyReader(syntax, prompt_ending=inside), pieces)) == joined(whole)

    place = data.draw(st.integers(0, len(text)))
    rest = ReplyReader(syntax, prompt_ending=inside, written=text[:place])
    going_on = list(divided(text[place:], joined(stretches(rest, [text[place:]]))))
    letters = [(kind, letter) for kind, part in divided(text, joined(whole)) for letter in part]
    assert [(kind, letter) for kind, part in going_on for letter in part] == letters[place:]


def test_what_a_person_reads_of_a_reply() -> None:
    for syntax, ending, text, thought, answer in (
        (HARMONY, "", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final"
         "<|message|>Four.", "Hm.", "Four."),
        (HERMES, "<think>\n", "Hm.\n</think>\n\nFour.", "Hm.", "Four."),
        (HERMES, "", "<think>\n\n</think>\n\nFour.", "", "Four."),
        (ReplySyntax(), "", "<think>Hm.</think>Four.", "", "<think>Hm.</think>Four."),
    ):  # fmt: skip
        found = joined(stretches(ReplyReader(syntax, prompt_ending=ending), [text]))
        assert said(text, found, "reasoning") == thought
        assert said(text, found) == answer
