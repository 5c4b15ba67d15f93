"""Ways of choosing tokens that have a name: three that come along, and a person's own.

Knows `engine.request`, and how presets are kept as text; not where.
"""

import json
from dataclasses import dataclass

from app.conversations.records import settings_from_json, settings_to_json
from engine.request import Request, Sampling
from models.in_words import one_line

LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Preset:
    """A name for a sampling. `line` explains it; a person's own have none."""

    name: str
    sampling: Sampling
    line: str = ""


BUILT_IN = (
    Preset("Exact", Sampling(), "Greedy: always the likeliest token, the same answer every time"),
    Preset("Balanced", Sampling(temperature=0.7, top_p=0.9), "Some variety, nothing far-fetched"),
    Preset("Creative", Sampling(temperature=1.0, min_p=0.05), "All that is not quite unlikely"),
)


def find_preset(sampling: Sampling, presets: tuple[Preset, ...]) -> Preset | None:
    """The first preset that is this sampling; None for one that has no name."""
    return next((preset for preset in presets if preset.sampling == sampling), None)


def with_preset(own: tuple[Preset, ...], preset: Preset) -> tuple[Preset, ...]:
    """A person's presets with one more, in place of the one with the same name; by name."""
    others = [one for one in own if one.name != preset.name]
    return tuple(sorted([*others, preset], key=lambda one: one.name.casefold()))


def presets_to_json(own: tuple[Preset, ...]) -> str:
    """A person's presets as one line of JSON."""
    return json.dumps(
        {one.name: json.loads(settings_to_json(Request(sampling=one.sampling))) for one in own}
    )


def presets_from_json(text: str) -> tuple[Preset, ...]:
    """The presets that `presets_to_json` wrote, without those that are not understood."""
    try:
        kept = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(kept, dict):
        return ()
    own: tuple[Preset, ...] = ()
    for name, value in kept.items():
        request = settings_from_json(json.dumps(value)) if isinstance(value, dict) else None
        if request is not None and tidy_name(name):
            own = with_preset(own, Preset(tidy_name(name), request.sampling))
    return own


def tidy_name(name: str) -> str:
    """A name as it can be shown in one line; empty where nothing of it can."""
    return one_line(name)[:LONGEST_NAME].rstrip()


def stops_to_text(stops: tuple[str, ...]) -> str:
    """Stop texts, one a line: a line break within one is written as \\n, a tab as \\t."""
    return "\n".join(
        stop.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
        for stop in stops
    )


def stops_from_text(text: str) -> tuple[str, ...]:
    """The stop texts that were written so; empty lines are none."""
    return tuple(_unescape(line) for line in text.split("\n") if line)


def _unescape(line: str) -> str:
    known = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
    text, characters = "", iter(line)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            text += known.get(escaped, "\\" + escaped)
        else:
            text += character
    return text
