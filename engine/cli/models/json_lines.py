"""Answers for programs: JSON, an object a line, also where something went wrong.

Knows records as plain values; nothing of what they say.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass

import typer

from models.errors import Problem


def say(**answer: object) -> None:
    """Print one line, now; records become what `asdict` makes of them."""
    print(json.dumps(_plain(answer)), flush=True)


@contextmanager
def problems_told(as_json: bool) -> Iterator[None]:
    """A `Problem` becomes {"problem": [message, remedy]} and exit code 2, if `as_json`."""
    try:
        yield
    except Problem as problem:
        if not as_json:
            raise
        say(problem=[problem.message, problem.remedy])
        raise typer.Exit(2) from None


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
