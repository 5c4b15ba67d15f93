"""Folders that appear complete or not at all."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli.models.new_folder import new_folder
from models.errors import Problem

_CHILD = """
import sys, time
from pathlib import Path
from engine.cli.models.new_folder import new_folder
with new_folder(Path(sys.argv[1])) as partial:
    (partial / "half").write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_it_appears_at_the_end(tmp_path: Path) -> None:
    with new_folder(tmp_path / "deep" / "made") as partial:
        (partial / "file").write_text("text")
        assert not (tmp_path / "deep" / "made").exists()
    assert (tmp_path / "deep" / "made" / "file").read_text() == "text"
    assert os.listdir(tmp_path / "deep") == ["made"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_stays_after_an_error(error: type[BaseException], tmp_path: Path) -> None:
    def fail() -> None:
        with new_folder(tmp_path / "made") as partial:
            (partial / "file").write_text("text")
            raise error

    with pytest.raises(error):
        fail()
    assert os.listdir(tmp_path) == []


def test_what_is_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "made").symlink_to(tmp_path / "nowhere")
    with pytest.raises(Problem, match="exists already"), new_folder(tmp_path / "made"):
        pytest.fail("it was made")


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Problem, match="cannot be written"), new_folder(tmp_path / "file" / "made"):
        pytest.fail("it was made")


def test_two_at_once_and_one_that_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CHILD, str(tmp_path / "made")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "writing\n"
        with pytest.raises(Problem, match="is being made"), new_folder(tmp_path / "made"):
            pytest.fail("two made it")
        child.send_signal(signal.SIGKILL)
    assert not (tmp_path / "made").exists()
    with new_folder(tmp_path / "made") as partial:
        assert os.listdir(partial) == []
    assert os.listdir(tmp_path) == ["made"]
