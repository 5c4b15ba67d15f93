"""The command lines of packaging and of setting up: what they print, and their status."""

import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

import build
import set_up
from sign import code_signature
from tests.support.packaging import tiny_bundle


@pytest.fixture
def app(tmp_path):
    return tiny_bundle.make_bundle(tmp_path / "Slipstream.app")


def test_verifying(app, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build, "DIST", app.parent)
    monkeypatch.setattr(build, "make_downloads", lambda *_: [])
    assert build.main(["verify", str(app)]) == 0
    assert capsys.readouterr().out == "0 findings\n"
    assert build.main(["image"]) == 0
    (app / "notes.txt").touch()
    assert build.main(["image"]) == 1, "no downloads of a bundle with faults"
    capsys.readouterr()
    assert build.main(["verify", str(app)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "seal: notes.txt: only Contents can be sealed",
        "1 finding",
    ]
    for command in ("verify", "sign"):
        assert build.main([command, str(tmp_path / "nothing")]) == 2
        assert str(tmp_path / "nothing") in capsys.readouterr().err
        with pytest.raises(SystemExit, match="2"):
            build.main([command])

    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(build, "verify_bundle", refuse)
    capsys.readouterr()
    assert build.main(["verify", str(app)]) == 2
    assert "Make room" in capsys.readouterr().err


def test_signing(app, capsys):
    library = app / tiny_bundle.LIBMLX
    library.write_bytes(tiny_bundle.TinyMacho(exports=("_other",)).build())
    assert build.main(["sign", str(app)]) == 0
    code_signature.check(library.read_bytes())
    (app / "Contents/notes.txt").write_bytes(b"text")
    assert build.main(["sign", str(app)]) == 2
    assert "notes.txt" in capsys.readouterr().err


# What is told of pip's work, from what pip itself wrote

FETCHED = """\
Obtaining file:///home/me/slipstream
  Installing build dependencies: started
  Installing build dependencies: finished with status 'done'
Collecting mlx-cpu==0.32.4
  Downloading mlx_cpu-0.32.4-py3-none-manylinux_2_35_x86_64.whl.metadata (1.2 kB)
Collecting numpy
  Downloading numpy-2.5.5-cp312-cp312-manylinux_2_28_x86_64.whl.metadata (62 kB)
  Using cached h11-0.16.0-py3-none-any.whl (37 kB)
Using cached transformers-5.23.0-py3-none-any.whl (13.3 MB)
Downloading mlx_cpu-0.32.4-py3-none-manylinux_2_35_x86_64.whl (10.5 MB)
   10.5/10.5 MB 80.0 MB/s eta 0:00:00
Downloading https://files.example/x/numpy-2.5.5-cp312-cp312-manylinux_2_28_x86_64.whl (15.7 MB)
Downloading idna-3.20-py3-none-any.whl (69 kB)
Building wheels for collected packages: slipstream
Installing collected packages: mlx-cpu, numpy, idna, h11, transformers, slipstream
Successfully installed h11-0.16.0 idna-3.20 mlx-cpu-0.32.4 numpy-2.5.5
"""


def test_a_line_for_each_step_with_sizes_and_seconds():
    clock = count(10)
    told = list(set_up.steps(FETCHED.splitlines(), clock=lambda: next(clock)))
    assert told == [
        "Which packages: found in 1 s",
        "Fetching mlx-cpu, 10 MB",
        "Fetching numpy, 16 MB",
        "Fetched 26 MB in 1 s, 13 MB were here already",
        "Installing 6 packages",
        "Installed in 1 s",
    ]
    assert list(set_up.steps(["Requirement already satisfied: numpy in /x"])) == []


def test_what_pip_fails_with_is_shown(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert set_up.main(str(tmp_path / "nothing-here")) == 1
    out, err = capfd.readouterr()
    assert err.startswith("ERROR")
    assert "make again" in out
    assert "network" not in out, "a guess"


def test_it_runs_with_nothing_installed():
    """As in a .venv that was just made."""
    script = Path(__file__).parents[2] / "packaging" / "set_up.py"
    asked = [sys.executable, "-I", "-S", str(script)]
    ended = subprocess.run(asked, capture_output=True, text=True)
    assert "IndexError" in ended.stderr  # no argument; all its imports went well
