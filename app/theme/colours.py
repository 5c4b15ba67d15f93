"""How the kinds of tokens look: a colour for light and for dark windows, and a line for each.

Used wherever tokens are shown, so that a kind looks the same everywhere. Colours are "#rrggbb"
texts; nothing here knows Qt, or what else is on the screen.

On the papers given here every colour has a contrast of at least 4.5, which is what WCAG 2.2 AA
asks of text (success criterion 1.4.3).
"""

from dataclasses import dataclass
from typing import Literal

from app.rounds.trace import Kind

Line = Literal["none", "solid", "dash", "dot", "strike"]


@dataclass(frozen=True, slots=True)
class KindColours:
    """The colour of each kind of token, as text on `paper` or on `card`, a raised surface."""

    paper: str
    card: str
    accepted: str
    correction: str
    bonus: str
    plain: str
    rejected: str

    def of(self, kind: Kind) -> str:
        """The colour of tokens of this kind."""
        match kind:
            case "accepted":
                return self.accepted
            case "correction":
                return self.correction
            case "bonus":
                return self.bonus
            case "plain":
                return self.plain
            case "rejected":
                return self.rejected


LIGHT = KindColours(
    paper="#ffffff",
    card="#f5f5f3",
    accepted="#18743a",
    correction="#0a5ac2",
    bonus="#7a3db8",
    plain="#24272b",
    rejected="#b9252c",
)

DARK = KindColours(
    paper="#1c1d20",
    card="#26282c",
    accepted="#63cf83",
    correction="#74b4ff",
    bonus="#c8a2ff",
    plain="#e4e5e7",
    rejected="#ff8a80",
)


def kind_line(kind: Kind) -> Line:
    """The line under a token of this kind, or through it: what tells kinds apart without colour."""
    match kind:
        case "accepted":
            return "solid"
        case "correction":
            return "dash"
        case "bonus":
            return "dot"
        case "plain":
            return "none"
        case "rejected":
            return "strike"


def kind_colours(background: str) -> KindColours:
    """The colours for a window whose background is `background`, "#rrggbb"."""
    return DARK if contrast(background, "#ffffff") > contrast(background, "#000000") else LIGHT


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, 1 to 21 (WCAG 2.2)."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    """Relative luminance, 0 to 1 (WCAG 2.2)."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
