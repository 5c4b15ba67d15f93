"""Tests the local server as another program sees it: it must start and answer by a schema.

Nothing else loads the server's libraries. Knows HTTP, and not the server's inside.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from threading import Timer
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

_COMMAND = (sys.executable, "-m", "engine", "serve", "--port", "0")
_QUESTION = "What is the capital of France?"
_SCHEMA = {
    "type": "object",
    "properties": {"capital": {"type": "string", "maxLength": 20}},
    "required": ["capital"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedAnswer:
    """The server's answer, or why there is none."""

    question: str = _QUESTION
    text: str = ""
    failure: str = ""


def ask_server(
    environment: Mapping[str, str], *, command: Sequence[str] = _COMMAND, seconds: float = 120.0
) -> ServedAnswer:
    """Start the server, ask it, and end it. It is killed after `seconds`."""
    with subprocess.Popen(
        command,
        cwd=Path(__file__).parents[2],  # so that `-m engine` runs this copy
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        late = Timer(seconds, server.kill)
        late.start()
        try:
            said = re.search(r"http://\S+", server.stdout.readline())
            if said is not None:
                return _answer(said[0])
        except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
            return ServedAnswer(failure=f"The local server did not answer: {_words(error)}")
        finally:
            server.terminate()
            _, errors = server.communicate()
            late.cancel()
        words = errors.strip().splitlines()[-1:]
        return ServedAnswer(failure=f"The local server did not start. {' '.join(words)}".strip())


def _answer(address: str) -> ServedAnswer:
    form = {"type": "json_schema", "json_schema": {"name": "capital", "schema": _SCHEMA}}
    body = {
        "messages": [{"role": "user", "content": _QUESTION}],
        "response_format": form,
        "temperature": 0,
        "max_tokens": 40,
    }
    request = Request(
        f"{address}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with build_opener(ProxyHandler({})).open(request) as response:
        text = json.load(response)["choices"][0]["message"]["content"]
    if not isinstance(json.loads(text)["capital"], str):
        return ServedAnswer(text=text, failure=f"The local server ignored the schema: {text}")
    return ServedAnswer(text=text)


def _words(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return error.read().decode(errors="replace")[:300]
    return f"{type(error).__name__}: {error}"
