"""A download is resumed, checked, and never kept under its own name unless it is right."""

import hashlib
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from models.download import connection_trouble, download
from models.errors import Problem
from tests.support.models.file_server import FileServer, serving

DATA = bytes(range(256)) * 1_000
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server():
    with serving(DATA) as served:
        yield served


def fetch(server, folder, **changes):
    settings = {"sha256": SHA256, "maximum_bytes": 1_000_000}
    return download(server.url, folder / "x", **(settings | changes))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_fetched_once(server, tmp_path):
    calls = []
    path = fetch(server, tmp_path, progress=lambda *call: calls.append(call))
    assert path.read_bytes() == DATA
    assert calls[-1] == (len(DATA), len(DATA))
    assert calls == sorted(calls)
    fetch(server, tmp_path)
    assert server.asked == [None]
    assert names(tmp_path) == ["x"]


def test_a_broken_connection_is_resumed(server, tmp_path):
    server.break_after = 100_000
    calls = []
    path = fetch(server, tmp_path, progress=lambda *call: calls.append(call))
    assert path.read_bytes() == DATA
    assert server.asked == [None, "bytes=100000-", "bytes=200000-"]
    assert calls[-1] == (len(DATA), len(DATA))


def test_a_later_attempt_resumes_too(server, tmp_path):
    (tmp_path / "x.partial").write_bytes(DATA[:70_000])
    assert fetch(server, tmp_path).read_bytes() == DATA
    assert server.asked == ["bytes=70000-"]


def test_a_partial_file_that_is_whole_already(server, tmp_path):
    (tmp_path / "x.partial").write_bytes(DATA)
    assert fetch(server, tmp_path).read_bytes() == DATA


def test_a_partial_file_that_is_longer_than_the_file(server, tmp_path):
    (tmp_path / "x.partial").write_bytes(DATA + b"more")
    assert fetch(server, tmp_path).read_bytes() == DATA


def test_a_server_that_cannot_resume_starts_over(server, tmp_path):
    server.ranges = False
    (tmp_path / "x.partial").write_bytes(b"z" * 70_000)
    assert fetch(server, tmp_path).read_bytes() == DATA


def test_a_server_that_resumes_at_the_wrong_place(server, tmp_path):
    server.wrong_start = True
    (tmp_path / "x.partial").write_bytes(DATA[:70_000])
    assert fetch(server, tmp_path).read_bytes() == DATA
    assert server.asked == ["bytes=70000-", None]


def test_a_server_that_sends_nothing_is_given_up(server, tmp_path):
    server.break_after = 0
    with pytest.raises(Problem, match="cannot be downloaded") as problem:
        fetch(server, tmp_path)
    assert "network" in problem.value.remedy


def test_an_error_status_is_a_problem_and_keeps_what_came(server, tmp_path):
    server.status = 404
    (tmp_path / "x.partial").write_bytes(DATA[:10])
    with pytest.raises(Problem, match="404"):
        fetch(server, tmp_path)
    assert len(server.asked) == 1
    assert names(tmp_path) == ["x.partial"]


def test_a_corrupt_download_is_thrown_away(server, tmp_path):
    server.data = DATA[:-1] + b"?"
    with pytest.raises(Problem, match="damaged"):
        fetch(server, tmp_path)
    assert names(tmp_path) == []
    server.data = DATA
    assert fetch(server, tmp_path).read_bytes() == DATA


def test_a_wrong_file_in_place_is_replaced(server, tmp_path):
    (tmp_path / "x").write_bytes(b"wrong")
    assert fetch(server, tmp_path).read_bytes() == DATA


def test_an_endless_file_is_cut_off(server, tmp_path):
    with pytest.raises(Problem, match="larger"):
        fetch(server, tmp_path, maximum_bytes=50_000)
    assert (tmp_path / "x.partial").stat().st_size <= 50_000


def test_no_server(tmp_path):
    with serving(b"") as gone:
        pass
    with pytest.raises(Problem, match="cannot be reached"):
        fetch(gone, tmp_path)


def test_the_systems_own_words_are_not_shown(subtests):
    for error, words in [
        (httpx2.ConnectError("[Errno -2] Name or service not known"), "cannot be reached"),
        (httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] ..."), "the certificate"),
        (httpx2.ConnectTimeout("[Errno 110] timed out"), "does not answer"),
        (httpx2.ReadTimeout("timed out"), "does not answer"),
        (httpx2.ProxyError("[Errno 111] http://name:secret@proxy"), "the proxy"),
        (httpx2.UnsupportedProtocol("nonsense://x"), "the address"),
        (httpx2.ReadError("[Errno 104] Connection reset by peer"), "broke off"),
    ]:
        with subtests.test(error=error):
            told = connection_trouble(error, "the hub")
            assert words in told
            assert "the hub" in told
            assert not any(raw in told for raw in ("[", "Errno", "secret", "://"))


def test_no_address(tmp_path):
    for url in ("", "nonsense", "ftp://127.0.0.1/x", "http://[::1"):
        with pytest.raises(Problem, match="cannot be downloaded"):
            fetch(FileServer(b"", url=url), tmp_path)


def test_a_place_that_cannot_be_written(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Problem, match="stored"):
        fetch(server, tmp_path / "file")


def test_stopping_keeps_what_came(server, tmp_path):
    def stop(done, total):
        if done > 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(server, tmp_path, progress=stop)
    kept = (tmp_path / "x.partial").stat().st_size
    assert 0 < kept < len(DATA)
    assert fetch(server, tmp_path).read_bytes() == DATA
    assert server.asked == [None, f"bytes={kept}-"]


def test_a_killed_process_leaves_what_can_be_resumed(server, tmp_path):
    program = (
        "import os, signal, sys; from pathlib import Path; from models.download import download\n"
        "def kill(done, total):\n"
        "    if done > 100_000: os.kill(os.getpid(), signal.SIGKILL)\n"
        "download(sys.argv[1], Path(sys.argv[2]), sha256=sys.argv[3], maximum_bytes=10**6,"
        " progress=kill)"
    )
    command = [sys.executable, "-c", program, server.url, str(tmp_path / "x"), SHA256]
    assert subprocess.run(command, cwd=Path(__file__).parents[2]).returncode == -9
    assert names(tmp_path) == ["x.partial"]
    assert fetch(server, tmp_path).read_bytes() == DATA
