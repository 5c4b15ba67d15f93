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
    """Make the panels of a window with these least widths, the middle in second place, a page
    hidden. Returns the columns, the panels, and what names the shown ones."""

    def made(widths):
        settings = Settings(QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat))
        columns, middle = QSplitter(), QWidget()
        qtbot.addWidget(columns)
        parts = {name: QWidget() for name in widths}
        for name, part in parts.items():
            part.setMinimumWidth(widths[name])
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
            hidden=("page",),
        )
        sides.restore()

        def shown():
            for name, part in parts.items():
                assert actions[name].isChecked() != part.isHidden()
            return " ".join(name for name, part in parts.items() if not part.isHidden())

        return columns, sides, shown

    return made


TWO, THREE = {"left": 180, "right": 300}, {"left": 200, "right": 200, "page": 200}


@pytest.mark.parametrize(
    ("widths", "steps"),
    [
        pytest.param(
            TWO,
            [("width", WIDE, "left right"), ("width", NARROW, "left"),
             ("width", WIDE, "left right")],
            id="one side folds away and comes back",
        ),
        pytest.param(
            TWO,
            [("width", WIDE, "left right"), ("rest", ("right",), "left"),
             ("rest", (), "left right"), ("rest", ("right",), "left"),
             ("switch", "right", "left right")],
            id="panels rest until they are asked for",
        ),
        pytest.param(  # the other one is wanted too, and has room once one is switched off
            TWO,
            [("width", NARROW, "left"), ("switch", "right", "right"), ("switch", "left", "left"),
             ("switch", "left", "right"), ("switch", "right", ""), ("width", WIDE, "")],
            id="what was asked for last is shown",
        ),
        pytest.param(
            TWO,
            [("width", NARROW, "left"), ("opened again", WIDE, "left right"),
             ("switch", "left", "right"), ("opened again", WIDE, "right")],
            id="folding away is not remembered as a wish",
        ),
        pytest.param(
            THREE,
            [("width", 1400, "left right"), ("show", "page", "left right page"),
             ("width", 920, "left page"), ("width", 720, "page"), ("switch", "page", "left"),
             ("width", 1400, "left right")],
            id="of three sides as many are shown as have room",
        ),
    ],
)  # fmt: skip
def test_what_has_room_is_shown(make, widths, steps):
    columns, sides, shown = make(widths)
    for step, value, expected in steps:
        if step == "opened again":
            sides.keep()
            columns, sides, shown = make(widths)
        if step in ("width", "opened again"):
            columns.resize(value, 500)
            sides.fit()
        else:
            getattr(sides, step)(value)
        assert shown() == expected, (step, value)
    assert sides.narrowest <= NARROW


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
