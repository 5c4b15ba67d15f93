"""What is answered behind reasoning, whatever marks a model puts around that."""

from engine.documents.by_section import Said
from engine.replies.reasoning import said_in
from engine.replies.syntax import REASONING

HARMONY = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>"
MARKS = [(marks.opening, marks.closing) for marks in REASONING]


def test_only_what_stands_behind_it_is_the_note() -> None:
    for opening, closing in MARKS:
        noted = Said("A plum.", reasoned=True)
        assert said_in(f"{opening}Hm, a pear?{closing}\n\nA plum.") == noted
        inside = f"<user>Which?<assistant>{opening}"
        assert said_in(f"Hm, a pear?{closing}\nA plum.", prompt_ending=inside) == noted


def test_where_it_comes_to_no_end_there_is_no_note() -> None:
    for opening, closing in MARKS:
        nothing = Said(None, reasoned=True)
        assert said_in(f"{opening}Hm, a pear?") == nothing
        assert said_in("Hm, a pear?", prompt_ending=f"<assistant>{opening}\n") == nothing
        assert said_in(f"{opening}Hm, a pear?{closing}\n") == nothing


def test_a_prompt_that_has_closed_it_leaves_the_reply_as_it_is() -> None:
    for opening, closing in MARKS:
        ending = f"<assistant>{opening}\n\n{closing}\n\n"
        assert said_in("A plum.", prompt_ending=ending) == Said("A plum.")


def test_of_channels_the_last_is_the_note() -> None:
    assert said_in(f"{HARMONY}A plum.") == Said("A plum.", reasoned=True)
    assert said_in(HARMONY[:33]) == Said(None, reasoned=True)


def test_a_note_may_name_the_mark() -> None:
    said = said_in("<think>Hm.</think>It says </think> twice.")
    assert said == Said("It says </think> twice.", reasoned=True)
