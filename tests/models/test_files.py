"""Our files have their old content or the new one, new folders are whole or not there; and what
this process asks of the system.
"""

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from models import files
from models.errors import Problem
from models.files import (
    HOME_VARIABLE,
    cache_folder,
    data_folder,
    file_stem,
    locked,
    log_folder,
    models_folder,
    new_folder,
    publish,
    replacing,
    unfinished_folder,
    write_json,
    write_text,
    written_path,
)
from models.this_process import Awake, open_many_files

_CHILD = """
import sys, time
from pathlib import Path
from models.files import new_folder
with new_folder(Path(sys.argv[1])) as partial:
    (partial / "half").write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_paths_that_users_write(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for text, place in (("~/x", tmp_path / "x"), ("~", tmp_path), ("x~", "x~"), ("~$x.docx", None)):
        if place is None:
            (tmp_path / text).write_text("")
        assert written_path(text) == Path(place or text)
    for text in ("~nosuch/x", "a\0b", "\ud800", "~\0"):
        with pytest.raises(Problem, match="names no file"):
            written_path(text)
    monkeypatch.setenv(HOME_VARIABLE, "~/slip")
    assert data_folder() == cache_folder() == tmp_path / "slip"
    monkeypatch.delenv(HOME_VARIABLE)
    monkeypatch.setenv("XDG_DATA_HOME", "~/data")
    assert "~" not in str(data_folder())


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_the_old_content_stays_until_the_new_one_is_whole(tmp_path, monkeypatch, step):
    path = tmp_path / "new" / "a.json"
    write_json(path, "old")

    def refuse(*_):
        raise OSError(28, "No space left on device")

    if step == "fsync":
        monkeypatch.setattr(os, "fsync", refuse)
    else:
        monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(Problem, match=r"a\.json cannot be written.*No space left"):
        write_json(path, "new")
    with suppress(KeyboardInterrupt), replacing(path) as partial:
        partial.write_bytes(b"half")
        raise KeyboardInterrupt
    assert json.loads(path.read_text()) == "old"
    assert os.listdir(path.parent) == ["a.json"]
    monkeypatch.undo()
    write_json(path, {"a": [1, "é"]})
    assert json.loads(path.read_text()) == {"a": [1, "é"]}


def test_files_are_in_the_home_that_is_named_or_where_the_platform_has_them(tmp_path, monkeypatch):
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "x"))
    for named, home in ((tmp_path, tmp_path), (None, tmp_path / "x")):
        assert data_folder(named) == cache_folder(named) == home
        assert (models_folder(named), log_folder(named)) == (home / "models", home / "logs")
    monkeypatch.setenv(HOME_VARIABLE, "")
    monkeypatch.setattr(files, "user_cache_path", lambda *_, **__: tmp_path / "caches")
    assert cache_folder() == tmp_path / "caches"
    assert data_folder().name == "Slipstream"
    assert "Slipstream" in str(log_folder())


def test_content_then_name_then_folder_reach_the_disk_also_of_long_titles(tmp_path, monkeypatch):
    steps = []
    sync, replace = os.fsync, Path.replace

    def note_sync(number):
        steps.append("folder" if os.path.samestat(os.fstat(number), tmp_path.stat()) else "file")
        sync(number)

    def note_replace(path, other):
        steps.append("name")
        return replace(path, other)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_replace)
    for title in ("\N{GRINNING FACE}" * 80, "\N{DEVANAGARI LETTER KA}" * 80, "x" * 80):
        stem = file_stem(title)
        assert title.startswith(stem)
        assert len(stem) >= 50
        write_text(tmp_path / f"{stem}.markdown", "text")
    (tmp_path / "b.partial").write_text("text")
    publish(tmp_path / "b.partial", tmp_path / "b")
    assert steps == ["file", "name", "folder"] * 4


def test_a_new_folder_is_made_by_one_also_after_a_kill(tmp_path):
    command = [sys.executable, "-c", _CHILD, str(tmp_path / "made")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "writing\n"
        with pytest.raises(Problem, match="Another process"), new_folder(tmp_path / "made"):
            pytest.fail("two made it")
        child.send_signal(signal.SIGKILL)
    (left,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert unfinished_folder(left) == "made"
    for name in ("made", ".made", "made.building", ".git"):
        assert unfinished_folder(tmp_path / name) is None
    with new_folder(tmp_path / "made") as partial:
        assert os.listdir(partial) == []
    assert os.listdir(tmp_path) == ["made"]
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    for place, match in (("link", "exists already"), ("file/made", "cannot be written")):
        with pytest.raises(Problem, match=match), new_folder(tmp_path / place):
            pytest.fail("it was made")


def test_a_lock_is_waited_for_and_lies_beside_the_folder(tmp_path):
    folder = tmp_path / "folder"
    with locked(folder, seconds=1), pytest.raises(TimeoutError), locked(folder, seconds=0.01):
        pass
    with locked(folder, seconds=0.01):
        assert not folder.exists()


def test_on_a_mac_it_is_waited_for_the_disk_itself_where_the_file_system_can(tmp_path, monkeypatch):
    asked = []
    with monkeypatch.context() as mac:
        mac.setattr(files, "_FULL_SYNC", 51)
        mac.setattr(files.fcntl, "fcntl", lambda number, command: asked.append(command))
        mac.setattr(files.os, "fsync", lambda number: asked.append(0))
        files.sync(0)
        assert asked == [51]

        def refuse(number, command):
            raise OSError("this file system does not know it")

        mac.setattr(files.fcntl, "fcntl", refuse)
        files.sync(0)
        assert asked == [51, 0]
    sync = os.fsync

    def refuse_folders(number):
        if stat.S_ISDIR(os.fstat(number).st_mode):
            raise OSError(22, "Invalid argument")
        sync(number)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    with new_folder(tmp_path / "made") as partial:
        write_text(partial / "file", "text")
    assert os.listdir(tmp_path / "made") == ["file"]


# Staying awake while busy, and the limit of open files


SLEEPS = (sys.executable, "-S", "-c", "import time; time.sleep(600)")


def children():
    return [child.pid for child in psutil.Process().children()]


def test_a_program_runs_while_it_is_busy():
    awake, before = Awake(SLEEPS), children()
    awake.keep(False)
    assert children() == before
    awake.keep(True)
    begun = children()
    assert len(begun) == len(before) + 1
    awake.keep(True)
    assert children() == begun
    awake.keep(False)
    assert children() == before
    with awake:
        assert len(children()) == len(before) + 1
    assert children() == before
    awake = Awake((sys.executable, "-S", "-c", ""))  # one that has ended is not missed
    awake.keep(True)
    (child,) = (psutil.Process(pid) for pid in set(children()) - set(before))
    while child.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    awake.keep(False)
    assert children() == before


def test_a_program_that_is_not_there_is_tried_once(tmp_path, monkeypatch):
    popen, started = subprocess.Popen, []
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: started.append(a) or popen(*a, **k))
    awake = Awake((str(tmp_path / "missing"),))
    for _ in range(3):  # as at each step of an answer
        awake.keep(True)
    assert len(started) == 1


def test_many_files_may_be_open(monkeypatch):
    limits, endless = {}, resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, new: limits.update(now=new))
    for soft, hard, opened in ((256, 1000, 1000), (1000, 1000, 1000), (256, endless, 4096)):
        limits["now"] = (soft, hard)
        open_many_files()
        assert limits["now"] == (opened, hard), soft
