"""A wheel taken apart: what pip would install, less what is excluded."""

import pytest

from bundle import resolve
from bundle.resolve import unpack
from configuration import excluded
from tests.support.packaging.tiny_macho import ARM64, X86_64, universal
from tests.support.packaging.tiny_wheel import write_wheel


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(resolve, "CACHE", tmp_path)


def _unpack(tmp_path, members, *lines):
    wheel = write_wheel(tmp_path / "wheels", members)
    folder = tmp_path / "site-packages"
    unpack(wheel, folder, architecture="arm64", is_excluded=excluded(lines))
    return folder


def _files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_what_is_left_out_is_in_no_record(tmp_path):
    folder = _unpack(tmp_path, {"tiny/b.py": b"", "tiny/a.py": b"", "tiny/a.pyi": b""}, "*.pyi")
    info = "tiny-1.dist-info"
    assert _files(folder) == {"tiny/a.py", "tiny/b.py", f"{info}/METADATA", f"{info}/RECORD"}
    record = (folder / info / "RECORD").read_text().splitlines()
    assert record == [f"{info}/METADATA,,", f"{info}/RECORD,,", "tiny/a.py,,", "tiny/b.py,,"]


def test_data_of_a_wheel(tmp_path):
    data = {f"tiny-1.data/{kind}/tiny/a": b"" for kind in ("platlib", "scripts", "headers")}
    folder = _unpack(tmp_path, {**data, "tiny-1.data/purelib/tiny/b": b""})
    assert {name for name in _files(folder) if "dist-info" not in name} == {"tiny/a", "tiny/b"}


def test_universal_binaries_are_thinned(tmp_path):
    folder = _unpack(tmp_path, {"tiny/a.so": universal({X86_64: b"intel", ARM64: b"arm"})})
    assert (folder / "tiny" / "a.so").read_bytes() == b"arm"


@pytest.mark.parametrize("name", ["../out.py", "/out.py", "tiny/../../out.py"])
def test_a_wheel_that_writes_elsewhere_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="out"):
        _unpack(tmp_path, {name: b""})
