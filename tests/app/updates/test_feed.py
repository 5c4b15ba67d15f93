"""What a feed may say, and what comes of anything else."""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.updates.check import sign_text, verified_text
from app.updates.feed import (
    Feed,
    feed_from_text,
    feed_to_text,
    is_newer,
    is_secure,
)
from models.errors import Problem
from tests.support.app.feed_server import KEY, NOW, PUBLIC_KEY, RELEASE

FEED = Feed(made=NOW, expires=NOW + timedelta(days=1), release=RELEASE)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def told(**changes: Any) -> str:
    """The feed, with another release."""
    fields = json.loads(feed_to_text(FEED))
    fields["release"] |= changes
    return json.dumps(fields)


@pytest.mark.parametrize(
    ("version", "than", "newer"),
    [
        ("0.2.0", "0.1.0", True),
        ("0.10.0", "0.9.9", True),
        ("1.0", "0.9.9", True),
        ("0.1.1", "0.1", True),
        ("0.1.0", "0.1.0", False),
        ("0.1", "0.1.0", False),
        ("0.1.0", "0.1", False),
        ("0.0.9", "0.1.0", False),
        ("0.1.0", "0.1.1.dev3+abc", False),
        ("0.1.2", "0.1.1.dev3+abc", True),
    ],
)
def test_which_version_is_newer(version: str, than: str, newer: bool) -> None:
    assert is_newer(version, than) is newer


@pytest.mark.parametrize(
    ("link", "secure", "on_loopback"),
    [
        ("https://example.org/a", True, True),
        ("http://example.org/a", False, False),
        ("http://127.0.0.1:80/a", False, True),
        ("http://localhost/", False, True),
        ("http://127.0.0.1.example.org/", False, False),
        ("http://127.0.0.1@example.org/", False, False),
        ("file:///etc/passwd", False, False),
        ("javascript:alert(1)", False, False),
        ("https://", False, False),
        ("https:example.org", False, False),
        ("https://exämple.org/", False, False),
        ("https://example.org/a b", False, False),
        ("https://example.org/\n", False, False),
        ("https://[1/", False, False),
        ("https://example.org:99999/", False, False),
    ],
)
def test_which_links_are_secure(link: str, secure: bool, on_loopback: bool) -> None:
    assert is_secure(link, loopback=False) is secure
    assert is_secure(link, loopback=True) is on_loopback


def test_a_feed_survives_the_round_trip() -> None:
    assert feed_from_text(feed_to_text(FEED), loopback=False) == FEED


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "1"},
        {"version": "1.0-beta"},
        {"version": "1.0\n"},
        {"version": 1.0},
        {"page": "http://example.org/"},
        {"download": "http://127.0.0.1/"},
        {"page": None},
        {"page": "https://example.org/" + "a" * 2000},
        {"size_bytes": 0},
        {"size_bytes": "12"},
        {"size_bytes": True},
        {"size_bytes": 1e300},
        {"size_bytes": 1 << 40},
        {"sha256": "ab"},
        {"sha256": "G" * 64},
        {"notes": None},
        {"notes": "a" * 20_001},
    ],
)
def test_an_invalid_release_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Problem):
        feed_from_text(told(**changes), loopback=False)


@pytest.mark.parametrize("name", [*asdict(RELEASE), "release", "made", "expires", "format"])
def test_a_feed_with_a_missing_field_is_refused(name: str) -> None:
    fields = json.loads(feed_to_text(FEED))
    (fields if name in fields else fields["release"]).pop(name)
    with pytest.raises(Problem):
        feed_from_text(json.dumps(fields), loopback=False)


def test_a_feed_of_another_format_or_without_a_time_zone_is_refused() -> None:
    fields = json.loads(feed_to_text(FEED))
    for change in ({"format": 2}, {"made": "2027-01-01T00:00:00"}, {"expires": "soon"}):
        with pytest.raises(Problem):
            feed_from_text(json.dumps({**fields, **change}), loopback=False)


def test_loopback_links_are_for_loopback_feeds_only() -> None:
    text = told(page="http://127.0.0.1:1/page")
    assert feed_from_text(text, loopback=True).release.page == "http://127.0.0.1:1/page"


@given(JSON | st.fixed_dictionaries({"format": st.just(1), "made": JSON, "expires": JSON}))
def test_any_other_json_is_a_problem(value: object) -> None:
    with pytest.raises(Problem):
        feed_from_text(json.dumps(value), loopback=True)


@given(
    st.builds(
        replace,
        st.just(RELEASE),
        notes=st.text(max_size=100),
        size_bytes=st.integers(1, (1 << 40) - 1),
    ),
    st.datetimes(timezones=st.just(UTC)),
)
def test_a_signed_text_is_verified(release: Any, made: datetime) -> None:
    feed = Feed(made=made, expires=made, release=release)
    text = verified_text(sign_text(feed_to_text(feed), bytes(KEY)), PUBLIC_KEY)
    assert feed_from_text(text, loopback=False) == feed


@given(st.binary() | JSON.map(lambda value: json.dumps({"signed": value, "signature": "AA=="})))
def test_an_unsigned_file_is_a_problem(data: bytes | str) -> None:
    with pytest.raises(Problem):
        verified_text(data if isinstance(data, bytes) else data.encode(), PUBLIC_KEY)


@given(st.data())
def test_no_character_of_a_signed_text_can_be_changed(data: st.DataObject) -> None:
    signed_file = json.loads(sign_text("version 1", bytes(KEY)))
    place = data.draw(st.integers(0, len(signed_file["signed"]) - 1))
    other = data.draw(
        st.characters(codec="utf-8").filter(lambda c: c != signed_file["signed"][place])
    )
    changed = signed_file["signed"][:place] + other + signed_file["signed"][place + 1 :]
    with pytest.raises(Problem, match="not signed"):
        verified_text(json.dumps({**signed_file, "signed": changed}).encode(), PUBLIC_KEY)
