"""What the pair bar offers: everything once, by the name that a person knows, with a reason."""

from app.models.choice_box import Choice
from app.models.choices import drafter_choices, target_choices
from app.models.loader import target_name
from tests.support.app.library_samples import CANDIDATES, DRAFTER, INSTALLED, installed

STARTER = Choice("starter", "smollm2-135m-instruct", "The starter model")
SNAPSHOT = f"/hub/models--someone--Large/snapshots/{'a' * 40}"


def test_targets_are_offered_once_and_drafters_are_not() -> None:
    here = (*INSTALLED, installed("someone/Large", path=SNAPSHOT))
    choices = target_choices(here, starter=STARTER, opened=("/files/a.gguf", SNAPSHOT))
    assert [choice.name for choice in choices] == [
        "smollm2-135m-instruct",
        "a.gguf",
        "Llama-3.2-3B-Instruct-4bit",
        "Qwen3-0.6B-4bit",
        "a-model-of-mine",
        "Large",
    ]
    assert choices[0] is STARTER
    assert choices[-1].value == SNAPSHOT
    assert choices[-2].reason.startswith("It has no tokenizer. Put")
    assert not any(choice.reason for choice in choices if choice is not choices[-2])


def test_a_model_of_the_hub_has_its_name_before_the_list_is_known() -> None:
    (_, choice) = target_choices((), starter=STARTER, opened=(SNAPSHOT,))
    assert (choice.value, choice.name) == (SNAPSHOT, "Large")
    assert target_name(SNAPSHOT) == "Large"
    assert target_name("/models/plain") == "plain"
    assert target_name("") == "the starter model"


def test_drafters_before_anything_is_known_are_not_greyed_out() -> None:
    choices = drafter_choices((), opened=("/drafters/mine",))
    assert [choice.value for choice in choices] == [
        *("auto", "lookup", "head", "early-exit", "none", "/drafters/mine")
    ]
    assert not any(choice.reason for choice in choices)


def test_what_can_draft_and_why_the_rest_cannot() -> None:
    choices = {one.value: one for one in drafter_choices(CANDIDATES, opened=(DRAFTER,))}
    assert len(choices) == 8
    assert choices[DRAFTER].name == "Qwen3-0.6B-4bit"
    assert choices[DRAFTER].line == CANDIDATES[0].reason
    assert {value for value, one in choices.items() if one.reason} == {
        "head",
        "mlx-community/Qwen3-1.7B-4bit",
        "mlx-community/Llama-3.2-3B-Instruct-4bit",
    }
    assert choices["head"].reason.startswith("No head was trained")
    assert choices["mlx-community/Qwen3-1.7B-4bit"].reason.startswith("Not on this machine")
