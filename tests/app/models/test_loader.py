"""A command prepares a target: its progress, its folder, its problems."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings

from app.commands import CommandRunner, RunningCommand
from app.engine_client.engine_log import EngineLog
from app.engine_client.engine_process import EngineProcess
from app.models.loader import ModelLoader
from app.settings import Pair, Settings
from engine.events import Failed
from models.files import HOME_VARIABLE
from models.starter import GGUF_VARIABLE
from tests.support.engine.scripted_host import LOADED
from tests.support.models.tiny_gguf import TinyGguf


class Recorder(EngineProcess):
    """Attribute: `asked`, the folders that it was asked to load."""

    def __init__(self, log):
        super().__init__(log, command=("no", "such", "engine"))
        self.asked = []

    def load(self, target, **options):
        self.asked.append(target)
        return str(target)


class Loading:
    """A loader without an engine's process. Attributes: `loader`; its `engine`, `settings` and
    `commands`; `asked`, `progress` and `failed` so far."""

    def __init__(self, folder, commands):
        engine = Recorder(EngineLog(folder))
        settings = Settings(QSettings(str(folder / "ini"), QSettings.Format.IniFormat))
        self.settings = settings
        self.engine, self.asked = engine, engine.asked
        self.progress = []
        self.failed = []
        self.commands = commands
        self.loader = ModelLoader(engine, settings, commands=commands)
        self.loader.fetch_progress.connect(lambda *parts: self.progress.append(parts))
        self.loader.failed.connect(self.failed.append)


@pytest.fixture
def load(qtbot, tmp_path):
    loadings = []

    def load(target, code=""):
        """Loads it by a command that runs this code; by the real one where there is no code."""
        command = (sys.executable, "-c", code) if code else ()
        loading = Loading(tmp_path, CommandRunner(command))
        loading.loader.load(Pair(target, "none", "auto"))
        loadings.append(loading)
        return loading

    yield load
    for each in loadings:
        each.commands.close()


def test_progress_and_folder(load, until):
    code = """
print('{"answer": "progressed", "done": 1, "total": 2}'); print('a library prints'); print('3')
print('{"answer": "progressed", "done": 2, "total": 2}')
print('{"answer": "opened", "folder": "/models/a"}')
"""
    one = load("", code)
    assert one.loader.fetching
    until(lambda: one.asked)
    assert one.asked == [Path("/models/a")]
    assert one.progress == [(1, 2), (2, 2)]
    assert not one.loader.fetching


@pytest.mark.parametrize(
    "code", ["raise SystemExit(1)", """print('{"answer": "opened", "folder": "/models/a"}')"""]
)
def test_what_is_not_chosen_any_more_is_not_loaded_and_its_failure_changes_nothing(
    code, load, until
):
    one = load("a.gguf", code)
    one.loader.load(Pair("/models/b", "none", "auto"))
    until(lambda: not one.commands.findChildren(RunningCommand))
    assert one.asked == [Path("/models/b")]
    one.loader.open_target(Path("/models/c"))
    one.engine.failed.emit(Failed("/models/b", "It does not fit.", "Choose another."))
    assert (one.failed, one.loader.pair.target) == ([], "/models/c")
    one.loader.open_target(Path("/models/d"))
    one.engine.loaded.emit(replace(LOADED, id="/models/c", target="/models/c"))
    listed = one.settings.paths("targets")
    assert listed == ("/models/c",)  # the other one has not loaded
    one.engine.failed.emit(Failed("/models/d", "It does not fit.", "Choose another."))
    assert (len(one.failed), one.loader.pair.target) == (1, "/models/c")


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.abort()",
        """print('{"answer": "progressed", "done": 1, "total": 2}')""",
        "raise SystemExit(1)",
    ],
)
def test_a_process_without_a_folder_is_a_problem(code, load, until):
    one = load("", code)
    until(lambda: one.failed)
    assert one.failed[0].remedy
    assert one.loader.problem is one.failed[0]
    assert not one.loader.fetching


@pytest.mark.slow  # the other real command runs below
def test_the_real_command_reports_real_problems(monkeypatch, tmp_path, load, until):
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    monkeypatch.setenv(GGUF_VARIABLE, str(tmp_path / "nothing.gguf"))
    one = load("")
    until(lambda: one.failed)
    assert GGUF_VARIABLE in one.failed[0].message
    assert one.failed[0].remedy


def test_the_real_command_imports_a_gguf_file(monkeypatch, tmp_path, load, until):
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    TinyGguf().write(tmp_path / "a.gguf")
    one = load(str(tmp_path / "a.gguf"))
    until(lambda: one.asked)
    (folder,) = one.asked
    assert folder.parent == tmp_path / "home" / "models"
    assert (folder / "config.json").is_file()
    assert one.progress
