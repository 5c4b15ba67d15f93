"""The colours of the kinds can be read, and are not the only thing that tells kinds apart."""

from itertools import combinations
from typing import get_args

import pytest

from app.rounds.trace import Kind
from app.theme.colours import DARK, LIGHT, KindColours, contrast, kind_colours, kind_line

KINDS: tuple[Kind, ...] = get_args(Kind)
ENOUGH = 4.5  # WCAG 2.2 AA, success criterion 1.4.3


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_read(colours: KindColours, kind: Kind) -> None:
    assert contrast(colours.of(kind), colours.paper) >= ENOUGH
    assert contrast(colours.of(kind), colours.card) >= ENOUGH


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_no_two_kinds_look_the_same(colours: KindColours) -> None:
    assert len({colours.of(kind) for kind in KINDS}) == len(KINDS)
    for one, other in combinations(KINDS, 2):
        assert kind_line(one) != kind_line(other)


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=0.001)
    assert contrast("#ffffff", "#777777") == contrast("#777777", "#ffffff")


def test_the_background_chooses() -> None:
    assert kind_colours("#ffffff") is LIGHT
    assert kind_colours("#efefef") is LIGHT
    assert kind_colours("#323232") is DARK
    assert kind_colours(DARK.paper) is DARK
