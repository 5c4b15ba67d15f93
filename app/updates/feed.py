"""The feed that announces releases: where it is, whose signature counts, and what it says.

Knows plain values, which are checked as they are read; not how the feed is downloaded or signed.
The address and the key have no owner yet. Whoever releases Slipstream makes a key
(`python packaging/feed.py key`), and puts its public half and the address of the feed here.

    {"format": 1, "made": "2027-01-31T12:00:00+00:00", "expires": "2027-05-01T12:00:00+00:00",
     "release": {"version": "0.2.0", "page": "https://...", "download": "https://...dmg",
                 "size_bytes": 110183653, "sha256": "...", "notes": "What is new, as plain text."}}
"""

import json
import re
from dataclasses import asdict, dataclass
from datetime import datetime
from urllib.parse import urlsplit

from models.errors import Problem
from models.typed_json import decode

# A domain that cannot exist (RFC 2606); with it, nothing is ever requested.
FEED_ADDRESS = "https://slipstream.invalid/releases/feed.json"

# Ed25519, in hexadecimal. Nobody has its private half, so no signature is valid until a real key
# replaces it.
PUBLIC_KEY = "be3c7cb1e327a9d1a5b462c37829a311b17a442b83e20b88cc37cc74a2fcd9f0"

FORMAT = 1
_VERSION = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}){1,3}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_LINK, _LONGEST_NOTES = 2000, 20_000
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Origin:
    """A feed's address and the public key, in hexadecimal, that it is signed with."""

    address: str = FEED_ADDRESS
    public_key: str = PUBLIC_KEY

    @property
    def configured(self) -> bool:
        """Whether there is a feed to ask."""
        try:
            host = urlsplit(self.address).hostname or ""
        except ValueError:
            return False
        return host != "" and not host.endswith(".invalid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An available version. `page` can be opened in the browser; `download` is only shown."""

    version: str
    page: str
    download: str
    size_bytes: int
    sha256: str
    notes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """An announcement; `made` and `expires` are times with a time zone."""

    made: datetime
    expires: datetime
    release: Release


def is_secure(link: str, *, loopback: bool) -> bool:
    """Whether a link is HTTPS or, with `loopback`, leads to this machine."""
    try:
        parts = urlsplit(link)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        return False
    if not host or not link.isascii() or not link.isprintable() or " " in link:
        return False
    return parts.scheme == "https" or (loopback and is_loopback(link))


def is_loopback(link: str) -> bool:
    """Whether a link leads to this machine without encryption, as in tests."""
    try:
        parts = urlsplit(link)
    except ValueError:
        return False
    return parts.scheme == "http" and parts.hostname in _LOOPBACK


def is_newer(version: str, than: str) -> bool:
    """Whether `version` is newer than `than`; only their leading numbers count."""
    return _numbers(version) > _numbers(than)


def feed_to_text(feed: Feed) -> str:
    """The text that is signed."""
    values = {
        "format": FORMAT,
        "made": feed.made.isoformat(),
        "expires": feed.expires.isoformat(),
        "release": asdict(feed.release),
    }
    return json.dumps(values, indent=1)


def feed_from_text(text: str, *, loopback: bool) -> Feed:
    """The feed that `feed_to_text` wrote. Raises Problem on anything else, and on links other than
    HTTPS, unless they lead to this machine and `loopback` is set."""
    try:
        values = json.loads(text)
        if values["format"] != FORMAT:
            raise Problem("The releases feed has an unknown format.", _LOOK)
        return Feed(
            made=_instant(values["made"]),
            expires=_instant(values["expires"]),
            release=release_from(values["release"], loopback=loopback),
        )
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise Problem("The releases feed could not be read.", _LOOK) from error


def release_from(value: object, *, loopback: bool) -> Release:
    """A release out of JSON. Raises Problem, or ValueError."""
    release = decode(Release, value, place="release", ignore_unknown=True)
    for link in (release.page, release.download):
        if len(link) > _LONGEST_LINK:
            raise ValueError("a link")
        if not is_secure(link, loopback=loopback):
            raise Problem("The releases feed has a link that is not HTTPS.", _LOOK)
    if not (_VERSION.fullmatch(release.version) and _SHA256.fullmatch(release.sha256)):
        raise ValueError("version or sha256")
    if not 0 < release.size_bytes < 1 << 40 or len(release.notes) > _LONGEST_NOTES:
        raise ValueError("size_bytes or notes")
    return release


_LOOK = "Look for a newer version where you got this one."


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(number) for number in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:  # 1.0 is 1
        numbers.pop()
    return tuple(numbers)


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(text)
    return instant
