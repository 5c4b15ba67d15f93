"""Locks: one wheel a line, which the sha256 decides."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from bundle import resolve
from bundle.resolve import LockedWheel, fetch, linux, macos, read_lock, unpack, write_lock
from configuration import REPOSITORY, excluded, read_configuration
from models.errors import Problem
from tests.support.mostly_slow import examples
from tests.support.packaging.tiny_macho import ARM64, X86_64, universal
from tests.support.packaging.tiny_wheel import write_wheel

MAC = macos(read_configuration().application.minimum_macos)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(resolve, "CACHE", tmp_path)
    return tmp_path


@settings(max_examples=examples(20))
@given(
    st.dictionaries(st.from_regex(r"[a-z][a-z0-9-]{0,9}", fullmatch=True), st.binary(), max_size=5)
)
def test_a_lock_is_read_as_it_was_written(tmp_path_factory, items):
    path = tmp_path_factory.getbasetemp() / "lock.txt"
    wheels = [
        LockedWheel(name, "1.0", f"{name}-1.0-py3-none-any.whl", f"{len(data):064x}")
        for name, data in sorted(items.items())
    ]
    write_lock(path, wheels[::-1])
    assert read_lock(path) == wheels
    path.write_text(path.read_text() + "b==1\n")
    with pytest.raises(ValueError, match="b==1"):
        read_lock(path)


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


def test_resolving_asks_uv_for_versions_and_pip_for_wheels(monkeypatch):
    asked = []
    found = {
        "metadata": {"name": "Some_Package", "version": "1.2"},
        "download_info": {
            "url": "https://index.example/x/some_package-1.2%2Bcpu-py3-none-any.whl",
            "archive_info": {"hashes": {"sha256": "ab"}},
        },
    }

    def run(command, environment=None):
        asked.append((command, environment))
        return json.dumps({"install": [found]}).encode() if "--report" in command else b"a==1\n"

    monkeypatch.setattr(resolve, "_run", run)
    name = "some_package-1.2+cpu-py3-none-any.whl"
    wheels = resolve.resolve(MAC, leave_out=("heavy", "idle"))
    assert wheels == [LockedWheel("some-package", "1.2", name, "ab")]
    (uv, environment), _ = asked
    assert "--python-platform=aarch64-apple-darwin" in uv
    assert "--extra=window" in uv
    assert {"--no-emit-package=heavy", "--no-emit-package=idle"} <= set(uv)
    assert environment["MACOSX_DEPLOYMENT_TARGET"] == "14.0"


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
