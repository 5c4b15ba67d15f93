"""Text and drafts are handed on together, at a rate that can be followed."""

from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from app.rounds.pace import GATHER_SECONDS, SHOWN_SECONDS, Pace, PaceTimer
from engine.events import Text
from tests.support.app.traces import made_round


class Shown(NamedTuple):
    """A time of handing on, with all text so far and the round after it."""

    at: float
    text: str
    round: object


def text_of(number):
    return f"<{number}>"


def play(rounds):
    """Play rounds, each of two times, a number of drafted tokens, and how many of them are
    accepted. Returns all that was handed on, and when the text of each round came."""
    pace, now, text = Pace(), 0.0, ""
    seen = []
    came = {}

    def wait(until):
        nonlocal text
        while (due := pace.due()) is not None and due <= until:
            delta, shown = pace.take(due)
            text += delta
            seen.append(Shown(due, text, shown))

    for number, (drafting, verifying, drafted, accepted) in enumerate(rounds, start=1):
        words = [f" {n}" for n in range(drafted)]
        draft, verdict = made_round(number, *words, accepted=min(accepted, drafted))
        now += drafting
        wait(now)
        if drafted:
            pace.push(draft, now)
        now += verifying
        wait(now)
        pace.push(verdict, now)
        pace.push(Text("g", text_of(number), ()), now)
        came[number] = now
    wait(now + 10.0)
    return seen, came


times = st.floats(0.0, 0.6)
games = st.lists(
    st.tuples(times, times, st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=20
)


@given(game=games)
def test_all_text_is_handed_on_in_order_and_soon_and_a_draft_stands_after_the_text_before_it(game):
    seen, came = play(game)
    whole = "".join(map(text_of, range(1, len(game) + 1)))
    assert seen[-1].text == whole
    assert all(whole.startswith(each.text) for each in seen)
    for number, at in came.items():
        settled = next(each.at for each in seen if text_of(number) in each.text)
        assert settled <= at + 2 * SHOWN_SECONDS + GATHER_SECONDS + 1e-9
    for each in seen:
        if each.round is not None:
            last = each.round.number - (each.round.verdict is None)
            assert each.text == "".join(map(text_of, range(1, last + 1)))
    for before, after in pairwise(seen):  # drafts change ten times a second at most
        assert before.round is None or after.at - before.at >= SHOWN_SECONDS - 1e-9


def test_a_slow_round_shows_its_draft_its_rejection_and_then_the_next_draft():
    for drafting in (0.01, 0.0):  # after the verdict, and before that was handed on
        seen, _ = play([(0.5, 0.5, 3, 1), (drafting, 0.5, 2, 2)])
        shown = [(each.round.number, each.round.verdict is not None) for each in seen if each.round]
        assert shown == [(1, False), (1, True), (2, False), (2, True)]


def test_of_fast_rounds_the_newest_draft_is_shown():
    seen, _ = play([(0.002, 0.008, 2, 2)] * 100)
    drafts = [each.round.number for each in seen if each.round and each.round.verdict is None]
    assert len(seen) <= 13
    assert drafts[0] == 1
    assert all(later - earlier > 5 for earlier, later in pairwise(drafts[1:]))


def test_text_without_drafts_does_not_wait_and_the_timer_sends_what_is_due_and_then_all(qtbot):
    pace = Pace()
    pace.push(Text("g", "a", ()), 5.0)
    assert pace.due() == 5.0
    assert pace.take(5.0) == ("a", None)
    pace.push(Text("g", "b", ()), 5.01)
    assert pace.due() == 5.01
    timer = PaceTimer()
    sent = []
    timer.due.connect(lambda text, shown: sent.append((text, shown)))
    draft, _ = made_round(1, " a", " b")
    timer.push(draft)
    qtbot.waitUntil(lambda: sent == [("", draft)])
    timer.push(Text("g", "x", ()))
    timer.flush()
    assert sent[1:] == [("x", None)]
    timer.push(Text("g", "y", ()))
    timer.clear()
    qtbot.wait(30)
    assert len(sent) == 2
