"""The lane shows a round's draft, then its verdict, by position, colour, line and word."""

import pytest
from PySide6.QtCore import QPointF
from PySide6.QtGui import QColor, QPalette
from pytestqt.qtbot import QtBot

from app.rounds.drawing import Ruler, TokenBox, lay_out
from app.rounds.lane import DraftLane
from app.theme.palette import DARK, LIGHT, Palette
from engine.rounds import Round, joined, judged
from tests.support.app.traces import forced_round, made_round, recorded


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def push_round(lane: DraftLane, *texts: str, number: int = 1, accepted: int = 0) -> None:
    """A draft and its verdict."""
    for one in made_round(number, *texts, accepted=accepted):
        lane.push(one)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lane(qtbot: QtBot, clock: Clock) -> DraftLane:
    lane = DraftLane(clock=clock)
    qtbot.addWidget(lane)
    lane.resize(700, lane.sizeHint().height())
    return lane


def paint_on(lane: DraftLane, colours: Palette) -> None:
    palette = QPalette(lane.palette())
    palette.setColor(QPalette.ColorRole.Window, QColor(colours.paper))
    lane.setPalette(palette)


def seen(lane: DraftLane) -> set[str]:
    """All colours in the lane's picture."""
    image = lane.grab().toImage()
    return {
        QColor(image.pixel(x, y)).name()
        for x in range(image.width())
        for y in range(image.height())
    }


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_a_draft_is_grey_and_its_verdict_is_not(
    lane: DraftLane, clock: Clock, colours: Palette
) -> None:
    paint_on(lane, colours)
    kinds = {colours.accepted, colours.rejected, colours.correction, colours.bonus}
    drafted, ended = made_round(1, " one", " two", " three", accepted=1)
    lane.push(drafted)
    assert not seen(lane) & kinds
    lane.push(ended)
    assert not seen(lane) & kinds, "the draft is to be seen for a moment"
    clock.now += 1.0
    assert seen(lane) & kinds == {colours.accepted, colours.rejected, colours.correction}
    push_round(lane, " one", number=2, accepted=1)
    clock.now += 1.0
    assert seen(lane) & kinds == {colours.accepted, colours.bonus}


def boxes(lane: DraftLane, *, width: float = 600.0) -> tuple[tuple[TokenBox, ...], Ruler]:
    ruler = Ruler(lane.font(), lane.font())
    assert lane.shown is not None
    return lay_out(lane.shown.round, ruler, width=width).boxes, ruler


def test_accepted_tokens_rise_and_the_correction_stands_above_the_rejected(
    lane: DraftLane, clock: Clock
) -> None:
    push_round(lane, " one", " two", " three", " four", accepted=2)
    found, ruler = boxes(lane)
    assert [box.token.fate for box in found] == [
        "accepted",
        "accepted",
        "rejected",
        "discarded",
        "correction",
    ]
    before = [box.rectangle(ruler, 0.0, 0.0) for box in found[:4]]
    after = [box.rectangle(ruler, 1.0, 0.0) for box in found]
    assert len({place.top() for place in before}) == 1
    assert all(place.bottom() < before[0].top() for place in after[:2])
    assert [place.topLeft() for place in after[2:4]] == [place.topLeft() for place in before[2:]]
    assert (after[4].left(), after[4].top()) == (after[2].left(), after[0].top())


def test_what_became_of_tokens_is_said_in_words(lane: DraftLane, clock: Clock) -> None:
    drafted, ended = made_round(7, " one", " two\n", " three", " four", accepted=1)
    lane.push(drafted)
    assert lane.accessibleDescription() == "Round 7: model drafts ·one ·two⏎ ·three ·four."
    lane.push(ended)
    assert lane.shown is not None
    found = lay_out(lane.shown.round, Ruler(lane.font(), lane.font()), width=600)
    assert {label.text for label in found.labels} >= {"correction", "rejected", "2 discarded"}
    assert "1 of 4 accepted; correction: ·own" in lane.accessibleDescription()


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_before_the_first_round_a_line_says_what_is_done(lane: DraftLane, colours: Palette) -> None:
    paint_on(lane, colours)
    empty = seen(lane)
    lane.say("Reading the prompt", share=0.4)
    assert lane.accessibleDescription() == "Reading the prompt"
    assert seen(lane) >= {colours.link, colours.edge, colours.text}
    push_round(lane, " one", accepted=1)
    assert "Reading" not in lane.accessibleDescription()
    lane.clear()
    assert seen(lane) == empty, "the line was of the answer before"


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_forced_tokens_are_told_apart(lane: DraftLane, clock: Clock, colours: Palette) -> None:
    paint_on(lane, colours)
    lane.push(forced_round(4, '{"', "name", '":'))
    clock.now += 1.0
    assert colours.forced in seen(lane)
    assert lane.shown is not None
    ruler = Ruler(lane.font(), lane.font())
    found = lay_out(lane.shown.round, ruler, width=600)
    assert [label.text for label in found.labels] == ["3 forced"]
    assert all(box.rectangle(ruler, 1.0, 0.0).top() < ruler.row for box in found.boxes)
    assert "p " not in found.boxes[0].tip
    assert lane.accessibleDescription() == 'Round 4: the grammar forces {" name ":.'
    many = lay_out(forced_round(5, *["word"] * 40), ruler, width=300)
    assert all(box.left + box.width <= 300 for box in many.fitting(ruler, 1.0))


def test_a_long_draft_is_counted_where_it_does_not_fit(lane: DraftLane) -> None:
    push_round(lane, *[f" word{number}" for number in range(16)], accepted=13)
    assert lane.shown is not None
    ruler = Ruler(lane.font(), lane.font())
    found = lay_out(lane.shown.round, ruler, width=300)
    drafted = found.fitting(ruler, 0.0)
    assert 0 < len(drafted) < 16
    assert all(box.left + box.width <= 300 for box in drafted)
    own = next(box for box in found.fitting(ruler, 1.0) if box.own)
    assert own.left + own.width - found.shift <= 300, "the verdict moves into sight"


def test_what_the_verdict_moves_out_at_the_left_is_counted(lane: DraftLane) -> None:
    # The tokens were cut there, and nothing told that they had been.
    push_round(lane, *[f" word{number}" for number in range(16)], accepted=13)
    assert lane.shown is not None
    ruler = Ruler(lane.font(), lane.font())
    found = lay_out(lane.shown.round, ruler, width=300)
    assert found.cut(ruler, 0.0) == ()
    cut = found.cut(ruler, 1.0)
    assert [box.position for box in cut] == [*range(1, len(cut) + 1)]
    kept = found.fitting(ruler, 1.0)
    assert not {*cut} & {*kept}
    assert min(box.left for box in kept) - found.shift >= ruler.overflow
    assert lay_out(lane.shown.round, ruler, width=3000).cut(ruler, 1.0) == ()


def test_long_tokens_are_elided(lane: DraftLane) -> None:
    lane.push(made_round(1, "x" * 100_000, " short")[0])
    found, ruler = boxes(lane)
    assert "…" in found[0].text
    assert found[0].width < 20 * ruler.text.averageCharWidth() + 20
    assert found[1].text == " short"


def test_the_timer_runs_only_while_something_moves(
    qtbot: QtBot, lane: DraftLane, clock: Clock
) -> None:
    lane.show()
    assert not lane.animating
    push_round(lane, " one", accepted=1)
    assert lane.animating
    with qtbot.waitSignal(lane.rested):
        clock.now += 1.0
    assert not lane.animating


def test_hidden_lanes_do_not_wake_the_machine(lane: DraftLane) -> None:
    lane.push(made_round(1, " one")[0])
    assert not lane.animating
    lane.show()
    assert lane.animating
    lane.hide()
    assert not lane.animating


def test_rounds_that_come_too_fast_are_counted(qtbot: QtBot, lane: DraftLane, clock: Clock) -> None:
    lane.show()
    for number in range(1, 11):
        push_round(lane, " one", number=number, accepted=1)
    assert lane.shown is not None
    assert (lane.shown.round.number, lane.not_shown) == (1, 8)
    clock.now += 1.0
    qtbot.waitUntil(lambda: lane.shown is not None and lane.shown.round.number == 10)
    with qtbot.waitSignal(lane.rested):
        clock.now += 1.0
    assert lane.not_shown == 8
    assert "8 rounds not shown" in lane.accessibleDescription()
    assert "8 rounds not shown" in lane.tip_at(QPointF(lane.width() - 20, 20))
    assert "not shown" not in lane.tip_at(QPointF(20, 20))


def test_reduced_motion_leaves_nothing_half_way(lane: DraftLane, clock: Clock) -> None:
    lane.reduce_motion = True
    push_round(lane, " one", " two")
    clock.now += 0.08  # the verdict has just come
    moving = lane.grab().toImage()
    clock.now += 10.0
    assert lane.grab().toImage() == moving
    assert lane.reduce_motion


def test_with_motion_the_verdict_slides(lane: DraftLane, clock: Clock) -> None:
    push_round(lane, " one", " two")
    clock.now += 0.08
    moving = lane.grab().toImage()
    clock.now += 10.0
    assert lane.grab().toImage() != moving


def test_a_tip_has_the_figures(lane: DraftLane, clock: Clock) -> None:
    push_round(lane, " one", " two")
    clock.now += 1.0
    found, ruler = boxes(lane)
    at = found[0].rectangle(ruler, 1.0, 0.0).center() + QPointF(8, 8)
    assert lane.tip_at(at) == "·one\nrejected, position 1\nq 0.500, p 0.250, chance 50%"
    behind = found[1].rectangle(ruler, 1.0, 0.0).center() + QPointF(8, 8)
    assert "discarded, position 2\nbecause a token before it was rejected" in lane.tip_at(behind)
    own = found[-1].rectangle(ruler, 1.0, 0.0).center() + QPointF(8, 8)
    assert lane.tip_at(own) == "·own\ncorrection, by the target\np 0.500"
    assert lane.tip_at(QPointF(699, 1)) == ""


@pytest.mark.parametrize("width", [40, 200, 700])
def test_every_recorded_round_can_be_shown(lane: DraftLane, clock: Clock, width: int) -> None:
    lane.resize(width, lane.height())
    for one in judged(recorded("stories_early_exit.jsonl")):
        lane.show_round(one)
        assert lane.shown is not None
        assert lane.shown.round == one
        assert not lane.grab().isNull()


def test_any_round_may_come(lane: DraftLane) -> None:
    for happening in joined(recorded("stories_lookup.jsonl")):
        if isinstance(happening, Round):
            lane.push(happening)
    lane.clear()
    assert lane.shown is None
    assert lane.not_shown == 0
