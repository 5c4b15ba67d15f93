"""Locks: one wheel a line, which the sha256 decides."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from bundle import resolve
from bundle.resolve import LockedWheel, fetch, linux, macos, read_lock, unpack
from configuration import REPOSITORY, excluded, read_configuration
from models.errors import Problem
from tests.support.packaging.tiny_macho import ARM64, X86_64, universal
from tests.support.packaging.tiny_wheel import write_wheel

MAC = macos(read_configuration().application.minimum_macos)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(resolve, "CACHE", tmp_path)
    return tmp_path


@pytest.mark.parametrize("platform", [MAC, linux()], ids=["mac", "linux"])
def test_the_locks_that_are_kept_suit_what_the_project_asks_for(platform):
    assert "://" not in platform.lock.read_text()
    locked = {}
    for wheel in read_lock(platform.lock):
        name, version, _, tags = parse_wheel_filename(wheel.filename)
        assert (name, str(version)) == (canonicalize_name(wheel.name), wheel.version)
        locked[wheel.name] = wheel.version
        platforms = {tag.platform for tag in tags}
        if platform is MAC and platforms != {"any"}:
            oldest = min(tuple(map(int, re.findall(r"\d+", tag)[:2])) for tag in platforms)
            assert oldest <= (14, 0)
            assert any(tag.endswith(("arm64", "universal2")) for tag in platforms)
    system = "darwin" if platform is MAC else "linux"
    environment = {**default_environment(), "sys_platform": system}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["window"]]
    for requirement in map(Requirement, wanted):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            name = canonicalize_name(requirement.name)
            assert name == "pip" or locked[name] in requirement.specifier, "run: make locks"
    left_out = {*read_configuration().prune.lines("wheels")}
    assert {"pip", "hf-xet", "fsspec", "requests"} <= left_out
    nobody_asks_for = {"pynacl", "pyjwt", "pycparser"}
    assert locked.keys().isdisjoint(left_out | nobody_asks_for), "run: make locks"


def test_a_damaged_wheel_is_fetched_again_and_a_sound_one_not(cache, monkeypatch):
    wheel = write_wheel(cache / "wheels", {})
    good, asked = wheel.path.read_bytes(), []

    def run(command):
        asked.append(command)
        folder = Path(command[command.index("--dest") + 1])
        (folder / wheel.filename).write_bytes(good)

    monkeypatch.setattr(resolve, "_run", run)
    fetch([wheel], MAC)
    assert asked == []
    wheel.path.write_bytes(b"bad")
    fetch([wheel], MAC)
    assert wheel.path.read_bytes() == good
    (command,) = asked
    assert "--require-hashes" in command
    assert "--platform=macosx_14_0_arm64" in command
    with pytest.raises(Problem, match="gone-1"):  # what came is another wheel
        fetch([LockedWheel("gone", "1", "gone-1-py3-none-any.whl", "0" * 64)], MAC)


def test_what_a_tool_says_reaches_the_user(monkeypatch):
    with pytest.raises(Problem, match="ERROR: no such thing"):
        resolve._run(["sh", "-c", "echo working; echo 'ERROR: no such thing' >&2; exit 1"])
    pip = ("sh", "-c", "echo working >&2; echo 'ERROR: none.' >&2; exit 1", "pip")
    monkeypatch.setattr(resolve, "_PIP", pip)
    with pytest.raises(Problem, match=r"^pip could not get the packages: ERROR: none\. Check"):
        resolve._run([*pip, "download", "no-such-package"])
    with pytest.raises(Problem, match="no-such-tool is not installed"):
        resolve._run(["/no-such-tool"])


# A wheel taken apart: what pip would install, less what is excluded


def _unpack(tmp_path, members, *lines):
    wheel = write_wheel(tmp_path / "wheels", members)
    folder = tmp_path / "site-packages"
    unpack(wheel, folder, architecture="arm64", is_excluded=excluded(lines))
    return folder


def _files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_wheel_is_unpacked_thinned_without_what_is_left_out(tmp_path, subtests):
    data = {f"tiny-1.data/{kind}/tiny/a": b"" for kind in ("platlib", "scripts", "headers")}
    members = {f"tiny/{name}": b"" for name in ("b.py", "a.py", "a.pyi")}
    library = {"tiny/a.so": universal({X86_64: b"intel", ARM64: b"arm"})}
    more = {**data, "tiny-1.data/purelib/tiny/b": b""}
    folder = _unpack(tmp_path, members | library | more, "*.pyi")
    info = "tiny-1.dist-info"
    kept = [f"{info}/METADATA", f"{info}/RECORD"]
    kept += [f"tiny/{name}" for name in ("a", "a.py", "a.so", "b", "b.py")]
    assert _files(folder) == {*kept}
    assert (folder / info / "RECORD").read_text().splitlines() == [f"{each},," for each in kept]
    assert (folder / "tiny" / "a.so").read_bytes() == b"arm"
    for name in ("../out.py", "/out.py", "tiny/../../out.py"):
        with subtests.test(name=name), pytest.raises(ValueError, match="out"):
            _unpack(tmp_path, {name: b""})
