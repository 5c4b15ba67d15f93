"""What the engine does for a request follows from its events, and ends with it."""

from hypothesis import given
from hypothesis import strategies as st

from app.chat.activity import AwaitingTurn, BeingWritten, Reading
from app.server.following import Following, GenerationNow
from engine.conversation.rounds import committed
from engine.conversation.stats import tally
from engine.events import Done, Event, Failed, Prefill, Waiting
from tests.support.app.traces import traces


def test_a_generation_waits_reads_and_is_written() -> None:
    following = Following()
    following.push(Waiting("g", 3))
    assert following.now == {}, "it was not begun"
    following.begin("g")
    assert following.now == {"g": GenerationNow()}
    following.push(Waiting("g", 3))
    assert following.now["g"].activity == AwaitingTurn(3)
    following.push(Prefill("g", 5, 20, 0, 0.1))
    assert following.now["g"].activity == Reading(5, 20, 0, 0.1)
    following.push(Failed("g", "It broke.", "Mend it."))
    assert following.now == {}


@given(traces())
def test_its_figures_are_those_of_its_events(events: tuple[Event, ...]) -> None:
    following = Following()
    following.begin("g")
    before = [event for event in events if not isinstance(event, Done)]
    for event in before:
        following.push(event)
    now, stats = following.now["g"], tally(before)
    assert now.tokens == len(committed(before)) == stats.committed
    assert now.tokens_per_second == stats.tokens_per_second
    if now.tokens:
        assert now.activity == BeingWritten()
        assert now.round is not None


@given(st.permutations(["a", "b", "c"]))
def test_generations_end_in_any_order(order: list[str]) -> None:
    following = Following()
    for id in "abc":
        following.begin(id)
    for id in order:
        assert id in following.now
        following.push(Failed(id, "m", "r"))
        assert id not in following.now
