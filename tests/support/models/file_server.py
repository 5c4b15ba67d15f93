"""A loopback server for one file, which can resume, break off, or misbehave on request."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.support.loopback import serving_on_loopback


@dataclass
class FileServer:
    """Serves `data` at `url`; the fields say how, and record what was asked for."""

    data: bytes
    url: str = ""
    ranges: bool = True  # whether it can resume
    break_after: int | None = None  # bytes of the body, then the connection is closed
    wrong_start: bool = False  # resumes, but at another place
    content_type: str = "application/octet-stream"
    status: int | None = None  # an error status instead of the file
    asked: list[str | None] = field(default_factory=list)  # the Range header of each request


@contextmanager
def serving(data: bytes) -> Iterator[FileServer]:
    served = FileServer(data)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            served.asked.append(asked)
            if served.status is not None:
                self.send_error(served.status)
                return
            start, body = 0, served.data
            if asked and served.ranges:
                (start,) = map(int, re.findall(r"bytes=(\d+)-", asked))
                if start >= len(body):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(body)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(206)
                stated = start + served.wrong_start
                self.send_header("Content-Range", f"bytes {stated}-{len(body) - 1}/{len(body)}")
            else:
                self.send_response(200)
            body = body[start:]
            self.send_header("Content-Type", served.content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: served.break_after])
            self.close_connection = True

        def log_message(self, *parts: object) -> None:
            pass

    with serving_on_loopback(Handler) as address:
        served.url = f"{address}/file.whl"
        yield served
