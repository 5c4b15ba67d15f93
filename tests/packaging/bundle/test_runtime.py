"""Python within the bundle: pinned parts, thinned, laid where Python looks."""

import hashlib
import io
import tarfile
from dataclasses import replace

import pytest

from bundle import resolve, runtime
from bundle.build_python import BuildPython
from bundle.runtime import LIBRARY, install_for_mac, install_for_twin, openssl_version
from configuration import read_configuration
from models.errors import Problem
from tests.support.packaging.tiny_macho import ARM64, X86_64, universal
from tests.support.packaging.tiny_wheel import zipped

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


def _files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


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
