"""The theme follows light and dark; text sizes stay in bounds; notices and keys can be read."""

from pathlib import Path
from typing import get_args

import pytest
from PySide6.QtCore import QSettings
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QLabel, QMainWindow, QPushButton
from pytestqt.qtbot import QtBot

from app.menus import COMMANDS, Command, KeysDialog, Menus
from app.notices import Notices, Offer
from app.settings import LEAST_FONT_POINTS, MOST_FONT_POINTS, Settings, ThemeChoice
from app.theme.palette import DARK, LIGHT, Palette, contrast
from app.theme.style import Theme, qt_palette
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat))


def test_it_turns_dark_when_the_system_does(
    plain_application: QApplication, settings: Settings
) -> None:
    dark = [False]
    theme = Theme(plain_application, settings, dark=lambda: dark[0])
    assert theme.colours is LIGHT
    changes: list[Palette] = []
    theme.changed.connect(lambda: changes.append(theme.colours))
    dark[0] = True
    theme.refresh()
    assert theme.colours is DARK
    assert plain_application.palette().window().color().name() == DARK.paper
    assert changes == [DARK]


def test_a_chosen_theme_and_font_hold_whatever_the_system_has(
    plain_application: QApplication, settings: Settings
) -> None:
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


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_the_edge_of_a_field_can_be_seen(colours: Palette) -> None:
    made = qt_palette(colours)
    edge = made.color(QPalette.ColorRole.Shadow).name()
    assert contrast(edge, made.color(QPalette.ColorRole.Base).name()) >= 3


def test_text_sizes_stay_in_bounds_and_are_remembered(
    plain_application: QApplication, settings: Settings
) -> None:
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
def test_text_can_be_read_on_its_ground(colours: Palette) -> None:
    made = qt_palette(colours)
    roles = QPalette.ColorRole
    for ink, ground in (
        (roles.WindowText, roles.Window),
        (roles.Text, roles.Base),
        (roles.ButtonText, roles.Button),
        (roles.PlaceholderText, roles.Base),
        (roles.ToolTipText, roles.ToolTipBase),
        (roles.HighlightedText, roles.Highlight),
        (roles.Link, roles.Base),
    ):
        assert contrast(made.color(ink).name(), made.color(ground).name()) >= 4.5, ink


def test_a_notice_offers_and_is_settled(qtbot: QtBot) -> None:
    notices = Notices()
    qtbot.addWidget(notices)
    done: list[str] = []
    notices.say("a", "It broke.", offer=Offer("Mend it", lambda: done.append("mended")))
    notices.say("b", "<b>other</b>", lasting=True)
    notices.say("b", "<i>later</i>", lasting=True)
    assert notices.texts == {"a": "It broke.", "b": "<i>later</i>"}
    labels = {label.textFormat().name for label in notices.findChildren(QLabel)}
    assert labels == {"PlainText"}
    notices.press("a")
    assert done == ["mended"]
    notices.take_back("b")
    notices.take_back("b")
    assert notices.texts == {}
    assert notices.isHidden()


def test_a_notice_can_be_dismissed_or_goes_by_itself(qtbot: QtBot) -> None:
    notices = Notices()
    qtbot.addWidget(notices)
    notices.say("a", "One.")
    button = notices.findChildren(QPushButton)[0]
    assert button.accessibleName() == "Dismiss this notice"
    button.click()
    assert notices.texts == {}
    notices.say("a", "Short.", seconds=0.01)
    notices.say("b", "Stays.")
    qtbot.waitUntil(lambda: notices.texts == {"b": "Stays."})


def test_the_keys_are_listed(qtbot: QtBot) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    menus = Menus(window, given={})
    assert set(menus.actions) == {one.name for one in COMMANDS if isinstance(one, Command)}
    dialog = KeysDialog(menus, window)
    shown = {label.text() for label in dialog.findChildren(QLabel)}
    assert {"Regenerate the last answer", "Ctrl+R", "New line", "Shift+Enter"} <= shown
