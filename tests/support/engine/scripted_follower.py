"""A follower that only talks, for tests of rank 0's side. Run as a file, so that it starts at once.

Its one argument is JSON: `hello`, what it says otherwise than usual of itself; `on`, what it does
when it is told something: "die", "mute" (it says nothing from then on), or what it says instead.
"""

import json
import os
import sys
from typing import Any

MACHINE = {"name": "M9", "memory_bytes": 64, "available_bytes": 32, "unified": True}
HELLO: dict[str, Any] = {
    "kind": "hello",
    "control": 1,
    "slipstream": "1",
    "mlx": "2",
    "mlx_lm": "3",
    "system": "15.0",
    "machine": MACHINE,
    "networks": ["127.0.0.1/8"],
    "ports": [12345],
}
REPLIES: dict[str, dict[str, Any]] = {
    "join": {"kind": "joined"},
    "find": {"kind": "found", "path": "there", "machine": MACHINE},
    "load": {"kind": "loaded", "size_bytes": 7},
    "ping": {"kind": "pong", "message": 0, "waits": False},
}


def main(script: dict[str, Any]) -> None:
    replies = REPLIES | {"meet": HELLO | script.get("hello", {})}
    on = script.get("on", {})
    if "start" in on:
        sys.exit(on["start"])
    muted = False
    for line in sys.stdin:
        kind = json.loads(line)["kind"]
        act = on.get(kind, replies.get(kind))
        if kind == "quit":
            return
        if act == "die":
            os._exit(1)
        muted = muted or act == "mute"
        if not muted and act is not None:
            print(json.dumps(act), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
