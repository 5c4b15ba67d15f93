"""The panel shows an answer's figures, calmly, and its charts can be read in words."""

import unicodedata
from dataclasses import replace
from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from app.rounds.charts import PositionChart, TimeBar
from app.rounds.explained import (
    FIGURE_NAMES,
    FIGURES,
    KINDS,
    SAMPLE,
    KindWord,
    RoundsExplained,
    as_tip,
)
from app.rounds.figures import PositionAcceptance, TimeShare
from app.rounds.marks import marked
from app.rounds.panel import FigureView, RoundsPanel
from app.rounds.trace import PieceKind
from engine.conversation.rounds import judged
from engine.conversation.stats import tally
from tests.support.app.traces import recorded
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS
from tests.support.app.window_use import figure

TRACES = ["stories_early_exit.jsonl", "stories_lookup.jsonl", "stories_plain.jsonl"]


@pytest.fixture
def panel(qtbot):
    panel = RoundsPanel()
    qtbot.addWidget(panel)
    panel.resize(300, 600)
    return panel


def test_a_trace_gives_the_figures_of_its_end_and_nothing_jumps(panel):
    height = panel.sizeHint().height()
    for events in map(recorded, TRACES):
        last = judged(events)[-1]
        panel.show_stats(tally(events), last)
        assert figure(panel, "draft").value == str(len(last.drafted))
        assert panel.stats == tally(events)
        assert figure(panel, "speed").value == f"{panel.stats.tokens_per_second:.1f}"
        assert figure(panel, "length").value == f"{panel.stats.acceptance_length:.2f}"
        assert not panel.grab().isNull()
        assert panel.sizeHint().height() == height


def test_events_are_drawn_later_and_all_at_once_and_the_speed_up_at_the_end(qtbot, panel):
    *events, done = recorded("stories_early_exit.jsonl")
    for end in range(len(events) + 1):
        panel.show_stats(tally(events[:end]), ended=False)
    assert figure(panel, "speed").value == "–", "each event would cost a drawing"
    qtbot.waitUntil(lambda: figure(panel, "speed").value != "–")
    stats = tally(events)
    assert figure(panel, "rate").value.split()[0] == str(stats.accepted)
    assert figure(panel, "plain").value == "–"
    assert "ends" in figure(panel, "plain").remark
    passes = (0.9 * stats.verify_seconds / stats.rounds,) * 8
    done = replace(done, stats=replace(done.stats, reference_seconds=passes))
    panel.show_stats(tally((*events, done)))
    assert figure(panel, "plain").value.endswith("times")


@pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)
def test_three_figures_are_in_sight_and_the_rest_is_folded(qtbot, panel):
    panel.show()
    views = panel.findChildren(FigureView)
    assert [v.key for v in views if v.isVisible()] == ["plain", "length", "rate"]
    qtbot.mouseClick(panel.more, Qt.MouseButton.LeftButton)
    assert all(view.isVisible() for view in views)
    assert panel.findChild(PositionChart).isVisible()


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


def test_any_number_of_positions_fits(qtbot):
    for number, width in product((0, 1, 16), (1, 60, 600)):
        chart = PositionChart()
        qtbot.addWidget(chart)
        places = range(1, number + 1)
        chart.show_positions(tuple(PositionAcceptance(place, 10 * place, 10) for place in places))
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


def test_the_dialog_explains_every_kind_and_figure(qtbot, panel):
    dialog = RoundsExplained()
    qtbot.addWidget(dialog)
    assert set(KINDS) == set(get_args(PieceKind))
    assert len(dialog.findChildren(KindWord)) == len(KINDS) + len(SAMPLE)
    labels = dialog.findChildren(QLabel)
    words = {label.text() for label in labels}
    assert {f"{kind.capitalize()}. {line}" for kind, line in KINDS.items()} <= words
    assert {*FIGURES.values()} <= words
    assert {label.textFormat().name for label in labels} == {"PlainText"}
    assert set(FIGURES) == set(FIGURE_NAMES)
    shown = {view.toolTip() for view in panel.findChildren(QWidget)}
    explained = set(FIGURES) - {"not shown", "positions"}
    assert {as_tip(FIGURES[key]) for key in explained} <= shown
    kinds = [kind for _, kind in SAMPLE]
    assert kinds == ["accepted", "accepted", "rejected", "discarded", "correction"]


@given(text=st.text(" \t\n\r\x00\u200d\u202e\u2066\ud800xé😀"))
def test_a_token_is_one_line_without_controls(text):
    shown = marked(text)
    assert shown
    assert len(shown.splitlines()) == 1
    assert not {unicodedata.category(letter) for letter in shown} & {"Cc", "Cs", "Cf"}
    table = {" the": "·the", "\n\n": "⏎⏎", "\tx\r\n": "⇥x␍⏎", "a\u2028b": "a⏎b", "": "∅"}
    assert {text: marked(text) for text in table} == table
