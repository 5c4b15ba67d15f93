"""What else is going on: other programs' work, told from our own; a Mac's power mode."""

import os
import sys
from unittest import mock

import pytest

from engine import circumstances
from engine.bench.machine import this_machine
from engine.circumstances import (
    Contention,
    ProcessorTimes,
    gpu_share_in_ioreg,
    power_mode,
    power_mode_in_pmset,
    processor_times,
)
from engine.cli.doctor import Symptom, machine_checks
from models.speed import load_chips

PMSET = """System-wide power settings:
Currently in use:
 standby              1
 Sleep On Power Button 1
 lowpowermode         1
 displaysleep         2 (display sleep prevented by caffeinate)
"""


@pytest.mark.parametrize(
    ("whole", "busy", "own", "heavy"),
    [
        (4.0, 2.0, 2.0, False),  # all of it was ours
        (4.0, 4.0, 3.9, False),  # even where our threads had to wait for each other
        (4.0, 4.0, 3.0, True),
        (4.0, 2.0, 1.0, True),
        (64.0, 4.0, 2.0, False),  # others, on processors that we had no use for
        (0.1, 0.1, 0.0, False),  # too little to tell
        (0.0, 0.0, 0.0, False),
    ],
)
def test_what_others_did_tells(whole, busy, own, heavy):
    began = ProcessorTimes(100.0, 90.0, 5.0)  # what was before does not count
    now = ProcessorTimes(100.0 + whole, 90.0 + busy, 5.0 + own)
    assert Contention(iter([began, now]).__next__).heavy is heavy


def test_where_the_system_does_not_say_the_load_does(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    for load, heavy in [(1.0, False), (9.0, True)]:
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, load, load))
        assert Contention(lambda: None).heavy is heavy


def test_what_linux_says(tmp_path):
    statistics = tmp_path / "stat"
    statistics.write_text("cpu  100 20 30 400 50 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n")
    ticks = os.sysconf("SC_CLK_TCK")
    found = processor_times(statistics)
    assert (found.whole * ticks, found.busy * ticks) == pytest.approx((621.0, 171.0))
    assert found.own > 0.0
    for text in ("", "cpu x\n", "cpu 1 2\n", "intr 1 2 3 4 5 6 7 8\n"):
        statistics.write_text(text)
        assert processor_times(statistics) is None
    assert processor_times(tmp_path / "none") is None


def test_what_a_mac_says_of_its_gpu_and_its_power_mode(monkeypatch):
    line = '"PerformanceStatistics" = {"recoveryCount"=80,"Device Utilization %"=29,"In use"=0}'
    assert gpu_share_in_ioreg(line) == 0.29
    assert gpu_share_in_ioreg(line.replace("29", "0") + "\n" + line.replace("29", "7")) == 0.07
    assert gpu_share_in_ioreg("") == 0.0
    assert power_mode_in_pmset(PMSET) == "lowpowermode 1"
    assert power_mode_in_pmset(" powermode            2\n") == "powermode 2"
    assert power_mode_in_pmset("") == ""
    for platform in ("linux", "darwin"):  # there is no pmset here
        monkeypatch.setattr("sys.platform", platform)
        assert platform == sys.platform
        assert power_mode() == ""


def test_an_m5_with_a_system_that_lacks_what_mlx_needs_is_told_to_update(monkeypatch):
    cases = [
        ("M5", "26.2", "26_0", ""),
        ("M5", "26.10", "26_0", ""),
        ("M5", "15.6", "15_0", ""),
        ("M5", "26.1", "14_0", ""),  # as the application has it
        ("M4", "26.1", "26_0", ""),
        ("M5", "26.1", None, ""),  # MLX was built on the machine
        ("M5", "26.0", "26_0", "26.0"),
        ("M5 Max", "26.1.1", "26_0", "26.1.1"),
    ]
    for chip, macos, wheel, told in cases:
        found = load_chips().find(chip, 32 << 30)
        metal = mock.Mock(**{"read_text.return_value": f"Tag: py3-none-macosx_{wheel}_arm64"})
        installed = [metal] if wheel else []
        monkeypatch.setattr(circumstances, "this_chip", lambda found=found: found)
        monkeypatch.setattr(circumstances, "distributions", lambda name, found=installed: found)
        monkeypatch.setattr("platform.mac_ver", lambda macos=macos: (macos, ("", "", ""), "arm64"))
        assert circumstances.macos_to_update() == told, (chip, macos)
    checks = machine_checks(this_machine())
    assert next(each for each in checks if each.name == "macOS").symptom is Symptom.OLD_MACOS
