"""Work on model files is done in a child: its progress, its result, its problems, its end."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from app.models.target_process import open_target
from models.errors import Problem
from models.files import HOME_VARIABLE
from models.starter import GGUF_VARIABLE
from tests.support.app.window_maker import ROOT
from tests.support.models.tiny_gguf import TinyGguf


def child(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_progress_and_result() -> None:
    code = """
print('{"target": "progress", "done": 1, "total": 2}'); print('a library prints'); print('3')
print('{"target": "progress", "done": 2, "total": 2}')
print('{"target": "opened", "folder": "/models/a"}')
"""
    heard: list[tuple[int, int]] = []
    result = open_target("", lambda *parts: heard.append(parts), command=child(code))
    assert result == Path("/models/a")
    assert heard == [(1, 2), (2, 2)]


def test_a_problem_crosses_the_pipe_with_its_remedy() -> None:
    code = """print('{"target": "refused", "message": "No network.", "remedy": "Connect."}')"""
    with pytest.raises(Problem, match="No network") as caught:
        open_target("", command=child(code))
    assert caught.value.remedy == "Connect."


PROGRESS = """print('{"target": "progress", "done": 1, "total": 2}')"""


@pytest.mark.parametrize("code", ["import os; os.abort()", PROGRESS, ""])
def test_a_process_that_dies_is_a_problem(code: str) -> None:
    with pytest.raises(Problem, match="status") as caught:
        open_target("", command=child(code))
    assert caught.value.remedy


def test_the_real_child_reports_real_problems(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    monkeypatch.setenv(GGUF_VARIABLE, str(tmp_path / "nothing.gguf"))
    with pytest.raises(Problem, match=GGUF_VARIABLE):
        open_target("")


def test_the_real_child_imports_a_gguf_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    TinyGguf().write(tmp_path / "a.gguf")
    heard: list[tuple[int, int]] = []
    folder = open_target(str(tmp_path / "a.gguf"), lambda *parts: heard.append(parts))
    assert folder.parent == tmp_path / "home" / "models"
    assert (folder / "config.json").is_file()
    assert heard
    assert open_target(str(folder)) == folder


@pytest.mark.slow
def test_the_child_ends_with_its_parent() -> None:
    """Killed as hard as can be, the parent leaves nothing that goes on."""
    work = """
import sys, threading; from app.models import target_process
threading.Thread(target=target_process.end_with_parent, daemon=True).start()
print('{"target": "progress", "done": 0, "total": 1}', flush=True); threading.Event().wait()
"""
    parent_code = f"""
import os; from app.models.target_process import open_target
open_target("", lambda *parts: os.kill(os.getpid(), 9), command={child(work)!r})
"""
    parent = subprocess.Popen(child(parent_code), cwd=ROOT)
    children: list[psutil.Process] = []
    while parent.poll() is None:
        try:
            children = psutil.Process(parent.pid).children() or children
        except psutil.NoSuchProcess:
            break
        time.sleep(0.005)
    assert parent.wait() == -9
    psutil.wait_procs(children)
    assert not any(one.is_running() for one in children if one.pid != os.getpid())
