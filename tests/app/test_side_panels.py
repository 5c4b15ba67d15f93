"""Two sides where there is room, one where there is not, and none where none is wanted."""

import pytest
from PySide6.QtCore import QSettings
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QSplitter, QWidget

from app.settings import Settings
from app.side_panels import SidePanels

WIDE, NARROW = 1200, 720


@pytest.fixture
def make(qtbot, tmp_path):
    """Make the panels of a window with these least widths, the middle in second place. Returns the
    columns, the panels, and what names the shown ones."""

    def made(hidden=(), **widths):
        settings = Settings(QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat))
        columns, middle = QSplitter(), QWidget()
        qtbot.addWidget(columns)
        parts = {name: QWidget() for name in widths or ("left", "right")}
        for name, part in parts.items():
            part.setMinimumWidth(widths.get(name, 180 if name == "left" else 300))
            columns.addWidget(part)
        columns.insertWidget(1, middle)
        actions = {name: QAction(name) for name in parts}
        for action in actions.values():
            action.setCheckable(True)
        sides = SidePanels(
            columns,
            parts,
            middle=middle,
            actions=actions,
            settings=settings.window(1),
            hidden=hidden,
        )
        sides.restore()

        def shown():
            for name, part in parts.items():
                assert actions[name].isChecked() != part.isHidden()
            return " ".join(name for name, part in parts.items() if not part.isHidden())

        return columns, sides, shown

    return made


def test_one_side_folds_away_and_comes_back(make):
    columns, sides, shown = make()
    for width, both in ((WIDE, "left right"), (NARROW, "left"), (WIDE, "left right")):
        columns.resize(width, 500)
        sides.fit()
        assert shown() == both
    assert sides.narrowest <= NARROW


def test_panels_rest_until_they_are_asked_for(make):
    columns, sides, shown = make()
    columns.resize(WIDE, 500)
    sides.rest(("right",))
    assert shown() == "left"
    sides.rest(())
    assert shown() == "left right"
    sides.rest(("right",))
    sides.switch("right")
    assert shown() == "left right"


def test_what_was_asked_for_last_is_shown(make):
    columns, sides, shown = make()
    columns.resize(NARROW, 500)
    sides.fit()
    sides.switch("right")
    assert shown() == "right"
    sides.switch("left")
    assert shown() == "left"
    sides.switch("left")
    assert shown() == "right"  # it is wanted too, and has room now
    sides.switch("right")
    assert shown() == ""
    columns.resize(WIDE, 500)
    sides.fit()
    assert shown() == ""


def test_folding_away_is_not_remembered_as_a_wish(make):
    columns, sides, _ = make()
    columns.resize(NARROW, 500)
    sides.fit()
    sides.keep()
    columns, sides, shown = make()
    columns.resize(WIDE, 500)
    sides.fit()
    assert shown() == "left right"
    sides.switch("left")
    _, sides, shown = make()
    columns.resize(WIDE, 500)
    sides.fit()
    assert shown() == "right"


def test_of_three_sides_as_many_are_shown_as_there_is_room_for(make):
    columns, sides, shown = make(left=200, right=200, page=200, hidden=("page",))

    def shown_at(width):
        columns.resize(width, 500)
        sides.fit()
        return shown()

    assert shown_at(1400) == "left right"
    sides.show("page")
    assert shown_at(1400) == "left right page"
    assert shown_at(920) == "left page"
    assert shown_at(720) == "page"
    sides.switch("page")
    assert shown_at(1400) == "left right"


def test_a_narrow_window_shows_all_of_its_text(open_window, until):
    window = open_window()
    until(lambda: window.loader.loaded)
    window.composer.set_text("word " * 50)
    window.composer.send()
    until(lambda: len(window.transcript.messages) == 2)
    window.resize(NARROW, 560)
    assert window.width() == NARROW
    for name in ("rounds", "sidebar"):
        if not getattr(window, name).isVisible():
            window.menus.actions[name].trigger()
        until(lambda: window.transcript.widget().width() <= window.transcript.viewport().width())
        view = window.transcript.messages[0].view
        assert view.width() < window.transcript.viewport().width()
