"""A file at an address is resumed, checked, and never under its own name unless it is right."""

import httpx2
import pytest

from models.errors import Problem
from models.hub.transfer import fetch_file
from models.network import connection_trouble
from tests.support.models.hub_server import FILE, Refusal, serving_file, sha256

DATA = bytes(range(256)) * 1_000
PARTIAL = f"x.{sha256(DATA)[:8]}.partial"
PAGE = Refusal(200, body=b"<html>", headers={"Content-Type": "text/html"})


@pytest.fixture(autouse=True)
def no_proxy_and_no_certificates(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))  # the system's take long to read


@pytest.fixture
def server():
    with serving_file(DATA) as served:
        yield served


def get(url, path, **changes):
    settings = {"sha256": sha256(DATA), "most_bytes": 1_000_000, "wait_seconds": 0.0}
    return fetch_file(url, path, **settings | changes)


def asked(server):
    return [each.range for each in server.asked]


def test_a_file_is_fetched_once(server, tmp_path):
    came = []
    path = get(server.url, tmp_path / "new" / "x", came=came.append)
    assert path.read_bytes() == DATA
    assert came == sorted(came)
    assert came[-1] == len(DATA)
    get(server.url, path)
    assert asked(server) == [None]
    assert [each.name for each in path.parent.iterdir()] == ["x"]


@pytest.mark.parametrize(
    ("partial", "server_is", "ranges"),
    [
        (b"", {"drop_after": 100_000}, [None, "bytes=100000-", "bytes=200000-"]),
        (DATA[:70_000], {}, ["bytes=70000-"]),
        (DATA, {}, []),
        (DATA + b"more", {}, ["bytes=256004-", None]),
        (DATA[:-1] + b"?", {}, ["bytes=256000-", None]),
        (b"z" * 70_000, {"ranges": False}, ["bytes=70000-"]),
        (DATA[:70_000], {"wrong_start": True}, ["bytes=70000-", None]),
    ],
)
def test_what_came_before_is_used(server, tmp_path, partial, server_is, ranges):
    (tmp_path / "x").write_bytes(b"another file")
    (tmp_path / PARTIAL).write_bytes(partial)
    vars(server).update(server_is)
    assert get(server.url, tmp_path / "x").read_bytes() == DATA
    assert asked(server) == ranges


def test_what_goes_wrong_is_said_and_the_bytes_are_kept(tmp_path, subtests):
    partial = tmp_path / PARTIAL
    for server_is, changes, match, left in [
        ({"drop_after": 0}, {}, "broke off", 10),
        ({"refusals": {"/cdn/": Refusal(404)}}, {}, "answered 404", 10),
        ({"refusals": {"/cdn/": PAGE}}, {}, "did not come from", 10),
        ({"corrupt": {FILE: 1}}, {}, "damaged", None),
        ({}, {"most_bytes": 50_000}, "sends more", 50_000),
    ]:
        partial.write_bytes(DATA[:10])
        with subtests.test(match=match), serving_file(DATA) as server:
            vars(server).update(server_is)
            with pytest.raises(Problem, match=match):
                get(server.url, tmp_path / "x", **changes)
            assert (partial.stat().st_size <= left) if left else not partial.exists()
            assert not (tmp_path / "x").exists()
    for url in ("", "nonsense", "ftp://127.0.0.1/x", "http://[::1", server.url):  # which is gone
        with subtests.test(url=url), pytest.raises(Problem, match="cannot be downloaded"):
            get(url, tmp_path / "x")
    (tmp_path / "file").touch()
    with serving_file(DATA) as server, pytest.raises(Problem, match="stored"):
        get(server.url, tmp_path / "file" / "x")


def test_stopping_keeps_what_came_of_this_version(server, tmp_path):
    def stop_after(most):
        def came(size_bytes):
            if size_bytes > most:
                raise KeyboardInterrupt

        return came

    for sum_, most in ((sha256(b"an older one"), 0), (sha256(DATA), 100_000)):
        with pytest.raises(KeyboardInterrupt):
            get(server.url, tmp_path / "x", sha256=sum_, came=stop_after(most))
    kept = (tmp_path / PARTIAL).stat().st_size
    assert 0 < kept < len(DATA)
    assert get(server.url, tmp_path / "x").read_bytes() == DATA
    assert asked(server) == [None, None, f"bytes={kept}-"]


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
