"""The laboratory itself: scenarios that are played, environments that are kept, figures."""

import subprocess
import sys
from pathlib import Path

import pytest

from models.errors import Problem
from tests.lab.clients import environments, scenario
from tests.lab.clients.environments import CLIENTS, Client, Environment, prepare
from tests.lab.clients.load import Answer, Cell
from tests.lab.clients.scenario import SCENARIOS, Outcome, Served, play

HERE = Environment(Path("/nowhere"), npm=True)  # whose scenarios this Python runs
SERVED = Served("http://127.0.0.1:1", "tiny")


def test_every_client_has_a_scenario_and_exact_versions():
    assert len({client.name for client in CLIENTS}) == len(CLIENTS)
    for client in CLIENTS:
        assert (SCENARIOS / client.scenario).is_file()
        for requirement in client.requirements:
            assert requirement.rpartition("@" if client.npm else "==")[0], requirement


def test_every_scenario_has_a_client():
    found = {path.name for path in SCENARIOS.iterdir() if path.suffix in (".py", ".cjs")}
    assert found - {"steps.py", "steps.cjs"} == {client.scenario for client in CLIENTS}


def _play(folder: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> list[Outcome]:
    (folder / "steps.py").write_text((SCENARIOS / "steps.py").read_text())
    (folder / "tried.py").write_text("from steps import *\n" + program)
    monkeypatch.setattr(scenario, "SCENARIOS", folder)
    return list(play("tried.py", HERE, SERVED))


def test_steps_are_reported_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = """
@step("passes")
def _():
    same((BASE, MODEL), ("http://127.0.0.1:1/v1", "tiny"))
print("something else that the client prints")
@step("does not")
def _():
    same(1, 2)
@step("is refused")
def _():
    assert str(refused(KeyError, {}.popitem)), "no error"
@step("is not refused")
def _():
    refused(KeyError, dict)
"""
    outcomes = _play(tmp_path, monkeypatch, program)
    assert [outcome.step for outcome in outcomes] == [
        "passes",
        "does not",
        "is refused",
        "is not refused",
    ]
    assert [bool(outcome.why) for outcome in outcomes] == [False, True, False, True]
    assert "1, not 2" in outcomes[1].why


def test_a_scenario_that_breaks_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = "step('one')(lambda: None)\nraise SystemExit('no such server')"
    first, last = _play(tmp_path, monkeypatch, program)
    assert first == Outcome("one", "")
    assert last == Outcome("to the end", "no such server")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was installed, by commands that do nothing."""
    found: list[str] = []

    def run(command: tuple[str, ...], **_: object) -> None:
        if "install" in command:
            found.append(command[-1])

    monkeypatch.setattr(subprocess, "run", run)
    return found


def test_an_environment_is_made_once_for_each_version(tmp_path: Path, installed: list[str]):
    for version in ("1", "1", "2"):
        environment = prepare(Client("tiny", (f"tiny=={version}",), "tiny.py"), tmp_path)
        assert environment.interpreter(Path("a.py")) == str(tmp_path / "tiny" / "bin" / "python")
    assert installed == ["tiny==1", "tiny==2"]


def test_the_program_that_runs_a_scenario_is_found_from_any_folder(
    tmp_path: Path, installed: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    environment = prepare(Client("tiny", ("tiny==1",), "tiny.py"), Path("clients"))
    assert environment.interpreter(Path("a.py")) == str(tmp_path / "clients/tiny/bin/python")
    assert installed == ["tiny==1"]


def test_what_npm_installs(tmp_path: Path, installed: list[str]):
    environment = prepare(Client("tiny", ("tiny@1",), "tiny.cjs", npm=True), tmp_path)
    assert installed == ["tiny@1"]
    assert environment.interpreter(Path("a.cjs")) == "node"
    assert environment.interpreter(Path("a.py")) == sys.executable


def test_what_cannot_be_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def run(command: tuple[str, ...], **_: object) -> None:
        error = "collecting\nERROR: no such version\n"
        raise subprocess.CalledProcessError(1, command, stderr=error)

    monkeypatch.setattr(environments.subprocess, "run", run)
    with pytest.raises(Problem, match="no such version"):
        prepare(Client("tiny", ("tiny==1",), "tiny.py"), tmp_path)
    assert not (tmp_path / "tiny" / "requirements.txt").exists()


def test_figures_of_answers():
    one = Answer(asked=10.0, came=(10.5, 11.0, 13.0), tokens=6)
    two = Answer(asked=11.0, came=(12.5, 15.0), tokens=4)
    assert (one.first_seconds, one.longest_pause_seconds) == (0.5, 2.0)
    cell = Cell((one, two))
    assert cell.tokens_per_second == 10 / 5
    assert cell.first_seconds == 1.0
