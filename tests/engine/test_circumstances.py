"""What else is going on: other programs' work, told from our own; a Mac's power mode."""

import sys
from pathlib import Path

import pytest

from engine.circumstances import Contention, Scheduled, power_mode, power_mode_in_pmset, scheduled

PMSET = """System-wide power settings:
Currently in use:
 standby              1
 Sleep On Power Button 1
 lowpowermode         1
 displaysleep         2 (display sleep prevented by caffeinate)
"""


class Readings:
    """What the system would say, one after another."""

    def __init__(self, *readings: Scheduled) -> None:
        self._readings = iter(readings)

    def __call__(self) -> Scheduled:
        return next(self._readings)


@pytest.mark.parametrize(
    ("began", "now", "heavy"),
    [
        ({"1": (5.0, 9.0)}, {"1": (9.0, 9.4)}, False),  # what was before does not count
        ({"1": (5.0, 0.0)}, {"1": (7.0, 1.0)}, True),  # a third of the time
        ({"1": (1.0, 0.0), "2": (1.0, 0.0)}, {"1": (3.0, 0.1), "2": (1.2, 1.0)}, True),
        ({"1": (1.0, 0.0)}, {"1": (3.0, 0.1), "2": (2.0, 1.5)}, True),  # a new thread
        ({"1": (1.0, 0.0), "2": (9.0, 9.0)}, {"1": (3.0, 0.1)}, False),  # one that has ended
        ({"1": (1.0, 0.0)}, {"1": (1.05, 0.1)}, False),  # too little to tell
        ({"1": (1.0, 0.0)}, {"1": (1.0, 0.0)}, False),
    ],
)
def test_waiting_for_a_processor_tells(began: Scheduled, now: Scheduled, heavy: bool) -> None:
    assert Contention(Readings(began, now)).heavy is heavy


@pytest.mark.parametrize(("load", "heavy"), [(1.0, False), (9.0, True)])
def test_where_the_system_does_not_say_the_load_does(
    load: float, heavy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load))
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert Contention(Readings({}, {})).heavy is heavy


def test_what_linux_says(tmp_path: Path) -> None:
    for name, text in (("7", "2000000000 500000000 12\n"), ("8", "gone"), ("9", None)):
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "schedstat").write_text(text)
    assert scheduled(tmp_path) == pytest.approx({"7": pytest.approx((2.0, 0.5))})
    assert scheduled(tmp_path / "none") == {}
    assert all(min(each) >= 0.0 for each in scheduled().values())


def test_a_macs_power_mode() -> None:
    assert power_mode_in_pmset(PMSET) == "lowpowermode 1"
    assert power_mode_in_pmset(" powermode            2\n") == "powermode 2"
    assert power_mode_in_pmset("") == ""
    if sys.platform != "darwin":
        assert power_mode() == ""
