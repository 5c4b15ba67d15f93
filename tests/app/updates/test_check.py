"""Asking for a feed over loopback: what is believed, and what is not."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from nacl.signing import SigningKey

from app.updates.check import check
from app.updates.feed import Feed
from models.errors import Problem
from tests.support.app.feed_server import (
    NOW,
    PUBLIC_KEY,
    RELEASE,
    FeedServer,
    made_feed,
    nobody_there,
    serving,
)
from tests.support.app.window_maker import ROOT

SOME_SECONDS = 30.0


def asked(
    server: FeedServer, *, seen: datetime | None = None, seconds: float = SOME_SECONDS
) -> Feed:
    return check(server.address, public_key=PUBLIC_KEY, seen=seen, now=NOW, seconds=seconds)


def test_a_good_feed_is_accepted() -> None:
    with serving(made_feed()) as server:
        assert asked(server).release == RELEASE
        assert asked(server, seen=NOW).release == RELEASE


def test_nothing_about_the_person_is_sent() -> None:
    with serving(made_feed()) as server:
        asked(server)
    (headers,) = server.asked
    assert {name.lower() for name in headers} <= {
        *("host", "user-agent", "accept", "accept-encoding", "connection")
    }
    assert headers.get("User-Agent", headers.get("user-agent")) == "Slipstream"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (made_feed().replace(b"9.8.7", b"9.8.8", 1), "not signed"),
        (made_feed(key=bytes(SigningKey.generate())), "not signed"),
        (b"", "not signed"),
        (b"<html>Log in first.</html>", "not signed"),
        (made_feed(days=-1), "expired"),
        (made_feed(days=0), "expired"),
        (made_feed(release=replace(RELEASE, page="http://example.org/")), "not HTTPS"),
        (made_feed(release=replace(RELEASE, download="http://example.org/")), "not HTTPS"),
        (made_feed() + b" " * (256 << 10), "too large"),
    ],
)
def test_bad_feeds_are_refused(data: bytes, problem: str) -> None:
    with serving(data) as server, pytest.raises(Problem, match=problem):
        asked(server)


def test_a_replayed_old_feed_is_refused() -> None:
    with serving(made_feed()) as server, pytest.raises(Problem, match="older"):
        asked(server, seen=NOW + timedelta(seconds=1))


def test_a_redirection_to_an_allowed_address_is_followed() -> None:
    with serving(made_feed()) as there, serving(b"") as server:
        server.redirect = there.address
        assert asked(server).release == RELEASE


@pytest.mark.parametrize("target", ["http://192.0.2.1/feed.json", "ftp://127.0.0.1/", "file:///a"])
def test_a_redirection_away_from_https_is_not_followed(target: str) -> None:
    with serving(b"") as server:
        server.redirect = target
        with pytest.raises(Problem, match="not at an HTTPS"):
            asked(server)


def test_an_https_feed_is_not_redirected_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(made_feed()) as server:
        monkeypatch.setattr("app.updates.check.is_loopback", lambda link: False)
        with pytest.raises(Problem, match="not at an HTTPS"):
            asked(server)
        assert server.connections == 0


def test_an_https_feed_has_no_links_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    data = made_feed(release=replace(RELEASE, page="http://127.0.0.1/page"))
    monkeypatch.setattr("app.updates.check.fetch", lambda address, seconds: data)
    with pytest.raises(Problem, match="not HTTPS"):
        check("https://example.org/feed.json", public_key=PUBLIC_KEY, seen=None, now=NOW)


def test_the_number_of_redirections_is_limited() -> None:
    with serving(b"") as server:
        server.redirect = server.address
        with pytest.raises(Problem, match="redirects"):
            asked(server)
    assert len(server.asked) == 4


def test_a_server_that_is_too_slow_is_given_up() -> None:
    with serving(made_feed()) as server:
        server.apart_seconds = 0.01
        with pytest.raises(Problem, match="too slowly"):
            asked(server, seconds=0.2)
    assert server.connections == 1


def test_an_error_status_or_no_server_is_a_problem() -> None:
    with serving(made_feed()) as server:
        server.status = 503
        with pytest.raises(Problem, match="503"):
            asked(server)
    with pytest.raises(Problem, match="reached"):
        check(nobody_there(), public_key=PUBLIC_KEY, seen=None, now=NOW)


@pytest.mark.parametrize(
    ("version", "seen", "expected"),
    [("0.1.0", "", "9.8.7"), ("9.8.7", "", None), ("10.0", "", None)],
)
def test_the_process_prints_one_line(version: str, seen: str, expected: str | None) -> None:
    with serving(made_feed()) as server:
        told = ask_process(server.address, version, seen)
    assert datetime.fromisoformat(told["made"]) == NOW
    assert (told["release"] and told["release"]["version"]) == expected


def test_the_process_prints_a_problem() -> None:
    with serving(made_feed()) as server:
        told = ask_process(server.address, "0.1.0", (NOW + timedelta(days=1)).isoformat())
    assert "older" in told["problem"][0]


def ask_process(address: str, version: str, seen: str) -> dict[str, dict[str, str] | str | None]:
    words = (address, PUBLIC_KEY.hex(), version, seen)
    done = subprocess.run(
        [sys.executable, "-m", "app.updates.check", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    told: dict[str, dict[str, str] | str | None] = json.loads(line)
    return told


def test_the_check_imports_no_qt() -> None:
    code = "import sys, app.updates.check; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "PySide6" not in done.stdout.split()
