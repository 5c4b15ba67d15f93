"""Where `make` begins: which Macs and Pythons it is for, before anything is fetched."""

import shutil
import subprocess
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]


def test_no_python_is_asked_for_that_a_pinned_package_refuses():
    """uv installs a package whatever upper bound it has."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    allowed = metadata("PySide6-Essentials")["Requires-Python"]
    pythons = [f"3.{minor}" for minor in range(30)]
    assert "3.12" in SpecifierSet(wanted)
    assert [*SpecifierSet(wanted).filter(pythons)] == [
        *(SpecifierSet(allowed) & SpecifierSet(">=3.12")).filter(pythons)
    ]


def begun(tmp_path, **said):
    """What `make` says where these programs say these words, and uv fails. Nothing is fetched."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for name, script in {**said, "uv": 'echo "uv $*"; [ "$1" = --version ]'}.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    return subprocess.run(
        ["make", "--directory", str(tmp_path), ".venv/.ready"],
        capture_output=True,
        text=True,
        env={"PATH": f"{programs}:/usr/bin:/bin"},
    )


@pytest.mark.parametrize(
    ("machine", "translated", "macos", "refusal"),
    [
        ("x86_64", "", "14.4", "This Mac has an Intel processor: Slipstream needs Apple Silicon."),
        ("x86_64", "1", "15.1", "This terminal runs under Rosetta: open one that does not, "),
        ("arm64", "0", "13.6.1", "This Mac has macOS 13.6.1: update it to macOS 14 or newer, "),
        ("arm64", "0", "26.2", ""),
    ],
)
def test_a_mac_that_it_is_not_for_is_refused_before_anything_is_fetched(
    machine, translated, macos, refusal, tmp_path
):
    made = begun(
        tmp_path,
        uname=f'[ "$1" = -m ] && echo {machine} || echo Darwin',
        sysctl=f"echo {translated}",
        sw_vers=f"echo {macos}",
    )
    assert made.returncode
    assert made.stderr.startswith(refusal)
    assert ("uv venv --clear --python >=3.12,<3.15 .venv" in made.stdout) == (not refusal)
