"""Asks for the feed in a process of its own: `python -m app.updates.check ADDRESS KEY VERSION SEEN`

What comes is believed only if it is signed, in date, and not older than what was seen before;
nothing is ever downloaded but the feed. Imports no Qt. Nothing that tells of the person goes out.

It prints one line of JSON: {"made": "<instant>", "release": {...} or null}, or
{"problem": [message, remedy]}. A release is told only where it is newer than VERSION. SEEN is when
the newest feed was made that was seen so far, or empty.
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
_PURPOSE = b"Slipstream releases 1\n"  # what else may be signed with the key is no feed
_CONNECT = "Check the network connection, and try again later."


def check(
    address: str,
    *,
    public_key: bytes,
    seen: datetime | None,
    now: datetime,
    seconds: float = _WHOLE_SECONDS,
) -> Feed:
    """The feed at `address`. Raises Problem where it cannot be had, or is not to be believed."""
    text = unseal(fetch(address, seconds=seconds), public_key)
    feed = feed_from_text(text, loopback=is_loopback(address))
    if feed.expires <= now:
        raise Problem(
            "The releases feed is out of date.",
            "Try again later, and see whether this computer's clock is right.",
        )
    if seen is not None and feed.made < seen:
        raise Problem(
            "The releases feed is older than one that came before.",
            "Try again from another network; somebody may be keeping a newer version from you.",
        )
    return feed


def fetch(address: str, *, seconds: float) -> bytes:
    """The bytes at `address`. Raises Problem: not HTTPS all the way, too large, too slow, ..."""
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
        message = f"The releases feed cannot be had: {error.response.status_code}."
        raise Problem(message, _CONNECT) from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise Problem("The releases feed cannot be reached.", _CONNECT) from error
    raise Problem("The releases feed is always somewhere else.", _CONNECT)


def _body(response: httpx2.Response, end: float) -> bytes:
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk
        if len(body) > _LARGEST_BYTES:
            raise Problem("The releases feed is too large to be one.", _CONNECT)
        if time.monotonic() > end:
            raise Problem("The releases feed comes too slowly.", _CONNECT)
    return bytes(body)


def seal(text: str, private_key: bytes) -> bytes:
    """The file of a feed with this text. `private_key` has 32 bytes."""
    signature = SigningKey(private_key).sign(_PURPOSE + text.encode()).signature
    sealed = {"signed": text, "signature": base64.b64encode(signature).decode()}
    return json.dumps(sealed, indent=1).encode() + b"\n"


def unseal(data: bytes, public_key: bytes) -> str:
    """The text in a feed's file. Raises Problem where it is not signed with this key."""
    try:
        sealed = json.loads(data)
        text = sealed["signed"]
        signature = base64.b64decode(sealed["signature"], validate=True)
        VerifyKey(public_key).verify(_PURPOSE + text.encode(), signature)
    except (CryptoError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as bad:
        raise Problem(
            "The releases feed is not signed by whoever releases Slipstream.",
            "Do not install what it offers. Look for a newer version where you got this one.",
        ) from bad
    return str(text)


def main(words: Sequence[str]) -> None:
    """The process: one question, one line."""
    watch = Timer(_LONGEST_SECONDS, os._exit, (1,))  # headers may trickle in for ever
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
    told = {"made": feed.made.isoformat(), "release": asdict(feed.release) if newer else None}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
