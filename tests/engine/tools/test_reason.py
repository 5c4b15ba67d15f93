"""Logs of programs that ended, as runtimes and launchers write them, and the line that says why."""

from pathlib import Path

from engine.tools.reason import reason

KEPT = Path(__file__).parents[2] / "data" / "complaints.txt"


def test_the_line_of_the_error_is_found_among_what_surrounds_it():
    logs = KEPT.read_text(encoding="utf-8").split("==> ")[1:]
    expected = {log: why for why, _, log in (each.partition("\n") for each in logs)}
    assert len(expected) == 19
    assert {log: reason(log) for log in expected} == expected
    assert not reason("")
    assert not reason("\n\n")
