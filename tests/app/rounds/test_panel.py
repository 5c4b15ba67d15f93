"""The panel shows an answer's figures, calmly, and its charts can be read in words."""

from dataclasses import replace
from itertools import product

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QLabel, QWidget

from app.rounds.charts import PositionChart, TimeBar
from app.rounds.explained import FIGURE_NAMES, FIGURES, as_tip
from app.rounds.figures import PositionAcceptance, TimeShare
from app.rounds.panel import FigureView, RoundsPanel
from app.theme.palette import DARK, LIGHT, tinted
from app.theme.style import qt_palette
from engine.conversation.rounds import judged
from engine.conversation.stats import tally
from engine.events import Done
from tests.support.app.traces import recorded
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS
from tests.support.app.window_use import figure, ink_of

TRACES = ["stories_early_exit.jsonl", "stories_lookup.jsonl", "stories_plain.jsonl"]


@pytest.fixture
def panel(qtbot):
    panel = RoundsPanel()
    qtbot.addWidget(panel)
    panel.resize(300, 600)
    return panel


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_gives_the_figures_of_its_end(panel, name):
    events = recorded(name)
    last = judged(events)[-1]
    panel.show_stats(tally(events), last)
    assert figure(panel, "draft").value == str(len(last.drafted))
    assert panel.stats == tally(events)
    assert figure(panel, "speed").value == f"{panel.stats.tokens_per_second:.1f}"
    assert figure(panel, "length").value == f"{panel.stats.acceptance_length:.2f}"
    assert not panel.grab().isNull()


def test_events_are_drawn_later_and_all_at_once(qtbot, panel):
    events = recorded("stories_lookup.jsonl")
    for end in range(len(events) + 1):
        panel.show_stats(tally(events[:end]), ended=False)
    assert figure(panel, "speed").value == "–", "each event would cost a drawing"
    qtbot.waitUntil(lambda: figure(panel, "speed").value != "–")
    assert figure(panel, "rate").value.split()[0] == str(tally(events).accepted)


def test_the_speed_up_comes_with_the_end_of_the_answer(panel):
    events = recorded("stories_early_exit.jsonl")
    *_, done = events
    assert isinstance(done, Done)
    stats = tally(events)
    passes = (0.9 * stats.verify_seconds / stats.rounds,) * 8
    panel.show_stats(tally(events[:-1]), ended=False)
    panel.refresh()
    assert figure(panel, "plain").value == "–"
    assert "ends" in figure(panel, "plain").remark
    done = replace(done, stats=replace(done.stats, reference_seconds=passes))
    panel.show_stats(tally((*events[:-1], done)))
    assert figure(panel, "plain").value.endswith("times")


def test_every_figure_is_explained(panel):
    assert set(FIGURES) == set(FIGURE_NAMES)
    shown = {view.toolTip() for view in panel.findChildren(QWidget)}
    explained = set(FIGURES) - {"not shown", "positions"}
    assert {as_tip(FIGURES[key]) for key in explained} <= shown


@pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)
def test_three_figures_are_in_sight_and_the_rest_is_folded(qtbot, panel):
    panel.show()
    views = panel.findChildren(FigureView)
    assert [v.key for v in views if v.isVisible()] == ["plain", "length", "rate"]
    qtbot.mouseClick(panel.more, Qt.MouseButton.LeftButton)
    assert all(view.isVisible() for view in views)
    assert panel.findChild(PositionChart).isVisible()


def test_nothing_jumps_as_figures_come_in(panel):
    height = panel.sizeHint().height()
    for name in TRACES:
        panel.show_stats(tally(recorded(name)))
        assert panel.sizeHint().height() == height


def test_the_panel_follows_a_dark_window(panel):
    panel.setPalette(qt_palette(DARK))
    panel.show_stats(tally(recorded(TRACES[0])))
    inks = {ink_of(label) for label in panel.findChildren(QLabel)}
    assert inks == {DARK.text, DARK.muted}
    assert QColor(panel.grab().toImage().pixel(2, 2)).name() == DARK.paper


def test_the_chart_of_positions_is_said_in_words(qtbot):
    chart = PositionChart()
    qtbot.addWidget(chart)
    assert chart.accessibleDescription() == "Nothing was drafted."
    chart.show_positions((PositionAcceptance(1, 100, 90), PositionAcceptance(2, 8, 0)))
    chart.resize(chart.sizeHint())
    said = "position 1: 90% of 100, position 2: 0% of 8"
    assert chart.accessibleDescription() == said
    assert chart.tip_at(5) == "Position 1: 90 of 100 accepted"
    assert chart.tip_at(50).startswith("Position 2: 0 of 8 accepted, ")
    assert chart.tip_at(200) == ""


def test_few_tokens_look_like_few(qtbot):
    pictures = []
    for proposed in (19, 20):
        chart = PositionChart()
        qtbot.addWidget(chart)
        chart.show_positions((PositionAcceptance(1, proposed, proposed),))
        chart.resize(chart.sizeHint())
        image = chart.grab().toImage()
        pictures.append(QColor(image.pixel(17, image.height() // 2)).name())
    assert pictures[1] == LIGHT.accepted
    assert pictures[0] == tinted(LIGHT.paper, LIGHT.accepted)


def test_a_figure_stands_above_its_bar(qtbot):
    chart = PositionChart()
    qtbot.addWidget(chart)
    chart.show_positions((PositionAcceptance(1, 100, 50),))
    chart.resize(chart.sizeHint())
    image = chart.grab().toImage()
    column = [QColor(image.pixel(17, y)).name() for y in range(image.height())]
    filled = [y for y, colour in enumerate(column) if colour == LIGHT.accepted]
    assert filled == list(range(filled[0], filled[-1] + 1))
    assert len(filled) > 10


def test_any_number_of_positions_fits(qtbot):
    for number, width in product((0, 1, 16), (1, 60, 600)):
        chart = PositionChart()
        qtbot.addWidget(chart)
        places = range(1, number + 1)
        chart.show_positions(tuple(PositionAcceptance(place, 10, 10) for place in places))
        chart.resize(width, chart.sizeHint().height())
        assert not chart.grab().isNull()
        assert bool(chart.tip_at(width - 1)) == (number * 34 >= width and number > 0), width


def test_the_split_of_the_time_is_said_in_words(qtbot):
    bar = TimeBar()
    qtbot.addWidget(bar)
    assert bar.accessibleDescription() == "Nothing was measured yet."
    bar.show_shares((TimeShare("drafting", 0.5, 0.25), TimeShare("verifying", 1.5, 0.75)))
    bar.resize(200, bar.sizeHint().height())
    assert bar.accessibleDescription() == "drafting 0.50 s, 25%; verifying 1.50 s, 75%"
    image = bar.grab().toImage()
    assert image.pixel(10, 5) != image.pixel(190, 5)
