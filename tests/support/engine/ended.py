"""Ended commands, and checks of how they ended."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.events import Draft, Text, Verdict, from_json

ROOT = Path(__file__).parents[3]
PROMPT = "a b a b a b"  # of which there is something to look up
HOSTILE = "\x1b[2J\u202eHi"
END = 256  # the tiny models' end of text
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Run:
    """The exit code of a command, and its output."""

    code: int
    out: str
    err: str


Command = Callable[..., Run]


def assert_refused(ended, *words):
    """Assert exit code 2, one line on standard error that holds all `words`, and no other
    output."""
    assert ended.code == 2, ended
    assert ended.out == ""
    assert ended.err.startswith("slipstream: ")
    assert ended.err.endswith("\n")
    assert len(ended.err.splitlines()) == 1, ended.err
    assert not CONTROLS.search(ended.err.removesuffix("\n"))
    for word in words:
        assert word in ended.err, ended.err


def unlike_refusal(ended, *words):
    """Return the difference from a refusal as `assert_refused` checks it, for tables; empty if
    there is none."""
    try:
        assert_refused(ended, *words)
    except AssertionError:
        return str(ended)
    return ""


def contents(folder):
    """All that lies under `folder`; None for a folder."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def events_of(ended):
    assert ended.code == 0, ended.err
    assert ended.err == ""
    return [from_json(line) for line in ended.out.splitlines()]


def text_of(events):
    return "".join(event.delta for event in events if isinstance(event, Text))


def committed(events):
    """The ids of all tokens that stand."""
    ids = []
    drafts = {event.round: event.tokens for event in events if isinstance(event, Draft)}
    for event in events:
        if isinstance(event, Verdict):
            ids += [token.id for token in drafts.get(event.round, ())[: event.accepted]]
            ids += [event.next.id] if event.next else []
    return ids


def change_json(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
