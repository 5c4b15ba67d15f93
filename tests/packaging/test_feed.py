"""A feed that is signed here is one that the application believes."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.updates.check import verified_text
from app.updates.feed import feed_from_text
from configuration import REPOSITORY, read_configuration
from feed import main, make_key, read_key
from models.download import file_sha256
from models.errors import Problem


def signed(folder: Path, *, page: str = "https://example.org/page") -> int:
    (folder / "image.dmg").write_bytes(b"an image")
    (folder / "notes.txt").write_text("What is new.")
    return main(
        [
            *("sign", str(folder / "image.dmg"), "--key", str(folder / "key"), "--page", page),
            *("--download", "https://example.org/image.dmg"),
            *("--notes", str(folder / "notes.txt"), "--out", str(folder / "feed.json")),
        ]
    )


def test_what_is_signed_is_believed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["key", str(tmp_path / "key")]) == 0
    public_key = bytes.fromhex(capsys.readouterr().out)
    assert signed(tmp_path) == 0
    text = verified_text((tmp_path / "feed.json").read_bytes(), public_key)
    feed = feed_from_text(text, loopback=False)
    assert feed.made <= datetime.now(UTC) < feed.expires
    assert feed.release.version == read_configuration().version
    assert feed.release.size_bytes == len("an image")
    assert feed.release.sha256 == file_sha256(tmp_path / "image.dmg")
    assert feed.release.notes == "What is new."


def test_the_private_key_is_the_owners_alone(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    with pytest.raises(Problem, match="exists"):
        make_key(tmp_path / "key")
    with pytest.raises(Problem, match="repository"):
        make_key(REPOSITORY / "build" / "key")


def test_what_cannot_be_signed_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert signed(tmp_path) == 2  # no key
    (tmp_path / "key").write_text("abcd")
    assert signed(tmp_path) == 2
    (tmp_path / "key").unlink()
    make_key(tmp_path / "key")
    assert len(read_key(tmp_path / "key")) == 32
    assert signed(tmp_path, page="http://example.org/") == 2
    assert len(capsys.readouterr().err.splitlines()) == 3
    assert not (tmp_path / "feed.json").exists()
