"""What all scenarios share: where the server is, and steps that are reported one by one.

It runs in each client's own environment, so it imports nothing but the standard library.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

SERVER = os.environ["CLIENTS_SERVER"]
BASE = f"{SERVER}/v1"
MODEL = os.environ["CLIENTS_MODEL"]
TOKENIZER = os.environ["CLIENTS_TOKENIZER"]
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


def step(name: str) -> Callable[[Callable[[], None]], None]:
    """Runs the function at once, and reports the step as passed where it raises nothing."""

    def run(function: Callable[[], None]) -> None:
        why = ""
        try:
            function()
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:500]
        print(json.dumps({"step": name, "passed": not why, "why": why}), flush=True)

    return run


def same(found: object, wanted: object) -> None:
    """Raises where the two are not equal; `assert` would not say what they are."""
    if found != wanted:
        raise AssertionError(f"{found!r}, not {wanted!r}")


def refused[E: Exception](kind: type[E], ask: Callable[[], object]) -> E:
    """The error that `ask` raises. Raises AssertionError where it raises none."""
    try:
        answer = ask()
    except kind as error:
        return error
    raise AssertionError(f"it was answered: {answer}"[:300])


def command(name: str, *arguments: str, **variables: str) -> str:
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
