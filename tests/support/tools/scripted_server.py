"""An MCP server without a library, which misbehaves on request: `python scripted_server.py MODE`.

The mode says how it starts and what it lists. Each tool that it lists does as its name says.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else "well"
OUT = sys.stdout.buffer
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = (
    "echo", "die", "hang", "late", "flood", "many_lines", "big", "complain", "wrong_id", "noise",
    "deep", "error", "refuse", "image", "pieces", "structure", "report", "nothing", "environment",
    "ask_back", "change", "leave_child", "surrogates", "pid", "bomb", "table", "hold", "nudge",
    "release",
)  # fmt: skip


def write(data):
    OUT.write(data)
    OUT.flush()


def say(**message):
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def answer(id, *content, **more):
    say(id=id, result={"content": list(content), **more})


def text(value):
    return {"type": "text", "text": value}


def call(id, name, arguments, meta):
    given = str(arguments.get("text", ""))
    match name:
        case "echo":
            answer(id, text(given))
        case "die":
            print("it hurts", file=sys.stderr, flush=True)
            os._exit(3)
        case "hang":
            pass
        case "late":
            time.sleep(float(given))
            answer(id, text("late"))
        case "flood":
            write(b"x" * int(given) + b"\n")
        case "many_lines":
            block = (b"nonsense " * 10 + b"\n") * 1_000
            for _ in range(int(given) // len(block)):
                write(block)
            answer(id, text("after the flood"))
        case "big":
            answer(id, text("x" * int(given)))
        case "complain":
            line = f"a complaint {os.environ.get('TOKEN', '')}\n".encode()
            for _ in range(max(int(given) // len(line) // 1000, 1)):
                os.write(2, line * 1000)
            answer(id, text("complained"))
        case "wrong_id":
            answer(4711, text("of another"))
            answer("x", text("of another"))
            answer(None, text("of nobody"))
        case "noise":
            write(b"Starting up...\n\n\xff\xfe\n[]\n{}\n1\n" + b'{"jsonrpc": "1.0"}\n')
            answer(id, text("in the noise"))
        case "deep":
            content = "[" * 200_000 + "]" * 200_000
            write(f'{{"jsonrpc": "2.0", "id": {id}, "result": {content}}}\n'.encode())
        case "bomb":
            unit = "[]," if given == "lists" else "1.5,"
            block = unit * (2_000_000 // len(unit)) + "0"
            write(f'{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{block}]}}}}\n'.encode())
        case "table":
            rows = [[number, "x"] for number in range(10_000)]
            answer(id, structuredContent={"rows": rows})
        case "error":
            say(id=id, error={"code": -32000, "message": "no such luck\x1b[31m"})
        case "refuse":
            answer(id, text("it does not work"), isError=True)
        case "image":
            data = base64.b64encode(bytes(3000)).decode()
            answer(id, {"type": "image", "data": data, "mimeType": "image/png"})
        case "pieces":
            embedded = {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "inside"}
            blob = {"uri": "file:///a.bin", "blob": base64.b64encode(bytes(10)).decode()}
            answer(
                id,
                text("one\u202e\x07"),
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
                {"type": "resource", "resource": embedded},
                {"type": "resource", "resource": blob},
                {"type": "resource_link", "name": "b", "uri": "file:///b"},
            )
        case "structure":
            answer(id, structuredContent={"value": [1, 2.5, "x"]})
        case "report":
            for done in range(int(given or 3)):
                params = {"progressToken": meta["progressToken"], "progress": done, "total": 3}
                say(method="notifications/progress", params={**params, "message": "on it"})
                if not given:
                    time.sleep(0.12)
            answer(id, text("reported"))
        case "hold":
            held.append((id, meta["progressToken"]))
        case "nudge":
            for _, token in held:
                say(method="notifications/progress", params={"progressToken": token, "progress": 1})
            answer(id, text("nudged"))
        case "release":
            for waiting, _ in held:
                answer(waiting, text("released"))
            answer(id, text("done"))
        case "nothing":
            say(id=id, result={"some": "thing"})
        case "environment":
            answer(id, text(json.dumps(dict(os.environ))))
        case "ask_back":
            for number in range(int(given)):
                say(id=number, method="sampling/createMessage", params={})
            answer(id, text("asked"))
        case "pid":
            answer(id, text(str(os.getpid())))
        case "change":
            listed[:] = ["echo", "new"]
            say(method="notifications/tools/list_changed")
            answer(id, text("changed"))
        case "leave_child":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            answer(id, text(str(child.pid)))
        case "surrogates":
            write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[' % id)
            write(b'{"type":"text","text":"\\ud800 \\u0000"}]}}\n')
        case _:
            say(id=id, error={"code": -32602, "message": f"there is no {name}"})


def described():
    match MODE:
        case "many":
            return [{"name": f"t{n}", "inputSchema": TEXT} for n in range(1000)]
        case "huge":
            long = {"name": "long", "description": "y" * 1_000_000, "inputSchema": TEXT}
            wide = {**TEXT, "title": "z" * 1_000_000}
            return [long, {"name": "wide", "inputSchema": wide}]
        case "odd":
            hints = {"readOnlyHint": True, "title": "Read"}
            notes = {"annotations": hints, "description": "a\u202eb\x1b"}
            return [
                {"name": "read", "inputSchema": TEXT, **notes},
                {"name": "read", "inputSchema": TEXT},
                {"name": "", "inputSchema": TEXT},
                {"name": "a\nb", "inputSchema": TEXT},
                {"name": "n" * 500, "inputSchema": TEXT},
                {"name": "bare"},
                {"name": "list", "inputSchema": []},
                {"name": 7, "inputSchema": TEXT},
                "word",
                {"name": "forgot", "inputSchema": {}},
            ]
    return [{"name": name, "inputSchema": TEXT} for name in listed]


def respond(message):
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method == "initialize":
        about = {"name": "scripted", "version": "1.0"}
        version = params["protocolVersion"]
        capabilities = {"tools": {"listChanged": True}}
        say(
            id=id,
            result={"protocolVersion": version, "capabilities": capabilities, "serverInfo": about},
        )
    elif method == "tools/list":
        if MODE == "deep":
            schema = '{"a":' * 50_000 + "1" + "}" * 50_000
            write(
                f'{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{{"name":"a",'
                f'"inputSchema":{schema}}}]}}}}\n'.encode()
            )
        elif MODE == "endless":
            tools = [{"name": f"t{time.monotonic_ns()}", "inputSchema": TEXT}]
            say(id=id, result={"tools": tools, "nextCursor": "more"})
        else:
            say(id=id, result={"tools": described()})
    elif method == "tools/call":
        call(id, params["name"], params.get("arguments") or {}, params.get("_meta") or {})


listed, held = list(TOOLS), list[tuple[Any, Any]]()
if MODE == "fetches":  # a line on standard error for each signal; then as usual
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    for _ in range(3):
        print("fetching", file=sys.stderr, flush=True)
        signal.sigwait({signal.SIGUSR1})
if MODE == "dies":
    sys.exit("there is no key")
if MODE == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
while MODE == "hangs":
    time.sleep(1)
for line in sys.stdin.buffer:
    respond(json.loads(line))
while MODE == "stubborn":  # its input has ended
    time.sleep(1)
