"""What is downloaded holds the bundle, byte for byte, and is the same every time."""

import os
import shutil
import stat
import subprocess
import zipfile
from dataclasses import replace
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundle.assemble import set_times
from configuration import read_configuration
from image import downloads, udif
from image.downloads import archive_is_like, make_downloads, write_archive
from image.udif import SECTOR, read_image, write_image
from models.errors import Problem

needs_xorriso = pytest.mark.skipif(shutil.which("xorriso") is None, reason="needs xorriso")


@pytest.fixture
def app(tmp_path):
    """A bundle with what a file system may get wrong: links, long names, empty and large files."""
    app = tmp_path / "Slipstream.app"
    contents = app / "Contents"
    (contents / "MacOS").mkdir(parents=True)
    (contents / "MacOS" / "Slipstream").write_bytes(b"\xcf\xfa\xed\xfe")
    deep = contents / "Resources" / "a folder" / ("long" * 15) / "Ünïcode"
    deep.mkdir(parents=True)
    (deep / "empty").touch()
    (deep / "large").write_bytes(bytes(range(256)) * 5000)
    (deep / "link").symlink_to("empty")
    (deep / "UPPER").write_text("a")
    (deep / "lower").write_text("b")
    set_times(app)
    return app


@pytest.fixture
def configuration():
    return replace(read_configuration(), version="1.2")


def test_an_archive_that_is_like_it_and_some_that_are_not(app, tmp_path, subtests):
    packed = tmp_path / "a.zip"
    write_archive(app, packed)
    assert archive_is_like(app, packed)
    with zipfile.ZipFile(packed) as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
        times = {info.date_time for info in archive.infolist()}
    assert list(modes) == sorted(modes)
    assert times == {(2025, 1, 1, 0, 0, 0)}
    assert modes["Slipstream.app/Contents/MacOS/Slipstream"] == 0o100755
    assert stat.S_ISLNK(modes[next(name for name in modes if name.endswith("/link"))])
    for change in ("a byte", "a name", "a mode", "a link"):
        other = shutil.copytree(app, tmp_path / change / app.name, symlinks=True)
        program, link = other / "Contents" / "MacOS" / "Slipstream", next(other.rglob("link"))
        assert archive_is_like(other, packed)
        if change == "a byte":
            program.write_bytes(b"\xcf\xfa\xed\xff")
        elif change == "a name":
            program.rename(program.with_name("slipstream"))
        elif change == "a mode":
            program.chmod(0o644)
        else:
            link.unlink()
            link.symlink_to("elsewhere")
        with subtests.test(change=change):
            assert not archive_is_like(other, packed)


@needs_xorriso
def test_downloads_are_the_same_every_time(app, tmp_path, configuration):
    """Of a copy, made elsewhere, whose folders list their files in another order."""
    copy = tmp_path / "elsewhere" / app.name
    for path in sorted(app.rglob("*"), reverse=True):
        if not path.is_dir():
            (copy / path.relative_to(app)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy / path.relative_to(app), follow_symlinks=False)
    set_times(copy)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = make_downloads(app, tmp_path / "one", configuration)
    two = make_downloads(copy, tmp_path / "two", configuration)
    names = ["dmg", "zip", "sha256"]
    assert [p.name for p in one] == [f"Slipstream-1.2-arm64-without-starter.{n}" for n in names]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    done = subprocess.run(["sha256sum", "-c", one[2].name], cwd=one[2].parent, capture_output=True)
    assert done.returncode == 0
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == sorted(p.name for p in one)


@pytest.mark.slow
@needs_xorriso
@pytest.mark.skipif(shutil.which("7zz") is None, reason="needs 7-Zip")
def test_another_reader_finds_every_file(app, tmp_path, configuration):
    """7-Zip reads the image and the volume in it, and checks the sums of both."""
    made, *_ = make_downloads(app, tmp_path, configuration)
    listed = subprocess.run(["7zz", "l", made], capture_output=True, text=True, check=True)
    assert "Slipstream/Applications" in listed.stdout
    assert "Created = 2025-01-01 00:00:00\n" in listed.stdout
    # It refuses to make the way to Applications, as that leads out.
    subprocess.run(["7zz", "x", "-xr!Applications", f"-o{tmp_path / 'out'}", made], check=True)
    found = tmp_path / "out" / "Slipstream" / app.name
    paths = found.rglob("*")
    names = {normalize("NFC", path.relative_to(found).as_posix()): path for path in paths}
    for path in app.rglob("*"):
        there = names.pop(path.relative_to(app).as_posix())
        if path.is_symlink():
            assert there.readlink() == path.readlink()
        else:
            assert there.is_dir() if path.is_dir() else there.read_bytes() == path.read_bytes()
    assert not names


@needs_xorriso
def test_downloads_that_are_damaged_or_too_large_are_not_kept(
    app, tmp_path, configuration, monkeypatch, subtests
):
    def damage(path):
        data = bytearray(path.read_bytes())
        data[200] ^= 0xFF
        path.write_bytes(data)

    for kind, name in (("dmg", "write_image"), ("zip", "write_archive")):
        real = getattr(downloads, name)

        def forgetful(*paths, real=real):
            real(*paths)
            damage(paths[1])

        with subtests.test(kind=kind), monkeypatch.context() as patch:
            patch.setattr(downloads, name, forgetful)
            with pytest.raises(Problem, match=kind):
                make_downloads(app, tmp_path, configuration)
    small = replace(configuration, budget=replace(configuration.budget, image_bytes=100))
    with pytest.raises(Problem, match="100"):
        make_downloads(app, tmp_path, small)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem, match="xorriso"):
        make_downloads(app, tmp_path, configuration)
    assert list(tmp_path.iterdir()) == [app]  # no archive without its image


# Disk images: what is written is read, and what is damaged is noticed.


PIECES = st.lists(
    st.one_of(
        st.just(bytes(SECTOR)),
        st.binary(min_size=SECTOR, max_size=SECTOR),
        st.binary(min_size=1, max_size=1).map(lambda byte: byte * 700 * SECTOR),
    ),
    min_size=1,
    max_size=4,
)


@given(PIECES)
def test_a_volume_comes_back(tmp_path_factory, pieces):
    folder = tmp_path_factory.mktemp("image")
    volume = b"".join(pieces)
    (folder / "raw").write_bytes(volume)
    write_image(folder / "raw", folder / "a.dmg")
    assert b"".join(read_image(folder / "a.dmg")) == volume
    assert (folder / "a.dmg").read_bytes()[-512:-508] == b"koly"


def _image(folder):
    """Of pieces of each kind: zeros, what deflates, and what does not."""
    noise = os.urandom(udif._PIECE)
    text = b"slipstream" * (udif._PIECE // 10 + 1)
    raw = folder / "raw"
    raw.write_bytes(bytes(udif._PIECE) + text[: udif._PIECE] + noise + bytes(3 * SECTOR))
    write_image(raw, folder / "a.dmg")
    return folder / "a.dmg"


@pytest.mark.parametrize(
    "place",
    [100, 5000, 200_000, -512, -293, -150],
    ids=["deflated", "noise", "more noise", "magic", "where the table is", "checksum"],
)
def test_a_flipped_byte_is_noticed(tmp_path, place):
    image = _image(tmp_path)
    data = bytearray(image.read_bytes())
    data[place] ^= 0xFF
    image.write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.dmg|image|piece"):
        list(read_image(image))
