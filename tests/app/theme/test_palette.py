"""Everything that is written or drawn can be seen, and colour is not all that tells fates apart."""

from itertools import product
from typing import get_args

import pytest

from app.rounds.trace import PieceKind
from app.theme.palette import DARK, LIGHT, contrast, line_of, palette_for, tinted

KINDS = get_args(PieceKind)
TEXT, GRAPHICS = 4.5, 3.0  # WCAG 2.2 AA, success criteria 1.4.3 and 1.4.11


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_everything_can_be_seen_on_its_ground(colours):
    kinds = [colours.of(kind) for kind in KINDS]
    plain = (colours.text, colours.muted)
    texts = (*plain, colours.link, colours.warning, *colours.syntax.values())
    graphics = (colours.faded, colours.accepted, colours.drafting, colours.verifying)
    for inks, grounds, least in (
        (texts, (colours.paper, colours.code), TEXT),
        ((*plain, colours.warning, colours.link), (colours.own,), TEXT),
        (plain, (colours.card,), TEXT),
        ((colours.text,), (colours.hover, colours.found, colours.found_now), TEXT),
        (kinds, (colours.paper, colours.card, colours.code), TEXT),
        (graphics, (colours.paper, colours.card), GRAPHICS),
        ((colours.bar,), (colours.paper,), GRAPHICS),
    ):
        for ink, ground in product(inks, grounds):
            assert contrast(ink, ground) >= least, (ink, ground)
    for ink in kinds:
        tint = tinted(colours.card, ink)
        assert tint != colours.card, ink
        assert contrast(ink, tint) >= TEXT, ink
        assert contrast(colours.muted, tint) >= GRAPHICS, ink  # the signs for white space
    assert len({*kinds}) == len({line_of(kind) for kind in KINDS}) == len(KINDS)


def test_contrast_is_that_of_the_guidelines_and_the_background_chooses():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=0.001)
    assert contrast("#777777", "#ffffff") == contrast("#ffffff", "#777777")
    for background in ("#ffffff", "#fafafa", "#efefef", LIGHT.paper):
        assert palette_for(background) is LIGHT
    for background in ("#202020", "#323232", DARK.paper):
        assert palette_for(background) is DARK
    assert (DARK.dark, LIGHT.dark) == (True, False)
