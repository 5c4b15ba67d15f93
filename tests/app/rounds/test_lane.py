"""The lane shows a round's draft, then its verdict, by position, colour, line and word."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPointF
from PySide6.QtGui import QColor, QFont, QPalette
from pytestqt.qtbot import QtBot

from app.rounds.drawing import RoundLayout, Ruler, TokenBox, lay_out, row_count
from app.rounds.lane import DraftLane
from app.theme.palette import DARK, LIGHT, Palette
from engine.conversation.rounds import Round, joined, judged
from engine.tree import Tree
from tests.support.app.traces import forced_round, made_round, recorded, tree_round, trees
from tests.support.mostly_slow import mostly_slow


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def push_round(lane: DraftLane, *texts: str, number: int = 1, accepted: int = 0) -> None:
    """A draft and its verdict."""
    for one in made_round(number, *texts, accepted=accepted):
        lane.show_round(one)


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
    lane.show_round(drafted)
    assert not seen(lane) & kinds
    lane.show_round(ended, animated=True)
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
    lane.show_round(drafted)
    assert lane.accessibleDescription() == "Round 7: model drafts ·one ·two⏎ ·three ·four."
    lane.show_round(ended)
    assert lane.shown is not None
    found = lay_out(lane.shown.round, Ruler(lane.font(), lane.font()), width=600)
    assert {label.text for label in found.labels} >= {"correction", "rejected", "2 discarded"}
    assert "1 of 4 accepted; correction: ·own" in lane.accessibleDescription()


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_forced_tokens_are_told_apart(lane: DraftLane, clock: Clock, colours: Palette) -> None:
    paint_on(lane, colours)
    lane.show_round(forced_round(4, '{"', "name", '":'))
    clock.now += 1.0
    assert colours.forced in seen(lane)
    assert lane.shown is not None
    ruler = Ruler(lane.font(), lane.font())
    found = lay_out(lane.shown.round, ruler, width=600)
    assert [label.text for label in found.labels] == ["3 forced"]
    assert all(box.rectangle(ruler, 1.0, 0.0).top() < ruler.row for box in found.boxes)
    assert "p " not in found.boxes[0].tip
    assert lane.accessibleDescription() == 'Round 4: forced {" name ":.'
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
    lane.show_round(made_round(1, "x" * 100_000, " short")[0])
    found, ruler = boxes(lane)
    assert "…" in found[0].text
    assert found[0].width < 20 * ruler.text.averageCharWidth() + 20
    assert found[1].text == " short"


def test_the_verdict_comes_after_a_moment(qtbot: QtBot, lane: DraftLane) -> None:
    came: list[bool] = []
    lane.judged.connect(lambda: came.append(True))
    lane.show_round(made_round(1, " one")[1])
    assert came == [True], "at once"
    lane.show_round(made_round(2, " one")[1], animated=True)
    assert came == [True]
    qtbot.waitUntil(lambda: came == [True, True])


def test_reduced_motion_leaves_nothing_half_way(lane: DraftLane, clock: Clock) -> None:
    lane.reduce_motion = True
    lane.show_round(made_round(1, " one", " two")[1], animated=True)
    clock.now += 0.22  # the verdict has just come
    moving = lane.grab().toImage()
    clock.now += 10.0
    assert lane.grab().toImage() == moving
    assert lane.reduce_motion


def test_with_motion_the_verdict_slides(lane: DraftLane, clock: Clock) -> None:
    lane.show_round(made_round(1, " one", " two")[1], animated=True)
    clock.now += 0.25
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
            lane.show_round(happening)
    lane.clear()
    assert lane.shown is None


# Trees

TREE = (
    *((" the", -1, 0.6), (" a", -1, 0.75), (" dog", 0, 0.5), (" ran", 2, 0.9)),
    *((" cat", 0, 0.2), (" red", 1, 0.4), (" hat", 5, 0.3), (" sat", 2, 0.1)),
)
MANY = tuple((f" word{n}", -1 if n % 4 == 0 else n - 1, 0.5 / (1 + n)) for n in range(32))


def laid_out(round: Round, *, most_rows: int = 4, width: float = 2000.0) -> RoundLayout:
    ruler = Ruler(QFont(), QFont())
    return lay_out(round, ruler, width=width, most_rows=most_rows)


def rows(layout: RoundLayout, verdict: int) -> dict[int, list[str]]:
    """The tokens of each row, from left to right."""
    found: dict[int, list[TokenBox]] = {}
    for box in layout.boxes:
        if (row := box.rows[verdict]) is not None:
            found.setdefault(row, []).append(box)
    return {
        row: [box.token.text for box in sorted(of_row, key=lambda box: box.left)]
        for row, of_row in sorted(found.items())
    }


def test_a_tree_has_a_row_for_each_branch_and_a_column_for_each_depth() -> None:
    layout = laid_out(tree_round(1, *TREE)[0])
    assert rows(layout, 0) == {
        1: [" the", " dog", " ran"],
        2: [" sat"],
        3: [" cat"],
        4: [" a", " red", " hat"],
    }
    columns: dict[int, set[float]] = {}
    for box in layout.boxes:
        columns.setdefault(box.position, set()).add(box.left)
    assert all(len(lefts) == 1 for lefts in columns.values())
    lines = {box.token.text: parent for parent, box in layout.lines}
    assert lines == {text: parent for text, parent, _ in TREE}


def test_the_accepted_path_rises_out_of_any_branch() -> None:
    layout = laid_out(tree_round(1, *TREE, path=(1, 5))[1])
    assert rows(layout, 0) == rows(laid_out(tree_round(1, *TREE)[0]), 0), "nothing is foreseen"
    assert rows(layout, 1) == {
        0: [" a", " red", " own"],
        1: [" hat"],
        2: [" the", " dog", " ran"],
        3: [" sat"],
        4: [" cat"],
    }
    assert {label.text for label in layout.labels} == {
        *("correction", "2 accepted", "2 rejected", "4 discarded"),
    }


def test_of_many_branches_the_most_promising_are_shown_and_the_accepted_one() -> None:
    drafted = tree_round(1, *MANY)[0]
    assert row_count(drafted, most=4) == 4
    before = rows(laid_out(drafted), 0)
    assert [row[0] for row in before.values()] == [" word0", " word4", " word8", " word12"]
    path = drafted.tree.path(30)
    after = laid_out(tree_round(1, *MANY, path=path)[1])
    assert rows(after, 0) == before
    assert rows(after, 1)[0] == [" word28", " word29", " word30", " own"]
    assert max(rows(after, 1)) == 4
    assert after.tokens == 32


def test_a_chain_is_laid_out_as_ever() -> None:
    layout = laid_out(made_round(1, " one", " two", " three", accepted=1)[1])
    assert layout.lines == ()
    assert rows(layout, 0) == {1: [" one", " two", " three"]}
    assert rows(layout, 1) == {0: [" one", " own"], 1: [" two", " three"]}
    one, two, three, own = layout.boxes
    assert [one.left, two.left - one.width, three.left - two.left - two.width] == [0.0, 4.0, 4.0]
    assert own.left == two.left


@given(drawn=trees(), data=st.data())
def test_no_two_lines_of_a_tree_cross(drawn: Tree, data: st.DataObject) -> None:
    tokens = [(f"t{n}", p, data.draw(st.floats(0, 1))) for n, p in enumerate(drawn.parents)]
    path = drawn.path(data.draw(st.integers(-1, len(drawn) - 1)))
    layout = laid_out(tree_round(1, *tokens, path=path)[1], most_rows=data.draw(st.integers(1, 6)))
    for verdict in (0, 1):
        places = {
            box.number: (row, box.position)
            for box in layout.boxes
            if not box.own and (row := box.rows[verdict]) is not None
        }
        assert len(set(places.values())) == len(places), "two tokens in one place"
        top = 0 if verdict else 1
        lines = [
            (column, drawn.parents[number], places.get(drawn.parents[number], (top, 0))[0], row)
            for number, (row, column) in places.items()
        ]
        assert all(begin <= end for _, _, begin, end in lines), "a branch is below its beginning"
        for one, other in combinations(lines, 2):
            if one[0] == other[0] and one[1] != other[1]:  # in one gap, from two tokens
                assert one[3] < other[2] or other[3] < one[2]


def test_the_lane_grows_with_a_tree_and_not_without_end(lane: DraftLane) -> None:
    low = lane.sizeHint().height()
    push_round(lane, " one", " two", " three", accepted=2)
    assert lane.sizeHint().height() == low
    for number, tokens in enumerate((TREE, MANY), start=2):
        for one in tree_round(number, *tokens):
            lane.show_round(one)
    high = lane.sizeHint().height()
    assert low < high < 2.2 * low
    push_round(lane, " one", number=4, accepted=1)
    assert lane.sizeHint().height() == high, "what is below does not jump"
    lane.clear()
    assert lane.sizeHint().height() == low
    lane.make_room([tree_round(1, *MANY)[1]])
    lane.clear()
    assert lane.sizeHint().height() == high


def test_a_single_large_tree_leaves_no_empty_lane_for_all_rounds(lane: DraftLane) -> None:
    low = lane.sizeHint().height()
    lane.most_rows *= 2
    tree = tree_round(1, *MANY)[1]
    lane.make_room([made_round(number, " one", accepted=1)[1] for number in range(30)] + [tree])
    assert lane.sizeHint().height() == low
    lane.show_round(tree)
    usual = lane.sizeHint().height()
    lane.make_room([tree] * 30)
    assert low < usual < lane.sizeHint().height()


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_a_tree_is_grey_before_its_verdict(lane: DraftLane, clock: Clock, colours: Palette) -> None:
    paint_on(lane, colours)
    kinds = {colours.accepted, colours.rejected, colours.correction, colours.bonus}
    drafted, ended = tree_round(1, *TREE, path=(1, 5))
    lane.show_round(drafted)
    lane.resize(700, lane.sizeHint().height())
    assert not seen(lane) & kinds
    assert colours.bar in seen(lane), "the lines"
    lane.show_round(ended)
    clock.now += 1.0
    assert seen(lane) & kinds == {colours.accepted, colours.rejected, colours.correction}


def test_a_tip_tells_a_token_from_its_alternatives(lane: DraftLane, clock: Clock) -> None:
    _, ended = tree_round(1, *TREE, path=(1,))
    lane.show_round(ended)
    tips = {box.token.text: box.tip for box in laid_out(ended).boxes}
    assert tips[" a"] == (
        "·a\naccepted, position 1, alternative 2 of 2\nq 0.750, p 0.375, chance 19%"
    )
    assert "position 2\n" in tips[" red"]
    box = next(box for box in laid_out(ended).boxes if box.token.text == " the")
    ruler = Ruler(lane.font(), lane.font())
    at = box.rectangle(ruler, 1.0, 0.0).center() + QPointF(8, 8)
    assert lane.tip_at(at) == tips[" the"]


@pytest.mark.parametrize("width", mostly_slow([40, 160, 280, 450, 1200], quick=[40, 450]))
def test_any_tree_can_be_shown_in_any_width(lane: DraftLane, clock: Clock, width: int) -> None:
    tree = tree_round(1, *MANY)[0].tree
    for number in range(-1, len(tree)):
        drafted, ended = tree_round(number + 2, *MANY, path=tree.path(number))
        lane.show_round(drafted)
        lane.resize(width, lane.sizeHint().height())
        lane.grab()
        lane.show_round(ended)
        for _ in range(3):
            clock.now += 0.1
            assert not lane.grab().isNull()
        layout = lane._layout()
        assert layout is not None
        fitting = layout.fitting(lane._ruler(), 1.0)
        assert all(box.left >= layout.shift for box in fitting)
    assert "more in other branches" in lane.accessibleDescription()
