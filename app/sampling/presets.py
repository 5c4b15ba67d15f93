"""Named sampling settings: the built-in presets, and the user's own.

Knows `engine.request`, and the text format of presets; not where they are stored.
"""

import json
from dataclasses import dataclass

from app.conversations.records import settings_from_json, settings_to_json
from engine.request import BALANCED, Request, Sampling
from models.in_words import one_line

LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Preset:
    """Sampling settings with a name. `line` explains a built-in preset.

    A `sampling` of None is the loaded model's default; the user's own presets always have one.
    """

    name: str
    sampling: Sampling | None
    line: str = ""


MODELS_DEFAULT = Preset("Model’s default", None, "As its makers recommend, else balanced")
BUILT_IN = (
    MODELS_DEFAULT,
    Preset("Exact (greedy)", Sampling(), "Always the likeliest token: the same answer every time"),
    Preset("Balanced", BALANCED, "Some variety, nothing far-fetched"),
    Preset("Creative", Sampling(temperature=1.0, min_p=0.05), "Everything but unlikely tokens"),
)


def find_preset(sampling: Sampling | None, presets: tuple[Preset, ...]) -> Preset | None:
    """Return the first preset with these settings, or None."""
    return next((preset for preset in presets if preset.sampling == sampling), None)


def with_preset(own: tuple[Preset, ...], preset: Preset) -> tuple[Preset, ...]:
    """Return the user's presets, sorted by name, with one added or replaced."""
    others = [other for other in own if other.name != preset.name]
    return tuple(sorted([*others, preset], key=lambda each: each.name.casefold()))


def presets_to_json(own: tuple[Preset, ...]) -> str:
    """Return the user's presets as one line of JSON."""
    return json.dumps(
        {
            preset.name: json.loads(settings_to_json(Request(sampling=preset.sampling)))
            for preset in own
        }
    )


def presets_from_json(text: str) -> tuple[Preset, ...]:
    """Return the presets that `presets_to_json` wrote, without unreadable ones."""
    try:
        kept = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(kept, dict):
        return ()
    own: tuple[Preset, ...] = ()
    for name, value in kept.items():
        request = settings_from_json(json.dumps(value)) if isinstance(value, dict) else None
        if request is not None and request.sampling is not None and tidy_name(name):
            own = with_preset(own, Preset(tidy_name(name), request.sampling))
    return own


def tidy_name(name: str) -> str:
    """Return a name as one printable line; empty if nothing of it is printable."""
    return one_line(name)[:LONGEST_NAME].rstrip()


def stops_to_text(stops: tuple[str, ...]) -> str:
    """Return stop texts, one per line; a line break in one is written as \\n, a tab as \\t."""
    return "\n".join(
        stop.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
        for stop in stops
    )


def stops_from_text(text: str) -> tuple[str, ...]:
    """Return the stop texts that `stops_to_text` wrote, without empty lines."""
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
