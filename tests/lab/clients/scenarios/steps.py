"""What all scenarios share: where the server is, and steps that are reported one by one.

It runs in each client's own environment, so it imports nothing but the standard library.
"""

import base64
import json
import os
import struct
import subprocess
import zlib
from pathlib import Path

SERVER = os.environ["CLIENTS_SERVER"]
BASE = f"{SERVER}/v1"
MODEL = os.environ["CLIENTS_MODEL"]
COMMANDS = Path(os.environ["CLIENTS_COMMANDS"])

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
WEATHER = {
    "name": "weather",
    "description": "The weather in a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
SEES = os.environ.get("CLIENTS_SEES") == "yes"
"""Whether the model can be shown pictures: a tiny one, of which nothing else is asked."""


def _png(width, height):
    """A red picture."""
    rows = (b"\0" + b"\xff\0\0" * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


PNG = _png(40, 30)
PICTURE = base64.b64encode(PNG).decode()
PICTURE_URL = f"data:image/png;base64,{PICTURE}"
ADDRESS = "https://example.com/a.png"
ADDRESS_REFUSED = "none is ever fetched"


def step(name, *, sees=False):
    """Runs the function at once, and reports the step as passed where it raises nothing. `sees`:
    it is about pictures."""

    def run(function):
        if sees != SEES:
            return
        why = ""
        try:
            function()
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:500]
        print(json.dumps({"step": name, "passed": not why, "why": why}), flush=True)

    return run


def same(found, wanted):
    """Raises where the two are not equal; `assert` would not say what they are."""
    if found != wanted:
        raise AssertionError(f"{found!r}, not {wanted!r}")


def refused(kind, ask):
    """The error that `ask` raises. Raises AssertionError where it raises none."""
    try:
        answer = ask()
    except kind as error:
        return error
    raise AssertionError(f"it was answered: {answer}"[:300])


def command(name, *arguments, **variables):
    """What one of the client's commands prints. Raises where it fails."""
    done = subprocess.run(
        [str(COMMANDS / name), *arguments],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode != 0:
        words = (done.stderr + done.stdout).strip()[-400:]
        raise RuntimeError(f"{name} ended with status {done.returncode}: {words}")
    return done.stdout
