"""The lane shows the newest round at a rate that can be followed, and counts the others."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.rounds.pace import LanePace, RoundOnShow
from engine.conversation.rounds import Round
from tests.support.app.traces import made_round


def draft(number: int) -> Round:
    return made_round(number, "a", "b")[0]


def verdict(number: int, *, plain: bool = False) -> Round:
    return made_round(number)[1] if plain else made_round(number, "a", "b")[1]


def run(times: list[tuple[float, float, bool]], pace: LanePace) -> list[tuple[float, RoundOnShow]]:
    """Rounds of so many seconds to the draft and to the verdict; what was shown, and from when."""
    now, seen = 0.0, list[tuple[float, RoundOnShow]]()

    def note() -> None:
        if pace.shown is not None and (
            not seen or seen[-1][1].round.number != pace.shown.round.number
        ):
            seen.append((now, pace.shown))

    def wait(seconds: float) -> None:
        nonlocal now
        end = now + seconds
        while (due := pace.due()) is not None and due <= end:
            now = max(now, due)
            assert pace.advance(now)
            note()
        now = end

    for number, (drafting, verifying, plain) in enumerate(times, start=1):
        wait(drafting)
        if not plain:
            pace.push(draft(number), now)
            note()
        wait(verifying)
        pace.push(verdict(number, plain=plain), now)
        note()
    wait(10.0)
    return seen


seconds = st.floats(0.0, 1.0)
rounds = st.lists(st.tuples(seconds, seconds, st.booleans()), min_size=1, max_size=30)


@given(times=rounds)
def test_every_round_is_shown_or_counted_and_the_last_is_shown(
    times: list[tuple[float, float, bool]],
) -> None:
    pace = LanePace()
    seen = run(times, pace)
    assert len(seen) + pace.not_shown == len(times)
    numbers = [shown.round.number for _, shown in seen]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == len(times)
    assert pace.shown is not None
    assert pace.shown.round.verdict is not None
    assert pace.due() is None


@given(times=rounds)
def test_a_round_stays_long_enough_to_be_seen(times: list[tuple[float, float, bool]]) -> None:
    pace = LanePace()
    for (began, _), (ended, _) in pairwise(run(times, pace)):
        assert ended - began >= pace.round_seconds - 1e-9


def test_at_thirty_rounds_a_second_four_or_five_are_seen() -> None:
    seen = run([(0.01, 0.0233, False)] * 300, LanePace())
    assert 40 <= len(seen) <= 50  # in ten seconds


def test_slow_rounds_are_all_seen_at_once() -> None:
    pace = LanePace()
    seen = run([(0.5, 0.5, False)] * 10, pace)
    assert pace.not_shown == 0
    assert [began for began, _ in seen] == [0.5 + number for number in range(10)]


def test_a_draft_shows_before_its_verdict() -> None:
    pace = LanePace()
    pace.push(draft(1), 5.0)
    pace.push(verdict(1), 5.001)
    assert pace.shown is not None
    assert pace.shown.judged_at == 5.0 + pace.draft_seconds


def test_a_verdict_of_a_round_that_is_gone_changes_nothing() -> None:
    pace = LanePace()
    pace.push(draft(1), 0.0)
    pace.push(verdict(1), 0.1)
    shown = pace.shown
    pace.push(draft(2), 0.11)  # waits
    pace.push(draft(3), 0.12)  # replaces it
    assert pace.shown is shown
    assert pace.not_shown == 1
    pace.push(verdict(3), 0.13)
    assert pace.advance(1.0)
    assert pace.shown is not None
    assert (pace.shown.round.number, pace.shown.judged_at) == (3, 1.0 + pace.draft_seconds)
    assert pace.previous is shown


def test_clearing_forgets_the_answer() -> None:
    pace = LanePace()
    run([(0.01, 0.01, False)] * 20, pace)
    pace.clear()
    assert (pace.shown, pace.previous, pace.not_shown, pace.due()) == (None, None, 0, None)
