"""What is fetched for a bundle: locked wheels, and Python; the sha256 of each decides."""

import hashlib
import io
import re
import tarfile
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from bundle import resolve, runtime
from bundle.build_python import BuildPython
from bundle.resolve import LockedWheel, fetch, linux, macos, read_lock, unpack
from bundle.runtime import LIBRARY, install_for_mac, install_for_twin, openssl_version
from configuration import REPOSITORY, excluded, read_configuration
from models.errors import Problem
from tests.support.packaging.tiny_macho import ARM64, X86_64, universal
from tests.support.packaging.tiny_wheel import write_wheel, zipped

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


# Python within the bundle: pinned parts, thinned, laid where Python looks

BINARIES = ("Python", "libssl.3.dylib", "libcrypto.3.dylib", "Tcl")


def _source():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
        for name in ("LICENSE", "Lib/os.py", "Lib/json/__init__.py", "Lib/test/a.py", "Tools/a.py"):
            member = tarfile.TarInfo(f"Python-3/{name}")
            member.size = len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
    return buffer.getvalue()


@pytest.fixture
def configuration(tmp_path, monkeypatch):
    """One whose wheel and source archive are small, and lie in a cache of their own."""
    monkeypatch.delenv(runtime.SOURCE_VARIABLE, raising=False)
    for module in (resolve, runtime):
        monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    real = read_configuration()
    both = universal({X86_64: b"intel", ARM64: b"arm"})
    wheel = zipped(
        {f"freeze_core/bases/lib/{name}": both for name in BINARIES}
        | {f"freeze_core/lib/{name}.so": both for name in ("_ssl", "_tkinter")}
    )
    (tmp_path / "cache" / "wheels").mkdir(parents=True)
    (tmp_path / "cache" / "wheels" / real.runtime.wheel).write_bytes(wheel)
    (tmp_path / "cache" / real.runtime.source).write_bytes(_source())
    pins = {
        "wheel_sha256": hashlib.sha256(wheel).hexdigest(),
        "source_sha256": hashlib.sha256(_source()).hexdigest(),
    }
    return replace(real, runtime=replace(real.runtime, **pins))


def test_for_the_mac(configuration, tmp_path):
    install_for_mac(tmp_path / "python", configuration)
    library = tmp_path / "python" / LIBRARY
    assert _files(library) == {
        "LICENSE.txt",
        "_sysconfigdata__darwin_darwin.py",
        "bases/lib/Python",
        "bases/lib/libcrypto.3.dylib",
        "bases/lib/libssl.3.dylib",
        "json/__init__.py",
        "lib-dynload/_ssl.so",
        "os.py",
    }
    assert (library / "bases" / "lib" / "Python").read_bytes() == b"arm"
    assert (library / "lib-dynload" / "_ssl.so").read_bytes() == b"arm"
    assert (library / "os.py").read_text() == "Lib/os.py"
    crypto = library / "bases" / "lib" / "libcrypto.3.dylib"
    crypto.write_bytes(b"\0OpenSSL\0OpenSSL 3.0.21 9 Jun 2026\0")
    assert openssl_version(tmp_path / "python") == "3.0.21"
    crypto.write_bytes(b"OpenSSL 3")
    with pytest.raises(Problem, match="OpenSSL"):
        openssl_version(tmp_path / "python")


def test_another_archive_is_refused(configuration, tmp_path, monkeypatch):
    given = tmp_path / "given.tar.xz"
    given.write_bytes(b"another")
    monkeypatch.setenv(runtime.SOURCE_VARIABLE, str(given))
    with pytest.raises(Problem, match="source archive") as caught:
        runtime.source_archive(configuration.runtime)
    assert configuration.runtime.source_sha256 in caught.value.remedy
    given.write_bytes(_source())
    assert runtime.source_archive(configuration.runtime) == given


def test_for_the_twin(configuration, tmp_path):
    places = (tmp_path / name for name in ("python", "libpython.so", "3.13", "ext"))
    python = BuildPython("3.13.0", *places)
    for name in ("os.py", "idlelib/a.py", "site-packages/pip/a.py", "lib-dynload/_ssl.so"):
        (python.stdlib / name).parent.mkdir(parents=True, exist_ok=True)
        (python.stdlib / name).touch()
    python.extensions.mkdir()
    (python.extensions / "_json.so").touch()
    with pytest.raises(Problem, match="libpython"):
        install_for_twin(tmp_path / "none", python, configuration.prune)
    python.library.touch()
    install_for_twin(tmp_path / "twin", python, configuration.prune)
    assert _files(tmp_path / "twin" / LIBRARY) == {
        "bases/lib/Python",
        "lib-dynload/_json.so",
        "os.py",
    }
