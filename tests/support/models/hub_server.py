"""A small hub on loopback: what the real hub's client asks, served from dictionaries.

Repositories are names of files to their bytes. Large ones are served like Git LFS: by a redirect to
another origin, where no token may arrive. The fields of `HubServer` say what goes wrong.
"""

import hashlib
import json
import re
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest

from tests.support.loopback import serving_on_loopback

LARGE_BYTES = 1_000  # from here on, and by their endings, files are large
LARGE_SUFFIXES = (".safetensors", ".gguf", ".bin")
BLOCK_BYTES = 16_384
WHEELS, FILE = "index/wheels", "file.whl"  # of `serving_file`


@dataclass(frozen=True)
class Asked:
    """A request that came. `origin`: the host that it was sent to."""

    path: str
    origin: str
    range: str | None
    token: str | None
    agent: str


@dataclass
class Told:
    """Facts about a model in the hub's listing, beside its files."""

    downloads: int = 10
    gated: bool | str = False
    tags: list[str] = field(default_factory=lambda: ["mlx", "safetensors"])
    pipeline_tag: str | None = "text-generation"
    card: dict[str, Any] = field(default_factory=lambda: {"license": "apache-2.0"})
    safetensors: dict[str, Any] | None = None


@dataclass
class Refusal:
    """An answer instead of what was asked for, so many times (-1: always)."""

    status: int
    times: int = -1
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b'{"error": "refused"}'


@dataclass
class HubServer:
    """Serves `repositories` at `endpoint`; the other fields say how, and record what was asked."""

    repositories: dict[str, dict[str, bytes]]
    told: dict[str, Told] = field(default_factory=dict)
    endpoint: str = ""
    refusals: dict[str, Refusal] = field(default_factory=dict)  # by a part of the path
    drop_after: int | None = None  # bytes of a body, then the connection is closed
    ranges: bool = True
    wrong_start: bool = False  # resumes, but at another place
    corrupt: dict[str, int] = field(default_factory=dict)  # file: how often its bytes are wrong
    excess: bytes = b""  # sent after each file
    answers: dict[str, bytes] = field(default_factory=dict)  # a path's whole answer
    block_seconds: float = 0.0  # before each block of a body
    hold_after: int | None = None  # bytes of all bodies, then nothing comes until `release`
    asked: list[Asked] = field(default_factory=list)
    sent_bytes: int = 0  # of files
    held: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    sending: int = 0  # files, at the moment
    ended: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self):
        """The address of `FILE` alone."""
        return f"{self.endpoint}/cdn/{WHEELS}/at/{'0' * 40}/{FILE}"

    def settle(self):
        """Wait until nothing is sent any more: that a client was killed shows late."""
        with self.ended:
            assert self.ended.wait_for(lambda: self.sending == 0, timeout=60)

    def commit(self, name):
        """The commit that the repository is at: another when a file changes."""
        files = self.repositories[name]
        state = [(file, sha256(data)) for file, data in sorted(files.items())]
        return hashlib.sha1(json.dumps([name, state]).encode()).hexdigest()

    def requests(self, part):
        """The requests with `part` in their path."""
        return [asked for asked in self.asked if part in asked.path]


@lru_cache(100)  # each request asks for those of all files
def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def is_large(name, data):
    return name.endswith(LARGE_SUFFIXES) or len(data) >= LARGE_BYTES


@contextmanager
def serving_hub(repositories):
    """Serve them; no client reads the system's certificates meanwhile, which takes as long as a
    small download."""
    served = HubServer(repositories)

    class Handler(_Handler):
        hub = served

    with pytest.MonkeyPatch.context() as patch, serving_on_loopback(Handler) as served.endpoint:
        patch.setenv("SSL_CERT_DIR", str(Path(__file__).parent))
        try:
            yield served
        finally:
            served.release.set()


def serving_file(data):
    """Serve one file at `url`, as a package index does."""
    return serving_hub({WHEELS: {FILE: data}})


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.0"  # one request a connection: no thread outlives its answer

    def do_GET(self):
        try:
            self._route()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # whoever asked has gone

    do_HEAD = do_GET

    def log_message(self, *parts):
        pass

    def _route(self):
        hub, parts = self.hub, urlsplit(self.path)
        path, query = unquote(parts.path), parse_qs(parts.query)
        token = self.headers.get("Authorization")
        hub.asked.append(
            Asked(
                path=path,
                origin=self.headers.get("Host", ""),
                range=self.headers.get("Range"),
                token=token.removeprefix("Bearer ") if token else None,
                agent=self.headers.get("User-Agent", ""),
            )
        )
        for part, refusal in hub.refusals.items():
            if part in path and refusal.times:
                refusal.times -= 1
                self._send(refusal.status, refusal.body, refusal.headers)
                return
        if path in hub.answers:
            self._send(200, hub.answers[path])
        elif path == "/api/models":
            self._list_models(query)
        elif found := re.fullmatch(r"/api/models/(.+?)(?:/revision/(.+))?", path):
            if listing := re.fullmatch(r"(.+?)/tree/([^/]+)(?:/.*)?", found[1]):
                self._list_tree(listing[1], listing[2])
            else:
                self._describe(found[1], found[2], query)
        elif found := re.fullmatch(r"/cdn/(.+?)/at/([0-9a-f]{40})/(.+)", path):
            self._send_file(found[1], found[3])
        elif found := re.fullmatch(r"/(.+?)/resolve/(.+?)/(.+)", path):
            self._resolve(*found.groups())
        else:
            self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})

    def _send(self, status, body, headers=None):
        headers = {"Content-Type": "application/json", **(headers or {})}
        if "Transfer-Encoding" in headers:  # in one chunk, so that its length is not told
            self.protocol_version, headers["Connection"] = "HTTP/1.1", "close"
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        else:
            headers["Content-Length"] = str(len(body))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _opens(self, name, revision):
        """Whether that is there; says why not."""
        known = name in self.hub.repositories
        if known and revision in (None, "main", "v1.0", self.hub.commit(name)):
            return True
        code = "RevisionNotFound" if known else "RepoNotFound"
        self._send(404, b"{}", {"X-Error-Code": code})
        return False

    def _told(self, name):
        return self.hub.told.get(name, Told())

    def _files(self, name):
        files = []
        for file, data in self.hub.repositories[name].items():
            entry = {"rfilename": file, "size": len(data), "blobId": git_sha1(data)}
            if is_large(file, data):
                pointer = f"version x\noid sha256:{sha256(data)}\nsize {len(data)}\n".encode()
                lfs = {"sha256": sha256(data), "size": len(data), "pointerSize": len(pointer)}
                entry |= {"blobId": git_sha1(pointer), "lfs": lfs}
            files.append(entry)
        return files

    def _model(self, name):
        told = self._told(name)
        config = None
        with suppress(ValueError, RecursionError):
            config = json.loads(self.hub.repositories[name].get("config.json", b"null"))
        return {
            "id": name,
            "sha": self.hub.commit(name),
            "gated": told.gated,
            "downloads": told.downloads,
            "likes": 1,
            "lastModified": "2026-03-01T12:00:00.000Z",
            "tags": told.tags,
            "pipeline_tag": told.pipeline_tag,
            "cardData": told.card,
            "config": config,
            "safetensors": told.safetensors,
            "siblings": [{"rfilename": file["rfilename"]} for file in self._files(name)],
        }

    def _describe(self, name, revision, query):
        if self._opens(name, revision):
            model = self._model(name)
            if "blobs" in query:
                model["siblings"] = self._files(name)
            self._send(200, json.dumps(model).encode())

    def _list_models(self, query):
        text = query.get("search", [""])[0].lower()
        wanted = set(query.get("filter", []))
        names = [name for name in self.hub.repositories if text in name.lower()]
        names = [name for name in names if wanted <= set(self._told(name).tags)]
        names.sort(key=lambda name: -self._told(name).downloads)
        limit = int(query.get("limit", ["1000"])[0])
        self._send(200, json.dumps([self._model(name) for name in names[:limit]]).encode())

    def _list_tree(self, name, revision):
        if not self._opens(name, revision):
            return
        entries = []
        for file in self._files(name):
            entry = {"type": "file", "path": file["rfilename"], "size": file["size"]}
            entry["oid"] = file["blobId"]
            if lfs := file.get("lfs"):
                entry["lfs"] = {"oid": lfs["sha256"], **lfs}
            entries.append(entry)
        self._send(200, json.dumps(entries).encode())

    def _resolve(self, name, revision, file):
        if not self._opens(name, revision):
            return
        data = self.hub.repositories[name].get(file)
        if data is None:
            self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        elif is_large(file, data):
            other = self.hub.endpoint.replace("127.0.0.1", "localhost")
            commit = self.hub.commit(name)
            headers = {
                "Location": f"{other}/cdn/{name}/at/{commit}/{quote(file)}",
                "X-Repo-Commit": commit,
                "X-Linked-Etag": f'"{sha256(data)}"',
                "X-Linked-Size": str(len(data)),
            }
            self._send(302, b"", headers)
        else:
            self._send_file(name, file)

    def _send_file(self, name, file):
        hub, data = self.hub, self.hub.repositories[name][file]
        start, body = 0, data
        if hub.corrupt.get(file, 0):
            hub.corrupt[file] -= 1
            body = data.translate(bytes(byte ^ 0x55 for byte in range(256)))
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked and hub.ranges:
            start = int(asked[1])
            whole, body = len(body), body[: int(asked[2]) + 1] if asked[2] else body
            if start >= len(body):
                self._send(416, b"", {"Content-Range": f"bytes */{len(body)}"})
                return
            self.send_response(206)
            stated = start + hub.wrong_start
            self.send_header("Content-Range", f"bytes {stated}-{len(body) - 1}/{whole}")
        else:
            self.send_response(200)
        body = body[start:] + hub.excess
        self.send_header("ETag", f'"{sha256(data) if is_large(file, data) else git_sha1(data)}"')
        self.send_header("X-Repo-Commit", hub.commit(name))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            with hub.ended:
                hub.sending += 1
            try:
                self._send_blocks(body[: hub.drop_after])
            finally:
                with hub.ended:
                    hub.sending -= 1
                    hub.ended.notify_all()

    def _send_blocks(self, body):
        hub = self.hub
        for start in range(0, len(body), BLOCK_BYTES):
            block = body[start : start + BLOCK_BYTES]
            if hub.block_seconds:
                hub.release.wait(hub.block_seconds)
            with hub.lock:
                allowed = None if hub.hold_after is None else hub.hold_after - hub.sent_bytes
                if allowed is not None:
                    block = block[: max(0, allowed)]
                hub.sent_bytes += len(block)
            self.wfile.write(block)
            if allowed is not None and allowed < BLOCK_BYTES and len(block) == max(0, allowed):
                self.wfile.flush()
                hub.held.set()
                hub.release.wait()
                return
