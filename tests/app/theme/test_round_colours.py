"""Everything that the lane, the panel and the scrubber write can be read."""

from typing import get_args

import pytest

from app.rounds.trace import Kind
from app.theme.colours import contrast
from app.theme.round_colours import DARK, LIGHT, RoundColours, round_colours, tinted

TEXT, GRAPHICS = 4.5, 3.0  # WCAG 2.2 AA, success criteria 1.4.3 and 1.4.11

both = pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])


@both
def test_text_and_graphics_stand_out(colours: RoundColours) -> None:
    for surface in (colours.kinds.paper, colours.kinds.card):
        for text in (colours.ink, colours.muted):
            assert contrast(text, surface) >= TEXT, text
        parts = (colours.bar, colours.drafting, colours.verifying, colours.rest)
        for graphic in (colours.faded, *parts):
            assert contrast(graphic, surface) >= GRAPHICS, graphic


@both
@pytest.mark.parametrize("kind", get_args(Kind))
def test_tokens_can_be_read_on_their_tint(colours: RoundColours, kind: Kind) -> None:
    colour = colours.kinds.of(kind)
    tint = tinted(colours.kinds.card, colour)
    assert tint != colours.kinds.card
    assert contrast(colour, tint) >= TEXT
    assert contrast(colours.muted, tint) >= GRAPHICS  # the signs for white space


def test_a_tint_is_a_little() -> None:
    assert tinted("#000000", "#ffffff") == "#1a1a1a"
    assert tinted("#ffffff", "#000000") == "#e6e6e6"


def test_the_background_chooses() -> None:
    assert round_colours("#fafafa") is LIGHT
    assert round_colours("#202020") is DARK
