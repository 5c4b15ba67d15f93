"""The file of the API key."""

import secrets

import pytest

from engine.server.keys import default_key_file, read_key
from models.errors import Problem


def test_a_file_that_is_not_there_is_made_for_its_owner_alone(tmp_path, monkeypatch):
    path = tmp_path / "folder" / "key"
    key = read_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(key) > 30
    assert read_key(path) == key
    other, token, found = tmp_path / "other", secrets.token_urlsafe, []

    def meanwhile(size):  # another process makes it, too
        monkeypatch.undo()
        found.append(read_key(other))
        return token(size)

    monkeypatch.setattr(secrets, "token_urlsafe", meanwhile)
    found.append(read_key(other))
    assert found[0] == found[1] != key
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "other"]


def test_a_file_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "key"
    read_key(path)
    for mode in (0o640, 0o604, 0o660):
        path.chmod(mode)
        with pytest.raises(Problem) as caught:
            read_key(path)
        assert "chmod 600" in caught.value.remedy


def test_what_is_no_key_is_refused(tmp_path):
    path = tmp_path / "key"
    for text in ("", "short", "two words in a line", "ab\x00cd" * 9, "ü" * 30):
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        with pytest.raises(Problem):
            read_key(path)
    for other in (tmp_path, path / "key"):  # a folder, and one that cannot be made
        with pytest.raises(Problem):
            read_key(other)


def test_without_a_name_it_is_in_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    assert default_key_file().parent == tmp_path
