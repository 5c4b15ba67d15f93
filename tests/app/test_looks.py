"""The theme follows light and dark; text sizes stay in bounds."""

from typing import get_args

import pytest
from PySide6.QtCore import QSettings
from PySide6.QtGui import QPalette

from app.settings import LEAST_FONT_POINTS, MOST_FONT_POINTS, Settings, ThemeChoice
from app.theme.palette import DARK, LIGHT, contrast
from app.theme.style import Theme, qt_palette


@pytest.fixture
def settings(tmp_path):
    return Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat))


def test_it_turns_dark_when_the_system_does(plain_application, settings):
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


def test_a_chosen_theme_and_font_hold_whatever_the_system_has(plain_application, settings):
    theme = Theme(plain_application, settings, dark=lambda: True)
    for chosen, colours in (("light", LIGHT), ("dark", DARK), ("system", DARK)):
        settings.theme = next(one for one in get_args(ThemeChoice) if one == chosen)
        theme.refresh()
        assert theme.colours is colours
        assert Theme(plain_application, settings, dark=lambda: True).colours is colours
    own = theme.font.family()
    settings.font_family = "Nimbus Sans"
    theme.refresh()
    assert theme.font.family() == "Nimbus Sans"
    settings.font_family = ""
    theme.refresh()
    assert theme.font.family() == own


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
