"""A signed feed on a loopback server, which counts who asks and misbehaves on request."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler

from nacl.signing import SigningKey

from app.updates.check import sign_text
from app.updates.feed import Feed, Release, feed_to_text
from tests.support.loopback import serving_on_loopback

KEY = SigningKey(bytes(range(32)))
PUBLIC_KEY = bytes(KEY.verify_key)
NOW = datetime.now(UTC).replace(microsecond=0)
RELEASE = Release(
    version="9.8.7",
    page="https://example.org/releases/9.8.7",
    download="https://example.org/Slipstream-9.8.7.dmg",
    size_bytes=110_183_653,
    sha256="0123456789abcdef" * 4,
    notes="Faster.\n<b>Bolder.</b>",
)


def made_feed(
    *, made: datetime = NOW, days: float = 90.0, release: Release = RELEASE, key: bytes = b""
) -> bytes:
    """The file of a feed that expires so many days after it was made."""
    feed = Feed(made=made, expires=made + timedelta(days=days), release=release)
    return sign_text(feed_to_text(feed), key or bytes(KEY))


@dataclass
class FeedServer:
    """Serves `data` at `address`; the fields say how, and what came."""

    data: bytes
    address: str = ""
    redirect: str = ""  # to this address, instead
    status: int = 200
    apart_seconds: float = 0.0  # between one byte and the next
    asked: list[dict[str, str]] = field(default_factory=list)  # the headers of each request
    connections: int = 0


@contextmanager
def serving(data: bytes) -> Iterator[FeedServer]:
    served = FeedServer(data)

    class Handler(BaseHTTPRequestHandler):
        def setup(self) -> None:
            served.connections += 1
            super().setup()

        def do_GET(self) -> None:
            served.asked.append(dict(self.headers))
            self.send_response(302 if served.redirect else served.status)
            if served.redirect:
                self.send_header("Location", served.redirect)
            self.send_header("Content-Length", str(0 if served.redirect else len(served.data)))
            self.end_headers()
            if served.redirect:
                return
            with suppress(OSError):  # who asked has gone
                if not served.apart_seconds:
                    self.wfile.write(served.data)
                    return
                for place in range(len(served.data)):
                    self.wfile.write(served.data[place : place + 1])
                    time.sleep(served.apart_seconds)

        def log_message(self, *parts: object) -> None:
            pass

    with serving_on_loopback(Handler) as address:
        served.address = f"{address}/feed.json"
        yield served


def nobody_there() -> str:
    """An address where nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}/feed.json"
