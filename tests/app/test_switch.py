"""A switch looks as it can be used."""

import pytest

from app.switch import Switch


def strength(switch):
    """How far its strongest colour is from what is behind it."""
    image = switch.grab().toImage()
    behind = image.pixelColor(0, 0).lightness()
    places = ((x, y) for x in range(image.width()) for y in range(image.height()))
    return max(abs(image.pixelColor(x, y).lightness() - behind) for x, y in places)


@pytest.mark.parametrize("on", [False, True])
def test_a_switch_that_cannot_be_pressed_is_fainter(qtbot, on):
    switch = Switch("Something")
    qtbot.addWidget(switch)
    switch.setChecked(on)
    before = strength(switch)
    switch.setEnabled(False)
    assert 0 < strength(switch) < before
