"""The command line of packaging: what it prints, and the status that it ends with."""

import pytest

import build
from bundle.resolve import LockedWheel
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


def test_picking_the_wheels_anew(tmp_path, monkeypatch, capsys):
    (tmp_path / "locks").mkdir()
    monkeypatch.setattr("bundle.resolve.PACKAGING", tmp_path)
    monkeypatch.setattr(build, "REPOSITORY", tmp_path)

    def resolve(platform, *, leave_out):
        assert "hf-xet" in leave_out
        return [LockedWheel("tiny", "1", f"tiny-1-{platform.name}.whl", "ab" * 32)]

    monkeypatch.setattr(build, "resolve", resolve)
    assert build.main(["locks"]) == 0
    assert sorted(path.name for path in tmp_path.glob("locks/*")) == [
        "linux-x86_64.txt",
        "macos-arm64.txt",
    ]
    assert capsys.readouterr().out.splitlines()[0] == "locks/macos-arm64.txt: 1 wheels"
