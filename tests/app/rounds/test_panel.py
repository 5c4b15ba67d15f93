"""The panel says what the stats say, calmly, in words and charts that can be read."""

import unicodedata
from dataclasses import replace
from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from app.rounds import figures
from app.rounds.charts import PositionChart, TimeBar
from app.rounds.explained import (
    FIGURE_NAMES,
    FIGURES,
    KINDS,
    RoundsExplained,
    as_tip,
)
from app.rounds.figures import PositionAcceptance, TimeShare
from app.rounds.marks import marked
from app.rounds.panel import FigureView, RoundsPanel
from app.rounds.trace import PieceKind
from engine.conversation.rounds import judged
from engine.conversation.stats import tally
from engine.draft_length import Reason, Why
from engine.events import Prefill, Stats
from tests.support.app.kept import kept
from tests.support.app.traces import forced_round, made_round, recorded, traces, tree_round
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS
from tests.support.app.window_use import figure

BY_HAND = Stats(
    prompt_tokens=1204,
    reused_tokens=1100,
    prefill_seconds=0.25,
    rounds=10,
    proposed=20,
    accepted=14,
    rejected=2,
    discarded=4,
    corrections=2,
    bonuses=3,
    plain=5,
    plain_seconds=1.0,
    draft_seconds=0.5,
    verify_seconds=1.0,
    decode_seconds=2.0,
    proposed_by_position=(5, 5, 5, 5),
    accepted_by_position=(5, 4, 3),
)


def said(stats, last=None, *, ended=True):
    """A line for each figure and chart."""
    shown = {
        "speed": figures.speed(stats),
        "plain": figures.against_plain(stats, ended=ended),
        "guessed": figures.guessed(stats),
        "length": figures.acceptance_length(stats),
        "draft": figures.draft_length(last),
        "cache": figures.cache_reuse(stats),
    }
    for name, each in shown.items():
        yield f"{name}: {each.value}: {each.remark!r}"
    rates = (f"{n.position}: {n.accepted} of {n.proposed}" for n in figures.positions(stats))
    yield f"positions: {', '.join(rates)}"
    shares = (f"{part.name} {part.share:.1%}" for part in figures.time_split(stats))
    yield f"time: {', '.join(shares)}"


def cases():
    yield "nothing", said(Stats())
    yield "a prompt that is being read", said(tally([Prefill("", 1920, 5447, 128, 26.0)]))
    yield "by hand", said(BY_HAND)
    long = {"proposed_by_position": (5,) * 40, "accepted_by_position": (4,) * 30}
    yield "40 positions", said(replace(BY_HAND, **long))
    for name in ("lookup", "plain"):
        events = recorded(f"stories_{name}.jsonl")
        yield name, said(tally(events), judged(events)[0])
    events = recorded("stories_early_exit.jsonl")
    early, first = tally(events), judged(events)[0]
    yield "of an earlier version", said(early, first)
    yield "not at its end", said(early, first, ended=False)
    passes = (0.9 * early.verify_seconds / early.rounds,) * 8
    yield "measured", said(replace(early, reference_seconds=passes))
    yield "measured while the Mac was busier", said(replace(early, reference_seconds=(60.0,) * 8))
    reason = str(Reason(Why.BEST_GAIN, drafter="early-exit", length=4, gain=1.5))
    named = replace(first, verdict=replace(first.verdict, reason=reason))
    yield "a reason that names the drafter", said(Stats(), named)
    tokens = ((" a", -1, 0.5), (" the", -1, 0.3), (" cat", 1, 0.5))
    trees = [tree_round(1, *tokens, path=(1, 2))[1], tree_round(2, *tokens)[1]]
    yield "a tree", said(tally(tree.verdict for tree in trees), trees[0])
    drafted, forced = made_round(1, " one", accepted=1)[1], forced_round(2, "{", "}")
    yield "a draft", said(tally([drafted.verdict]), drafted)
    yield "forced tokens, without a pass", said(tally([drafted.verdict, forced.verdict]), forced)


def test_the_figures_say_what_the_stats_say():
    found = "".join("\n    ".join((name, *lines)) + "\n" for name, lines in cases())
    assert found == kept("figures.txt", found)


@given(events=traces())
def test_every_trace_has_figures(events):
    stats = tally(events)
    for column in figures.positions(stats):
        assert 0.0 <= column.rate <= 1.0
    parts = figures.time_split(stats)
    assert sum(part.share for part in parts) == pytest.approx(1.0 if stats.decode_seconds else 0.0)
    for each in (figures.speed(stats), figures.cache_reuse(stats)):
        assert each.value
        assert each.remark.count("\n") <= 1


def test_seconds_and_counts():
    table = {
        0.0: "0 ms",
        0.00004: "0 ms",
        0.00234: "2.3 ms",
        0.0099: "9.9 ms",
        0.00999: "10 ms",
        0.0994: "99 ms",
        0.0999: "0.10 s",
        1.0: "1.00 s",
        9.999: "10.0 s",
        99.96: "1 min 40 s",
        3723.0: "62 min 03 s",
    }
    assert {spent: figures.seconds(spent) for spent in table} == table
    counts = ((1, "token"), (1200, "token"), (2, "pass"))
    assert [figures.count(*of) for of in counts] == ["1 token", "1,200 tokens", "2 passes"]


@pytest.fixture
def panel(qtbot):
    panel = RoundsPanel()
    qtbot.addWidget(panel)
    panel.resize(300, 600)
    return panel


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
    events = recorded("stories_lookup.jsonl")
    panel.show_stats(tally(events), judged(events)[-1])
    assert figure(panel, "draft").value == str(len(judged(events)[-1].drafted))
    panel.show()
    views = panel.findChildren(FigureView)
    assert [v.key for v in views if v.isVisible()] == ["plain", "length", "rate"]
    qtbot.mouseClick(panel.more, Qt.MouseButton.LeftButton)
    assert all(view.isVisible() for view in views)
    assert panel.findChild(PositionChart).isVisible()


def test_charts_are_said_in_words_and_any_number_of_positions_fits(qtbot):
    chart = PositionChart()
    qtbot.addWidget(chart)
    assert chart.accessibleDescription() == "Nothing was drafted."
    chart.show_positions((PositionAcceptance(1, 100, 90), PositionAcceptance(2, 8, 0)))
    chart.resize(chart.sizeHint())
    said = "position 1: 90% of 100, position 2: 0% of 8"
    assert chart.accessibleDescription() == said
    tips = [chart.tip_at(x).partition(":")[0] for x in (5, 50, 200)]
    assert tips == ["Position 1", "Position 2", ""]
    for number, width in product((0, 1, 16), (1, 600)):
        places = range(1, number + 1)
        chart.show_positions(tuple(PositionAcceptance(place, 10 * place, 10) for place in places))
        chart.resize(width, chart.sizeHint().height())
        assert not chart.grab().isNull()
    bar = TimeBar()
    qtbot.addWidget(bar)
    assert bar.accessibleDescription() == "Nothing was measured yet."
    bar.show_shares((TimeShare("drafting", 0.5, 0.25), TimeShare("verifying", 1.5, 0.75)))
    assert bar.accessibleDescription() == "drafting 0.50 s, 25%; verifying 1.50 s, 75%"


def test_the_dialog_explains_every_kind_and_figure(qtbot, panel):
    dialog = RoundsExplained()
    qtbot.addWidget(dialog)
    assert set(KINDS) == set(get_args(PieceKind))
    labels = dialog.findChildren(QLabel)
    words = {label.text() for label in labels}
    assert {f"{kind.capitalize()}. {line}" for kind, line in KINDS.items()} <= words
    assert {*FIGURES.values()} <= words
    assert {label.textFormat().name for label in labels} == {"PlainText"}
    assert set(FIGURES) == set(FIGURE_NAMES)
    shown = {view.toolTip() for view in panel.findChildren(QWidget)}
    explained = set(FIGURES) - {"not shown", "positions"}
    assert {as_tip(FIGURES[key]) for key in explained} <= shown


@given(text=st.text(" \t\n\r\x00\u200d\u202e\u2066\ud800xé😀"))
def test_a_token_is_one_line_without_controls(text):
    shown = marked(text)
    assert shown
    assert len(shown.splitlines()) == 1
    assert not {unicodedata.category(letter) for letter in shown} & {"Cc", "Cs", "Cf"}
    table = {" the": "·the", "\n\n": "⏎⏎", "\tx\r\n": "⇥x␍⏎", "a\u2028b": "a⏎b", "": "∅"}
    assert {text: marked(text) for text in table} == table
