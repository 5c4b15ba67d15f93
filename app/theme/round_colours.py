"""The colours of the lane, the panel and the scrubber beyond those of the kinds of tokens.

Knows colours as "#rrggbb" texts; nothing of Qt. All text is drawn on `kinds.paper` or
`kinds.card`, with a contrast of at least 4.5 (WCAG 2.2 AA); `faded`, for what no longer counts,
and the parts of bars have at least 3 (success criterion 1.4.11).
"""

from dataclasses import dataclass

from app.theme.colours import DARK as DARK_KINDS
from app.theme.colours import LIGHT as LIGHT_KINDS
from app.theme.colours import KindColours, kind_colours


@dataclass(frozen=True, slots=True)
class RoundColours:
    """`ink` is text, `muted` lesser text, `hairline` a line that only separates.

    `drafting`, `verifying` and `rest` are the parts of the time; `bar` is any other bar.
    """

    kinds: KindColours
    ink: str
    muted: str
    faded: str
    hairline: str
    bar: str
    drafting: str
    verifying: str
    rest: str


LIGHT = RoundColours(
    kinds=LIGHT_KINDS,
    ink="#24272b",
    muted="#62666d",
    faded="#868a91",
    hairline="#dcdcd8",
    bar="#18743a",
    drafting="#b26a00",
    verifying="#2f6db5",
    rest="#868a91",
)

DARK = RoundColours(
    kinds=DARK_KINDS,
    ink="#e4e5e7",
    muted="#a0a4ab",
    faded="#7d8188",
    hairline="#3a3d42",
    bar="#63cf83",
    drafting="#e0a040",
    verifying="#6aa5e8",
    rest="#7d8188",
)

TINT = 0.10  # of a kind's colour in the surface behind its tokens


def round_colours(background: str) -> RoundColours:
    """The colours for a window whose background is `background`."""
    return LIGHT if kind_colours(background) is LIGHT_KINDS else DARK


def tinted(surface: str, colour: str) -> str:
    """`surface` with a little of `colour` in it."""
    mixed = (
        round((1 - TINT) * int(surface[at : at + 2], 16) + TINT * int(colour[at : at + 2], 16))
        for at in (1, 3, 5)
    )
    return "#" + "".join(f"{part:02x}" for part in mixed)
