"""The chat's colours can be read: WCAG AA on every paper that they are written on."""

import pytest

from app.theme.chat_colours import DARK_CHAT, LIGHT_CHAT, ChatColours, chat_colours
from app.theme.colours import contrast

both = pytest.mark.parametrize("colours", [LIGHT_CHAT, DARK_CHAT])


@both
def test_texts(colours: ChatColours) -> None:
    texts = [colours.text, colours.muted, colours.link, colours.warning, *colours.syntax.values()]
    for paper in (colours.paper, colours.code):
        for text in texts:
            assert contrast(text, paper) >= 4.5
    for text in (colours.text, colours.muted, colours.warning, colours.link):
        assert contrast(text, colours.own) >= 4.5

    assert contrast(colours.text, colours.hover) >= 4.5


@both
def test_kinds_of_tokens(colours: ChatColours) -> None:
    for kind in ("accepted", "correction", "bonus", "plain", "rejected"):
        for paper in (colours.paper, colours.code):
            assert contrast(colours.kinds.of(kind), paper) >= 4.5


@both
def test_lines_that_mean_something(colours: ChatColours) -> None:
    assert contrast(colours.bar, colours.paper) >= 3


def test_the_window_decides() -> None:
    assert chat_colours("#ffffff") is LIGHT_CHAT
    assert chat_colours("#202020") is DARK_CHAT
    assert DARK_CHAT.dark
    assert not LIGHT_CHAT.dark
