"""Widgets look as they can be used, in the colours of a light and a dark window."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor

from app.switch import Switch
from app.theme.labels import ElidedLabel, PartsLabel, StatusLine, ToneLabel, plain_label
from app.theme.palette import DARK, LIGHT
from app.theme.style import qt_palette


def colours_in(widget):
    image = widget.grab().toImage()
    places = ((x, y) for x in range(image.width()) for y in range(image.height()))
    return {image.pixelColor(x, y).name() for x, y in places}


def test_labels_have_the_colour_of_their_tone_after_the_theme_has_changed(qtbot):
    said = ToneLabel(tone="good"), ToneLabel(), StatusLine()
    said[0].say("\u2588")
    said[1].say("\u2588", "muted")
    said[2].say("\u2588", "warning")
    elided = ElidedLabel(Qt.TextElideMode.ElideRight, least=9, tone="muted")
    elided.setText("\u2588")
    parts = PartsLabel()
    parts.setText("\u2588")
    labels = (*said, elided, parts, plain_label("\u2588", tone="warning"), plain_label("\u2588"))
    for label in labels:
        qtbot.addWidget(label)
    for colours in (LIGHT, DARK):
        tones = (colours.accepted, colours.muted, colours.warning)
        for label, ink in zip(
            labels, (*tones, colours.muted, *tones[1:], colours.text), strict=True
        ):
            label.setPalette(qt_palette(colours))
            assert ink in colours_in(label), label


@pytest.mark.parametrize("on", [False, True])
def test_a_switch_that_cannot_be_pressed_is_fainter(qtbot, on):
    switch = Switch("Something")
    qtbot.addWidget(switch)
    switch.setChecked(on)

    def strength():
        """How far its strongest colour is from what is behind it."""
        behind = switch.grab().toImage().pixelColor(0, 0).lightness()
        return max(abs(QColor(name).lightness() - behind) for name in colours_in(switch))

    before = strength()
    switch.setEnabled(False)
    assert 0 < strength() < before
