"""The theme follows light and dark, and so do labels; text sizes stay in bounds."""

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtGui import QPalette

from app.settings import LEAST_FONT_POINTS, MOST_FONT_POINTS, Settings
from app.theme.labels import ElidedLabel, PartsLabel, StatusLine, ToneLabel, plain_label
from app.theme.palette import DARK, LIGHT, contrast
from app.theme.style import Theme, qt_palette


@pytest.fixture
def settings(tmp_path):
    return Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat))


def test_the_theme_is_the_systems_unless_one_is_chosen_as_the_font_is(plain_application, settings):
    dark = [False]
    theme = Theme(plain_application, settings, dark=lambda: dark[0])
    assert theme.colours is LIGHT
    changes = []
    theme.changed.connect(lambda: changes.append(theme.colours))
    dark[0] = True
    theme.refresh()
    assert theme.colours is DARK
    assert plain_application.palette().window().color().name() == DARK.paper
    assert changes == [DARK]
    for chosen, colours in (("light", LIGHT), ("dark", DARK), ("system", DARK)):
        settings.theme = chosen
        theme.refresh()
        assert theme.colours is colours
        assert Theme(plain_application, settings, dark=lambda: True).colours is colours
    own = theme.font.family()
    for chosen, family in (("Nimbus Sans", "Nimbus Sans"), ("", own)):
        settings.font_family = chosen
        theme.refresh()
        assert theme.font.family() == family


def test_text_sizes_stay_in_bounds_and_are_remembered(plain_application, settings):
    theme = Theme(plain_application, settings)
    own = theme.points
    for _ in range(60):
        theme.zoom(+1.0)
    assert theme.points == theme.font.pointSizeF() == MOST_FONT_POINTS
    assert Theme(plain_application, settings).points == MOST_FONT_POINTS
    for _ in range(60):
        theme.zoom(-1.0)
    assert theme.points == LEAST_FONT_POINTS
    theme.zoom(0.0)
    assert theme.points == own


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_text_and_the_edges_of_fields_can_be_seen_on_their_ground(colours):
    made = qt_palette(colours)
    roles = QPalette.ColorRole
    for ink, ground, least in (
        (roles.WindowText, roles.Window, 4.5),
        (roles.Text, roles.Base, 4.5),
        (roles.ButtonText, roles.Button, 4.5),
        (roles.PlaceholderText, roles.Base, 4.5),
        (roles.ToolTipText, roles.ToolTipBase, 4.5),
        (roles.HighlightedText, roles.Highlight, 4.5),
        (roles.Link, roles.Base, 4.5),
        (roles.Shadow, roles.Base, 3),
    ):
        assert contrast(made.color(ink).name(), made.color(ground).name()) >= least, ink


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
