"""What is done, what comes next, and where a finding belongs."""

from app.cluster.setup_steps import steps_of
from engine.cluster.states import RankState
from models.errors import Problem

FOUND = Problem("mini.local does not answer.", "Switch it on.")
UNREACHED = (RankState(0, "localhost", "starting"), RankState(1, "mini.local", "lost"))
REACHED = tuple(RankState(rank, "mac", "starting", chip="M4") for rank in range(2))


def test_a_finding_belongs_to_what_is_not_done_yet() -> None:
    for named, ranks, joined, loaded, now in (
        (False, (), False, False, 0),
        (True, (), False, False, 1),
        (True, UNREACHED, False, False, 1),
        (True, (REACHED[0], UNREACHED[1]), False, False, 1),
        (True, REACHED, False, False, 2),
        (True, (), True, False, 3),
        (True, REACHED, True, True, 4),
        (False, REACHED, True, True, 4),
    ):
        steps = steps_of(named=named, ranks=ranks, joined=joined, loaded=loaded, finding=FOUND)
        expected = ["done"] * now + ["now"] * (now < 4) + ["later"] * (3 - now)
        assert [step.progress for step in steps] == expected
        assert [place for place, step in enumerate(steps) if step.finding] == [now] * (now < 4)
