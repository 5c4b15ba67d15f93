"""An MCP server over HTTP without a library. Each of its tools answers as its name says."""

import gzip
import json
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler

from tests.support.loopback import serving_on_loopback

KEY = "Bearer the-key"
TOOLS = (
    "json", "events", "progress", "big", "endless", "lists", "packed", "refused", "closed",
    "nonsense", "ask_back",
)  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("Authorization") != KEY:
            self.write(b"who are you?", "text/plain", status=401)
        elif "method" not in message or "id" not in message:
            self.write(b"", "application/json", status=202)
        else:
            self.answer(message["id"], message["method"], message.get("params") or {})

    def do_GET(self):
        self.write(b"", "text/plain", status=405)

    do_DELETE = do_GET

    def answer(self, id, method, params):
        match method, params.get("name"):
            case "initialize", _:
                result = {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "web", "version": "1"},
                }
                self.json(id, result)
            case "tools/list", _:
                schema = {"type": "object"}
                self.json(id, {"tools": [{"name": x, "inputSchema": schema} for x in TOOLS]})
            case _, "json":
                self.json(id, said("as JSON"))
            case _, "events":
                self.write(event({"id": id, "result": said("as an event")}), "text/event-stream")
            case _, "progress":
                note = {"progressToken": params["_meta"]["progressToken"], "progress": 1}
                noted = event({"method": "notifications/progress", "params": note})
                data = noted + event({"id": id, "result": said("done")})
                self.write(data, "text/event-stream")
            case _, "big":
                self.json(id, said("x" * 9_000_000))
            case _, "endless":
                self.write(b"data: " + b"x" * 9_000_000, "text/event-stream")
            case _, "lists":
                self.write(b'data: {"content":[' + b"[]," * 1_000_000, "text/event-stream")
            case _, "ask_back":
                asked = {"id": 1, "method": "sampling/createMessage"}
                self.write(event(asked) * 1_000, "text/event-stream")
            case _, "packed":
                data = gzip.compress(b" " * 50_000_000, 1)
                self.write(data, "application/json", encoding="gzip")
            case _, "refused":
                self.write(b"<h1>No</h1>", "text/html", status=500)
            case _, "closed":
                self.close_connection = True
            case _:
                self.write(b"{nonsense", "application/json")

    def json(self, id, result):
        data = json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()
        self.write(data, "application/json")

    def write(self, data, kind, *, status=200, encoding=""):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if encoding:
            self.send_header("Content-Encoding", encoding)
        self.end_headers()
        self.wfile.write(data)

    def handle(self):
        with suppress(OSError):  # whoever asked has heard enough
            super().handle()

    def log_message(self, *_): ...


def said(text):
    return {"content": [{"type": "text", "text": text}]}


def event(message):
    return f"event: message\ndata: {json.dumps({'jsonrpc': '2.0', **message})}\n\n".encode()


@contextmanager
def http_server():
    """The address of the server, which answers while the block runs."""
    with serving_on_loopback(_Handler) as address:
        yield f"{address}/mcp"
