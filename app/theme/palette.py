"""All the window's colours, for light and dark windows: surfaces, texts, code, kinds of tokens.

Colours are "#rrggbb" texts; this module knows no Qt and no widget. Every text has a contrast of at
least 4.5 on its surfaces, and every line or bar with a meaning at least 3 (WCAG 2.2 AA, success
criteria 1.4.3 and 1.4.11). Each fate of a token also has its own line, so that colour is never the
only difference.
"""

from dataclasses import dataclass
from typing import Literal

from engine.conversation.rounds import Fate

Syntax = Literal[
    "keyword", "name", "text", "number", "comment", "operator", "inserted", "deleted", "heading"
]
LineStyle = Literal["none", "solid", "dash", "dot", "dash dot", "strike", "dash strike"]

TINT = 0.10  # the share of a token's colour in its background


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of one window.

    Surfaces: `paper`; `card` is raised; `own` is under the user's text, `code` under code,
    `hover` under the pointer. Texts: `text`, `muted` for labels, `link`, `warning`. Lines: `edge`
    only separates, `bar` has a meaning. `found` is under the hits of a search, `found_now` under
    the current hit. Tokens: `accepted` to `rejected`; `faded` is for discarded ones. `drafting` and
    `verifying` are parts of the time.
    """

    dark: bool
    paper: str
    card: str
    own: str
    code: str
    hover: str
    found: str
    found_now: str
    text: str
    muted: str
    link: str
    warning: str
    edge: str
    bar: str
    accepted: str
    correction: str
    bonus: str
    plain: str
    forced: str
    rejected: str
    faded: str
    drafting: str
    verifying: str
    syntax: dict[Syntax, str]

    def of(self, fate: Fate) -> str:
        """Return the colour of tokens with this fate, as text on `paper`, `card` or `code`."""
        colours: dict[Fate, str] = {
            "accepted": self.accepted,
            "correction": self.correction,
            "bonus": self.bonus,
            "plain": self.plain,
            "forced": self.forced,
            "rejected": self.rejected,
            "discarded": self.faded,
            "drafted": self.muted,
        }
        return colours[fate]


LIGHT = Palette(
    dark=False,
    paper="#ffffff",
    card="#f5f5f3",
    own="#eef1f6",
    code="#f5f5f3",
    hover="#e3e6ea",
    found="#ffedb0",
    found_now="#ffc44d",
    text="#1f2328",
    muted="#5b626b",
    link="#0a5ac2",
    warning="#9a4b00",
    edge="#d8dbdf",
    bar="#8a9099",
    accepted="#18743a",
    correction="#0a5ac2",
    bonus="#7a3db8",
    plain="#24272b",
    forced="#855700",
    rejected="#b9252c",
    faded="#64686f",
    drafting="#b26a00",
    verifying="#2f6db5",
    syntax={
        "keyword": "#8b2bb0",
        "name": "#0a5a9c",
        "text": "#1a6b37",
        "number": "#9a4b00",
        "comment": "#5f676f",
        "operator": "#4a4f57",
        "inserted": "#18703a",
        "deleted": "#b02530",
        "heading": "#0a5ac2",
    },
)

DARK = Palette(
    dark=True,
    paper="#1c1d20",
    card="#26282c",
    own="#2a2e36",
    code="#26282c",
    hover="#383b42",
    found="#4d4220",
    found_now="#7a5600",
    text="#e4e5e7",
    muted="#a2a8b0",
    link="#74b4ff",
    warning="#f0b060",
    edge="#3a3d43",
    bar="#7d848e",
    accepted="#63cf83",
    correction="#74b4ff",
    bonus="#c8a2ff",
    plain="#e4e5e7",
    forced="#e6c15c",
    rejected="#ff8a80",
    faded="#979ca4",
    drafting="#e0a040",
    verifying="#6aa5e8",
    syntax={
        "keyword": "#d7a1f0",
        "name": "#7fc1ff",
        "text": "#93d6a0",
        "number": "#f0b57a",
        "comment": "#9aa1aa",
        "operator": "#c3c7cd",
        "inserted": "#74d191",
        "deleted": "#ff9a92",
        "heading": "#74b4ff",
    },
)


_LINES: dict[Fate, LineStyle] = {
    "accepted": "solid",
    "correction": "dash",
    "bonus": "dot",
    "forced": "dash dot",
    "rejected": "strike",
    "discarded": "dash strike",
    "plain": "none",
    "drafted": "none",
}


def palette_for(background: str) -> Palette:
    """Return the palette of a window whose background is `background`."""
    return DARK if contrast(background, "#ffffff") > contrast(background, "#000000") else LIGHT


def line_of(fate: Fate) -> LineStyle:
    """Return the line under a token with this fate, or through it."""
    return _LINES[fate]


def tinted(surface: str, colour: str) -> str:
    """Return `surface` with a little of `colour` in it."""
    return mixed(surface, colour, TINT)


def mixed(colour: str, other: str, share: float) -> str:
    """Return `colour` with this share of `other` in it, from 0 to 1."""
    parts = (
        round((1 - share) * int(colour[at : at + 2], 16) + share * int(other[at : at + 2], 16))
        for at in (1, 3, 5)
    )
    return "#" + "".join(f"{part:02x}" for part in parts)


def contrast(colour: str, other: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21 (WCAG 2.2)."""
    darker, lighter = sorted((_luminance(colour), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    """Return the relative luminance, 0 to 1 (WCAG 2.2)."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
