"""A command prepares a target: its progress, its folder, its problems."""

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
from models.answers import Opened, Progressed
from models.files import HOME_VARIABLE
from tests.support.app.fake_commands import FakeCommandRunner
from tests.support.app.window_maker import BARE_PYTHON
from tests.support.engine.scripted_host import LOADED
from tests.support.models.tiny_gguf import TinyGguf


class Loading:
    """A loader whose engine has no process. Attributes: `loader`; its `engine`, `settings` and
    `commands`; `asked`, the folders that the engine was asked to load; `drafters`, of these, and
    those that it was asked to change to; `progress` and `failed` so far."""

    def __init__(self, folder, commands):
        self.asked, self.drafters, self.progress, self.failed = [], [], [], []
        self.engine = EngineProcess(EngineLog(folder), command=("no", "such", "engine"))
        self.engine.load, self.engine.use_drafting = self._load, self._draft
        self.settings = Settings(QSettings(str(folder / "ini"), QSettings.Format.IniFormat))
        self.commands = commands
        self.loader = ModelLoader(self.engine, self.settings, commands=commands)
        self.loader.fetch_progress.connect(lambda *parts: self.progress.append(parts))
        self.loader.failed.connect(self.failed.append)

    def _load(self, target, **options):
        self.asked.append(target)
        self.drafters.append(options["drafter"])
        return str(target)

    def _draft(self, *, drafter=None, draft_length=None):
        self.drafters.append(drafter)
        return "drafting"

    def loaded(self, target, id=""):
        self.engine.loaded.emit(replace(LOADED, id=id or target, target=target))


@pytest.fixture
def load(qtbot, tmp_path):
    loadings = []

    def load(target, code=""):
        """Loads it by a command that runs this code; by the real one where there is no code."""
        command = (*BARE_PYTHON, "-c", code) if code else ()
        loadings.append(Loading(tmp_path, CommandRunner(command)))
        loadings[-1].loader.load(Pair(target, "none", "auto"))
        return loadings[-1]

    yield load
    for each in loadings:
        each.commands.close()


def test_a_command_tells_its_progress_and_ends_with_a_folder_or_a_problem(load, until):
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
    for end in ("import os; os.abort()", code.splitlines()[1], "raise SystemExit(1)"):
        one = load("", end)  # a process that ends without a folder
        until(lambda ended=one: ended.failed)
        assert one.failed[0].remedy, end
        assert one.loader.problem is one.failed[0]
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
    one.loaded("/models/c")
    listed = one.settings.paths("targets")
    assert listed == ("/models/c",)  # the other one has not loaded
    one.engine.failed.emit(Failed("/models/d", "It does not fit.", "Choose another."))
    assert (len(one.failed), one.loader.pair.target) == (1, "/models/c")


@pytest.fixture
def importing(qapp, tmp_path):
    """A loader with the model /models/a, while b.gguf is imported."""
    one = Loading(tmp_path, FakeCommandRunner())
    one.loader.load(Pair("/models/a", "none", "auto"))
    one.loaded("/models/a")
    one.loader.load(Pair("b.gguf", "none", "auto"))
    return one


def test_an_import_goes_on_once_and_is_shown_while_its_model_is_chosen(importing):
    (opening,) = importing.commands.started
    for done, target in enumerate(("b.gguf", "/models/a", "b.gguf")):
        importing.loader.load(Pair(target, "none", "auto"))
        assert importing.loader.fetching is (target == "b.gguf")
        opening.tell(Progressed(done, 3))
    assert importing.progress == [(0, 3), (2, 3)]
    assert importing.commands.started == [opening]


def test_what_is_chosen_during_an_import_is_of_its_model_which_does_not_rest(importing):
    importing.loader.draft(drafter="lookup")
    importing.loader.unload()
    importing.engine.unloaded.emit()
    importing.commands.asked("open").answer(Opened("/models/b"))
    assert importing.drafters == ["none", "lookup"]
    assert importing.asked[-1] == Path("/models/b")
    importing.loaded("/models/b")
    assert (importing.loader.loaded.target, importing.loader.resting) == ("/models/b", False)


def test_the_real_command_imports_a_gguf_file(monkeypatch, tmp_path, load, until):
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    TinyGguf().write(tmp_path / "a.gguf")
    one = load(str(tmp_path / "a.gguf"))
    until(lambda: one.asked)
    (folder,) = one.asked
    assert folder.parent == tmp_path / "home" / "models"
    assert (folder / "config.json").is_file()
    assert one.progress
