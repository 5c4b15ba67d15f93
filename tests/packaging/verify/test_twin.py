"""A program of the twin's sees nothing of what is around it, and changes nothing in it."""

import json
import sys
from pathlib import Path

import pytest

from bundle.build_python import BuildPython
from configuration import REPOSITORY
from models.errors import Problem
from verify import twin
from verify.twin import import_all, matrix_library, run_in_twin, self_test

HERE = Path("/usr/lib")
PYTHON = BuildPython("3.13.0", Path("/usr/bin/python3.13"), HERE, HERE, HERE)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the twin runs on Linux")


@pytest.fixture(params=[True, False], ids=["hidden", "in place"])
def hidden(request, monkeypatch):
    """Both ways of running it, where this system lets us have mounts of our own."""
    wanted = request.param
    if wanted and not twin._can_mount():
        pytest.skip("no mounts of our own here")
    monkeypatch.setattr(twin, "_can_mount", lambda: wanted)
    return wanted


def _app(folder, *lines, program="Slipstream"):
    """One whose program is a shell script."""
    programs = folder / "Slipstream.app" / "Contents" / "MacOS"
    programs.mkdir(parents=True)
    (programs / program).write_text("\n".join(("#!/bin/sh", *lines)))
    (programs / program).chmod(0o755)
    return folder / "Slipstream.app"


def test_nothing_is_around_it_and_nothing_written_into_it(tmp_path, hidden, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    python = BuildPython("3.13.0", prefix / "bin" / "python3.13", HERE, HERE, HERE)
    looking = ["env", "pwd", "ls -A $HOME", 'echo "$@"']
    looking += [f"ls -A {place}" for place in (REPOSITORY, prefix)]
    app = _app(tmp_path / "looks", *looking, "exit 3")
    ran = run_in_twin(app, python, ["Slipstream", "--a", "b c"])
    assert ran.hidden is hidden
    assert ran.status == 3
    assert "PYTHON" not in ran.output
    assert "QT_QPA_PLATFORM=offscreen" in ran.output
    assert str(Path.home()) not in [line.partition("=")[2] for line in ran.output.splitlines()]
    before, _, after = ran.output.partition("\n--a b c\n")
    assert before.splitlines()[-1] == "/"  # no line for the empty home
    assert after == "" if hidden else after.endswith("\nbin\n")
    app = _app(tmp_path / "writes", 'touch "$(dirname "$0")/new"')
    if hidden:
        assert "Read-only file system" in run_in_twin(app, PYTHON, ["Slipstream"]).errors
    else:
        with pytest.raises(Problem, match="Contents/MacOS"):
            run_in_twin(app, PYTHON, ["Slipstream"])


def test_the_self_test_tells_or_fails(tmp_path, hidden, subtests):
    app = _app(tmp_path, '[ "$1" = --self-test ] && echo \'{"window": true}\'')
    assert self_test(app, PYTHON) == {"window": True, "repository_hidden": hidden}
    for name, lines in {
        "no JSON": ("echo the window stays dark >&2", "exit 1"),
        "other words": ("echo the window stays dark",),
        "a status": ("echo '{\"window\": false}'", "echo the window stays dark >&2", "exit 1"),
    }.items():
        with subtests.test(name=name), pytest.raises(Problem, match="the window stays dark"):
            self_test(_app(tmp_path / name, *lines), PYTHON)


def test_it_must_not_lack_the_fast_library(tmp_path):
    fast, slow, broken = (
        _app(tmp_path / line, f"echo {line}", program="python3")
        for line in ("OpenBLAS 0.3", "reference BLAS", "")
    )
    assert matrix_library(fast, PYTHON) == "OpenBLAS 0.3"
    with pytest.raises(Problem, match="reference BLAS"):
        matrix_library(slow, PYTHON)
    with pytest.raises(Problem, match="nothing"):
        matrix_library(broken, PYTHON)


def test_everything_is_imported_and_what_does_not_load_is_named(tmp_path, subtests):
    words = 'echo "{\\"modules\\": $#, \\"faults\\": {}}"'
    app = _app(tmp_path, words, program="python3")
    assert import_all(app, PYTHON, left_out=("hf-xet", "pip")) == 4  # -c, a program, and these two
    faults = '{"modules": 3, "faults": {"app.b": "no c", "app.a": "no b"}}'
    for name, line, match in [
        ("a module", f"echo '{faults}'", "app.a: no b"),
        ("all", "echo the library is missing >&2; exit 1", "the library is missing"),
        ("other words", "echo 7", "no reason given"),
    ]:
        app = _app(tmp_path / name, line, program="python3")
        with subtests.test(name=name), pytest.raises(Problem, match=match):
            import_all(app, PYTHON, left_out=())


def test_one_that_does_not_come_to_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(twin, "_SELF_TEST_SECONDS", 0.1)
    monkeypatch.setattr(twin, "_can_mount", lambda: False)
    app = _app(tmp_path, "exec sleep 60")
    with pytest.raises(Problem, match=r"0\.1 seconds"):
        run_in_twin(app, PYTHON, ["Slipstream"])


@pytest.mark.slow
def test_the_real_one():
    """Where `make twin` has made it: Python and its workers, out of the bundle alone."""
    app = REPOSITORY / "build" / "twin" / "Slipstream.app"
    if not app.is_dir():
        pytest.skip("make twin first")
    program = (
        "import json, multiprocessing, os, sys, sysconfig, ssl, sqlite3, mlx_lm\n"
        "with multiprocessing.get_context('spawn').Pool(1) as pool: there = pool.apply(os.getpid)\n"
        "flags = [sys.flags.isolated, sys.dont_write_bytecode, sys.flags.utf8_mode]\n"
        "print(json.dumps([flags, sys.executable, sys.prefix, there != os.getpid(), sys.path]))\n"
    )
    ran = run_in_twin(app, PYTHON, ["python3", "-c", program])
    assert ran.status == 0, ran.errors
    flags, executable, prefix, elsewhere, path = json.loads(ran.output)
    assert flags == [1, True, 1]
    contents = Path(executable).parents[1]
    assert executable == str(contents / "MacOS" / "python3")
    assert prefix == str(contents / "Resources" / "python")
    assert elsewhere
    assert all(Path(place).is_relative_to(prefix) for place in path)
