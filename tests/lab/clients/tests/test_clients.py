"""The scenarios and their clients belong together, and steps are reported one by one."""

from pathlib import Path

from tests.lab.clients import environments
from tests.lab.clients.environments import CLIENTS, SCENARIOS, Environment, Served, play


def test_every_client_has_a_scenario_and_exact_versions():
    found = {path.name for path in SCENARIOS.iterdir() if path.suffix in (".py", ".cjs")}
    shared = {"person.py", "steps.py", "steps.cjs"}
    assert found - shared == {client.scenario for client in CLIENTS}
    for client in CLIENTS:
        for requirement in client.requirements:
            assert requirement.rpartition("@" if client.npm else "==")[0], requirement


def test_steps_are_reported_one_by_one(tmp_path, monkeypatch):
    (tmp_path / "steps.py").write_text((SCENARIOS / "steps.py").read_text())
    steps = "step('passes')(lambda: None)\nstep('does not')(lambda: same(1, 2))\nprint('else')\n"
    (tmp_path / "tried.py").write_text(f"from steps import *\n{steps}raise SystemExit('no server')")
    monkeypatch.setattr(environments, "SCENARIOS", tmp_path)
    here = Environment(Path("/nowhere"), npm=True)  # whose scenarios this Python runs
    served = Served("http://127.0.0.1:1", "tiny")
    outcomes = {each.step: each.why for each in play("tried.py", here, served)}
    assert outcomes["passes"] == ""
    assert "1, not 2" in outcomes["does not"]
    assert outcomes["to the end"] == "no server"
