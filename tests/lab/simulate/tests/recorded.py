"""Recorded answers for tests: made up, drawn at random, or the committed ones."""

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from tests.lab.simulate.conditions import Conditions
from tests.lab.simulate.curves import CostCurve
from tests.lab.simulate.traces import AnswerTrace, RecordedDraft, load_trace

TRACES = Path(__file__).parents[3] / "data" / "traces"
STEEP = CostCurve("steep", "made up", ((1, 1.0), (2, 2.0)))  # n rows cost as much as n passes
FLAT = CostCurve("flat", "made up", ((1, 1.0), (2, 1.0)))  # n rows cost as much as one


def conditions(curve: CostCurve = FLAT, *, step: float = 0.0, **changes: object) -> Conditions:
    """A calm machine where a pass over one row takes a second, and all drafters cost the same."""
    calm = {"pass_seconds": 1.0, "steps": dict.fromkeys(("lookup", "head", "model"), step)}
    return Conditions(curve=curve, **{**calm, **changes})


def head_answer(
    stood: Sequence[int], *, chain: int = 8, category: str = "chat", temperature: float = 0.0
) -> AnswerTrace:
    """One that a head drafts for: of each of its chains so many tokens stand."""
    head = tuple(RecordedDraft((0.5,) * chain, min(n, chain)) for n in stood)
    return AnswerTrace("made up", category, temperature, 10, {"head": head})


def lucky_answer(
    chance: float, *, places: int = 400, chain: int = 8, seed: int = 0, category: str = "chat"
) -> AnswerTrace:
    """One where each token of a head's chains stands with that chance, whatever came before."""
    draw = random.Random(seed)

    def stood() -> int:
        return next((i for i in range(chain) if draw.random() >= chance), chain)

    return head_answer([stood() for _ in range(places)], chain=chain, category=category)


def committed_answers(temperature: float) -> list[AnswerTrace]:
    """What was recorded of the starter pair."""
    return [answer for answer in _committed() if answer.temperature == temperature]


@cache
def _committed() -> tuple[AnswerTrace, ...]:
    paths = sorted(TRACES.glob("*.gz"))
    return tuple(answer for path in paths for answer in load_trace(path).answers)


@st.composite
def _drafted(draw: st.DrawFn, match: bool) -> RecordedDraft:
    q = draw(st.lists(st.integers(0, 1000).map(lambda n: n / 1000), min_size=1, max_size=4))
    if match:
        q = [1.0] * len(q)
    return RecordedDraft(
        tuple(q), draw(st.integers(0, len(q))), draw(st.integers(2, 40)) if match else 0
    )


@st.composite
def answers(draw: st.DrawFn) -> AnswerTrace:
    """Any answer, of one or two drafters who now and then have no idea."""
    places = draw(st.integers(1, 12))
    names = draw(st.sampled_from([("head",), ("lookup",), ("lookup", "head")]))
    drafts = {
        name: tuple(draw(st.none() | _drafted(match=name == "lookup")) for _ in range(places))
        for name in names
    }
    temperature = draw(st.sampled_from([0.0, 0.8]))
    return AnswerTrace(
        draw(st.text(max_size=5)), "any", temperature, draw(st.integers(0, 999)), drafts
    )
