"""What is measured in turns, and how it is compared."""

from functools import partial

from tests.lab.cluster.table import (
    PLAIN,
    Answer,
    Measured,
    Place,
    Setting,
    Way,
    differing,
    measure,
    render,
)
from tests.support.engine.ranks import alone
from tests.support.engine.tiny import build

LOOKUP = Way("lookup", "3")


def _measured(round: int, setting: str, way: Way, seconds: float, passes: int = 10) -> Measured:
    return Measured(round, setting, way, 0, Answer((1, 2), 10, passes, seconds))


def test_a_way_is_compared_with_plain_decoding_of_the_same_round_and_setting():
    measured = [
        _measured(0, "one", PLAIN, 1.0),
        _measured(0, "one", LOOKUP, 0.5, passes=4),
        _measured(0, "two", PLAIN, 4.0),
        _measured(0, "two", LOOKUP, 1.0, passes=4),
        _measured(1, "one", PLAIN, 10.0),  # the machine was slow
        _measured(1, "one", LOOKUP, 5.0, passes=4),
        _measured(1, "two", PLAIN, 40.0),
        _measured(1, "two", LOOKUP, 10.0, passes=4),
    ]
    _, _, one, two = (line.split(" | ") for line in render(measured))
    assert "1.00×" in one[1]
    assert "2.00×, 2.5 tokens a pass" in one[2]
    assert "0.25×" in two[1]
    assert "4.00×, 2.5 tokens a pass" in two[2]


def test_an_answer_with_another_text_is_found():
    same, other = Answer((1, 2), 2, 2, 1.0), Answer((1, 3), 2, 2, 1.0)
    answers = [
        Measured(0, "one", PLAIN, 0, same),
        Measured(0, "two", PLAIN, 1, other),  # to another question
        Measured(0, "two", LOOKUP, 0, other),
    ]
    assert differing(answers) == answers[2:]


def test_every_setting_answers_in_every_way_and_learns_for_itself():
    place, arranged = Place(alone(build("llama"))), list[str]()
    settings = [Setting(name, place, partial(arranged.append, name)) for name in ("near", "far")]
    for setting in settings:
        for way in (PLAIN, LOOKUP):
            assert setting.calibrate(way)
    found = list(measure(settings, [PLAIN, LOOKUP], ["a b a b"], rounds=2, most_tokens=12))
    assert len(found) == 8
    assert arranged == ["near", "near", "far", "far"] * 4  # once a round, and for calibrating
    assert not differing(found)
    assert all(each.answer.tokens <= 12 and each.answer.seconds > 0 for each in found)
