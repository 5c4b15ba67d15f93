"""Checks the feed in a process of its own: `python -m app.updates.check ADDRESS KEY VERSION SEEN`

A feed is accepted only if it is signed, has not expired, and is not older than the last one.
Nothing but the feed is downloaded, and nothing about the person is sent. Imports no Qt.

Prints one line of JSON: {"made": "<time>", "release": {...} or null}, or
{"problem": [message, remedy]}. The release is null unless it is newer than VERSION. SEEN is the
time at which the newest known feed was made, or empty.

A feed's file holds its text and an Ed25519 signature of that (by libsodium), so that both always
belong together: {"signed": "{...}", "signature": "<base64>"}
"""

import base64
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from threading import Timer

import httpx2
from nacl.exceptions import CryptoError
from nacl.signing import SigningKey, VerifyKey

from app.updates.feed import Feed, feed_from_text, is_loopback, is_newer, is_secure
from models.errors import Problem

_LARGEST_BYTES = 256 << 10
_MOST_REDIRECTIONS = 3
_READ_SECONDS, _WHOLE_SECONDS, _LONGEST_SECONDS = 10.0, 20.0, 60.0
_PURPOSE = (
    b"Slipstream releases 1\n"  # so that nothing else signed with the key is taken for a feed
)
_CONNECT = "Check the network connection, and try again later."


def check(
    address: str,
    *,
    public_key: bytes,
    seen: datetime | None,
    now: datetime,
    seconds: float = _WHOLE_SECONDS,
) -> Feed:
    """The feed at `address`. Raises Problem where it is not available or not acceptable."""
    text = verified_text(fetch(address, seconds=seconds), public_key)
    feed = feed_from_text(text, loopback=is_loopback(address))
    if feed.expires <= now:
        raise Problem(
            "The releases feed has expired.",
            "Try again later, and check this computer's clock.",
        )
    if seen is not None and feed.made < seen:
        raise Problem(
            "The releases feed is older than the last one.",
            "Try again from another network; someone may be hiding a newer version from you.",
        )
    return feed


def fetch(address: str, *, seconds: float) -> bytes:
    """The bytes at `address`. Raises Problem: not available, too large, too slow, not HTTPS."""
    end = time.monotonic() + seconds
    loopback = is_loopback(address)
    headers = {"Accept-Encoding": "identity", "User-Agent": "Slipstream"}
    timeout = min(seconds, _READ_SECONDS)
    try:
        with httpx2.Client(headers=headers, timeout=timeout, follow_redirects=False) as client:
            for _ in range(_MOST_REDIRECTIONS + 1):
                if not is_secure(address, loopback=loopback):
                    raise Problem("The releases feed is not at an HTTPS address.", _CONNECT)
                with client.stream("GET", address) as response:
                    if response.next_request is None:
                        response.raise_for_status()
                        return _body(response, end)
                    address = str(response.next_request.url)
    except httpx2.HTTPStatusError as error:
        message = f"The releases feed is not available: HTTP status {error.response.status_code}."
        raise Problem(message, _CONNECT) from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise Problem("The releases feed could not be reached.", _CONNECT) from error
    raise Problem("The releases feed redirects too often.", _CONNECT)


def _body(response: httpx2.Response, end: float) -> bytes:
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk
        if len(body) > _LARGEST_BYTES:
            raise Problem("The releases feed is too large.", _CONNECT)
        if time.monotonic() > end:
            raise Problem("The releases feed arrives too slowly.", _CONNECT)
    return bytes(body)


def sign_text(text: str, private_key: bytes) -> bytes:
    """The file of a feed with this text. `private_key` has 32 bytes."""
    signature = SigningKey(private_key).sign(_PURPOSE + text.encode()).signature
    file = {"signed": text, "signature": base64.b64encode(signature).decode()}
    return json.dumps(file, indent=1).encode() + b"\n"


def verified_text(data: bytes, public_key: bytes) -> str:
    """The text in a feed's file. Raises Problem unless it is signed with this key."""
    try:
        file = json.loads(data)
        text = file["signed"]
        signature = base64.b64decode(file["signature"], validate=True)
        VerifyKey(public_key).verify(_PURPOSE + text.encode(), signature)
    except (CryptoError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as bad:
        raise Problem(
            "The releases feed is not signed by whoever releases Slipstream.",
            "Do not install what it offers. Look for a newer version where you got this one.",
        ) from bad
    return str(text)


def main(words: Sequence[str]) -> None:
    """Run in the process: check once, and print one line."""
    watch = Timer(_LONGEST_SECONDS, os._exit, (1,))  # a server may send its headers without end
    watch.daemon = True
    watch.start()
    address, key, version, seen = words
    try:
        feed = check(
            address,
            public_key=bytes.fromhex(key),
            seen=datetime.fromisoformat(seen) if seen else None,
            now=datetime.now(UTC),
        )
    except Problem as problem:
        print(json.dumps({"problem": [problem.message, problem.remedy]}), flush=True)
        return
    newer = is_newer(feed.release.version, version)
    release = asdict(feed.release) if newer else None
    print(json.dumps({"made": feed.made.isoformat(), "release": release}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
