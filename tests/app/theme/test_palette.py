"""Everything that is written or drawn can be seen, and colour is not all that tells fates apart."""

from itertools import combinations, product
from typing import get_args

import pytest

from app.rounds.trace import PieceKind
from app.theme.palette import DARK, LIGHT, contrast, line_of, palette_for, tinted

KINDS = get_args(PieceKind)
TEXT, GRAPHICS = 4.5, 3.0  # WCAG 2.2 AA, success criteria 1.4.3 and 1.4.11

both = pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])


@both
def test_texts(colours):
    texts = [colours.text, colours.muted, colours.link, colours.warning, *colours.syntax.values()]
    for surface in (colours.paper, colours.code):
        for text in texts:
            assert contrast(text, surface) >= TEXT
    for text in (colours.text, colours.muted, colours.warning, colours.link):
        assert contrast(text, colours.own) >= TEXT
    for text in (colours.text, colours.muted):
        assert contrast(text, colours.card) >= TEXT
    for surface in (colours.hover, colours.found, colours.found_now):
        assert contrast(colours.text, surface) >= TEXT


@both
def test_every_kind_can_be_read(colours):
    for kind, surface in product(KINDS, (colours.paper, colours.card, colours.code)):
        assert contrast(colours.of(kind), surface) >= TEXT, kind


@both
def test_no_two_kinds_look_the_same(colours):
    assert len({colours.of(kind) for kind in KINDS}) == len(KINDS)
    for kind, other in combinations(KINDS, 2):
        assert line_of(kind) != line_of(other)


@both
def test_tokens_can_be_read_on_their_tint(colours):
    for kind in KINDS:
        colour = colours.of(kind)
        tint = tinted(colours.card, colour)
        assert tint != colours.card, kind
        assert contrast(colour, tint) >= TEXT, kind
        assert contrast(colours.muted, tint) >= GRAPHICS, kind  # the signs for white space


@both
def test_lines_and_bars_that_mean_something(colours):
    assert contrast(colours.bar, colours.paper) >= GRAPHICS
    for surface in (colours.paper, colours.card):
        for graphic in (colours.faded, colours.accepted, colours.drafting, colours.verifying):
            assert contrast(graphic, surface) >= GRAPHICS, graphic


def test_contrast_is_that_of_the_guidelines():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=0.001)
    assert contrast("#ffffff", "#777777") == contrast("#777777", "#ffffff")


def test_the_background_chooses():
    for background in ("#ffffff", "#fafafa", "#efefef", LIGHT.paper):
        assert palette_for(background) is LIGHT
    for background in ("#202020", "#323232", DARK.paper):
        assert palette_for(background) is DARK
    assert DARK.dark
    assert not LIGHT.dark
