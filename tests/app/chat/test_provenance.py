"""Provenance: every token by its line and colour over rendered text, rejected ones among them."""

import math
import re
from dataclasses import replace
from itertools import accumulate
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QToolButton, QToolTip, QWidget

from app.chat.provenance import Legend, Provenance, describe
from app.markdown.copying import written_text
from app.markdown.document import REASONING
from app.markdown.formats import ROLE, Formats
from app.markdown.formulas import FormulaLayouts
from app.markdown.page import OBJECT
from app.markdown.streaming import StreamingMarkdown
from app.markdown.view import TextView
from app.rounds.trace import Piece, PieceKind
from app.theme.palette import DARK, LIGHT, contrast
from engine.conversation.rounds import Token
from tests.support.app.kept import kept
from tests.support.app.laid_over import laid_over
from tests.support.app.markdown_texts import cut_places, split
from tests.support.mostly_slow import examples

Underline = QTextCharFormat.UnderlineStyle


def piece(text, kind, *, position=0, round=1):
    drafted = kind in ("accepted", "rejected", "discarded")
    return Piece(
        text,
        kind,
        round,
        position,
        p=0.75,
        q=0.5 if drafted else None,
        chance=1.0 if drafted else None,
        drafter="lookup" if drafted else "",
    )


TABLE = "|a|b|\n|-|-|\n|one|two|\n\n```python\nx = one\n```\n\n**bo**ld\n"
PIECES = (
    piece("|a|b|\n|-|-|\n|", "plain"),
    piece("one", "accepted", position=1),
    piece("|three", "rejected", position=2),
    piece("|", "correction"),
    piece("two", "bonus", round=2),
    piece("|\n\n```python\nx", "plain"),
    piece(" =", "accepted", position=1),
    piece(" two", "rejected", position=2, round=3),
    piece("\n", "discarded", position=3, round=3),
    piece(" one", "correction"),
    piece("\n```\n\n**b", "plain"),
    piece("o**l", "accepted", position=1),
    piece("d\n", "bonus"),
)


def settle(view, made):
    """Write all that is waiting, and mark its tokens."""
    view.text.settle()
    made.refresh()


def overlaid(view, pieces=PIECES):
    made = Provenance(view, LIGHT)
    made.set_pieces(pieces)
    made.set_shown(True)
    settle(view, made)
    return made


def laid(view):
    """The text of each stretch that is laid over, its line and its colour."""
    return [
        (text, look.underlineStyle(), look.foreground().color().name())
        for text, look in laid_over(view.document())
    ]


def test_tokens_of_a_table_and_of_code_are_told_apart_where_they_stand_or_would_have_stood(show):
    view = show(TABLE)
    overlaid(view)
    found = laid(view)
    assert ("one", Underline.SingleUnderline, LIGHT.accepted) in found
    assert ("two", Underline.DotLine, LIGHT.bonus) in found
    assert ("=", Underline.SingleUnderline, LIGHT.accepted) in found
    assert ("one", Underline.DashUnderline, LIGHT.correction) in found
    # A token over the end of an emphasis is in one stretch: the marks are not shown.
    assert ("ol", Underline.SingleUnderline, LIGHT.accepted) in found
    assert view.document().find("two").currentTable() is not None
    for text, kind in (("|three", "rejected"), ("\u21b5", "discarded")):
        struck = view.document().find(text)
        assert struck.charFormat().fontStrikeOut()
        assert struck.charFormat().property(ROLE) == kind
    assert view.document().find("|three").currentTable() is not None
    lines = [line.replace("\u200a", "") for line in view.toPlainText().split("\n")]
    assert "one|three" in lines
    assert "x = two\u21b5 one" in lines
    # Copies are without those that were not written.
    (panel,) = view.text.panels()
    assert view.text.code(panel) == "x = one"
    view.selectAll()
    assert view.createMimeDataFromSelection().text() == "a\tb\none\ttwo\nx = one\nbold"


def test_each_token_has_a_tip_while_it_is_shown_and_afterwards_the_text_is_as_it_was(show):
    view = show(TABLE)
    document, before = view.document(), view.toHtml()
    made = overlaid(view)
    assert view.toHtml() != before

    def tip(text):
        return made.tip(document.find(text).selectionStart())

    assert tip("two") == describe(PIECES[4])
    assert tip("three") == describe(PIECES[2])
    assert tip("=") == describe(PIECES[6])
    assert made.tip(document.find("two").selectionEnd()) != describe(PIECES[4])
    made.set_shown(False)
    assert tip("two") == ""
    settle(view, made)
    assert view.toHtml() == before
    assert laid(view) == []


def test_what_is_said_of_a_token():
    tried = tuple(Token(n, f" no{n}", "rejected", q=0.25, p=0.125) for n in range(6))
    pieces = (
        piece(" the\n", "rejected", position=2, round=3),
        piece(" cat", "discarded", position=3, round=3),
        replace(PIECES[1], confidence=0.25),
        piece("a", "plain"),
        piece("{", "forced"),
        replace(PIECES[3], alternatives=tried),
        replace(PIECES[3], alternatives=tried[:4]),
        Piece("imported", "plain", 0, 0, None, None, None, ""),
    )
    found = "\n\n".join(map(describe, pieces)) + "\n"
    assert found == kept("tokens_described.txt", found)


def test_tips_are_plain_text(show, monkeypatch):
    shown = []
    monkeypatch.setattr(QToolTip, "showText", lambda place, text, widget: shown.append(text))
    view = show("<b>x</b>")
    overlaid(view, pieces=(piece("<b>x</b>", "plain"),))
    point = view.cursorRect(QTextCursor(view.document())).center() + QPoint(3, 0)
    view.viewportEvent(QHelpEvent(QEvent.Type.ToolTip, point, view.mapToGlobal(point)))
    assert "&lt;b&gt;x" in shown[0]
    assert "<b>" not in shown[0]


kinds = st.sampled_from(get_args(PieceKind))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(30))
@given(drawn=st.lists(kinds, min_size=1, max_size=40), cuts=cut_places)
def test_live_as_at_once(qtbot, formats, drawn, cuts):
    words = re.findall(r"\s?\w+|\W", TABLE)
    pieces, rest = [], list(words)
    for kind in drawn:
        pieces.append(
            piece(" no" if kind in ("rejected", "discarded") or not rest else rest.pop(0), kind)
        )
    text = "".join(p.text for p in pieces if p.written)
    window = QWidget()
    qtbot.addWidget(window)
    live, whole = TextView(formats, StreamingMarkdown()), TextView(formats, StreamingMarkdown())
    for view in (live, whole):
        view.setParent(window)
        view.resize(400, 300)
    window.resize(500, 500)
    window.show()
    made, written = overlaid(live, ()), ""
    for part in split(text, cuts):
        written += part
        starts = accumulate((len(p.text) * p.written for p in pieces), initial=0)
        # A verdict comes before its text.
        count = sum(start <= len(written) for start in starts)
        made.set_pieces(tuple(pieces[:count]))
        live.text.append(part)
        settle(live, made)
    made.set_pieces(tuple(pieces))
    settle(live, made)
    whole.text.append(text)
    whole.text.settle()
    overlaid(whole, pieces=tuple(pieces))
    assert live.toHtml() == whole.toHtml()
    assert laid(live) == laid(whole)
    bare = written_text(whole.document(), 0, whole.document().characterCount())
    assert " no" not in bare or any(p.text == " no" and p.written for p in pieces)


def test_a_token_at_the_end_of_a_frame_stays_as_long(show):
    view = show("")
    made = overlaid(view, tuple(piece(text, "accepted") for text in ("a", " b", "\n\n")))
    view.text.append("a b\n\n" + "x " * 900 + "\n\n" + "y " * 900 + "\n\n")
    while not view.toPlainText():
        view.text.step()
    assert view.toPlainText() == "a b"
    made.refresh()
    settle(view, made)
    assert [text for text, _, _ in laid(view)] == ["a", "b"]


def test_a_long_text_is_only_laid_over_where_it_is_seen(show):
    view = show(("word " * 100 + "\n\n") * 60)
    pieces = tuple(piece(w, "accepted") for w in re.findall(r"\w+|\s+", view.text.given))
    made = overlaid(view, pieces=pieces)
    assert 0 < len(laid(view)) < len(pieces) // 2
    made.set_colours(DARK)
    settle(view, made)
    assert {colour for _, _, colour in laid(view)} == {DARK.accepted}


def test_code_keeps_its_colours_under_the_tokens(show):
    view = show("```python\nx = 1  # why\n")
    code = view.document().lastBlock().layout()
    made = overlaid(view, (piece("```python\nx = 1  # why\n", "accepted"),))
    assert len(laid(view)) == 2  # the label's text and the code's
    view.text.finish()
    settle(view, made)
    assert len(code.formats()) > len(laid(view)) == 2
    made.set_shown(False)
    view.text.settle()
    assert laid(view) == []
    assert code.formats()


def test_the_legend_explains_what_the_answer_has_and_hides_what_is_not_in_it(show, qtbot):
    view = show(TABLE)
    made = overlaid(view)
    asked = []
    legend = Legend(made, explain=lambda: asked.append(True))
    qtbot.addWidget(legend)
    assert set(legend.words) == set(get_args(PieceKind))
    for kind, word in legend.words.items():
        assert str([piece.kind for piece in PIECES].count(kind)) in word.accessibleName()
        assert word.isVisibleTo(legend) == (kind != "forced"), "only a grammar makes such tokens"
    legend.findChildren(QToolButton)[0].click()
    assert asked == [True]
    legend.words["rejected"].click()
    view.text.settle()
    assert ("three" in view.toPlainText(), "\u21b5" in view.toPlainText()) == (False, True)
    legend.words["discarded"].click()
    legend.words["rejected"].click()
    view.text.settle()
    assert ("three" in view.toPlainText(), "\u21b5" in view.toPlainText()) == (True, False)
    assert not legend.words["accepted"].isCheckable()
    view = show("one two")  # tokens that would flood the answer are hidden at first
    flood = [piece(f" no{n}", "discarded", position=n) for n in range(20)]
    made = overlaid(view, pieces=(piece("one", "plain"), *flood, piece(" two", "plain")))
    assert made.hidden == {"rejected", "discarded"}
    assert view.toPlainText() == "one two"
    made.hide_kind("discarded", False)
    view.text.settle()
    assert "no7" in view.toPlainText()


def test_new_tokens_are_coloured_and_fade_into_the_text(show):
    now = [100.0]
    view = show(TABLE)
    made = Provenance(view, LIGHT, clock=lambda: now[0])
    made.set_pieces(PIECES[:1])  # from before
    made.fades_after = 2.0

    def after(seconds, pieces=PIECES):
        now[0] += seconds
        made.set_pieces(pieces)
        made.refresh()
        return {text: colour for text, _, colour in laid(view)}

    first = after(0.0, PIECES[:5])
    assert ("b" in first, first["one"]) == (False, LIGHT.accepted)
    assert "three" not in view.toPlainText(), "the draft ahead shows what is rejected"
    colours = after(1.0)
    assert colours["ol"] == LIGHT.accepted
    assert colours["two"] not in (LIGHT.bonus, LIGHT.text), "on its way"
    assert contrast(colours["two"], LIGHT.paper) >= 4.5
    left = after(1.5)
    assert {"=", "ol", "d"} <= left.keys()
    assert "two" not in left
    assert after(1.0) == {}
    made.fades_after = math.inf
    made.set_pieces(())
    assert after(1_000.0)["two"] == LIGHT.bonus, "colours can stay"


def test_tokens_are_where_they_belong_when_reasoning_is_unfolded(show):
    pieces = (
        piece("<think>", "plain"),
        piece("so", "accepted", position=1),
        piece(" wrong", "rejected", position=2),
        piece(" it is", "correction"),
        piece("</think>", "plain"),
        piece("The", "plain"),
        piece(" answer", "accepted", position=1),
        piece(" is", "bonus"),
        piece(".\n\nMore", "plain"),
    )
    view = show("".join(p.text for p in pieces if p.written))
    made = overlaid(view, pieces=pieces)
    colours = {"accepted": LIGHT.accepted, "correction": LIGHT.correction, "bonus": LIGHT.bonus}

    def told(kind):
        return [text.strip() for text, _, colour in laid(view) if colour == colours[kind]]

    assert (told("accepted"), told("bonus")) == (["answer"], ["is"])
    view.text.fold(REASONING)
    settle(view, made)
    assert (told("accepted"), told("bonus")) == (["so", "answer"], ["is"])
    assert told("correction") == ["it is"]
    assert "wrong" in view.toPlainText()


@pytest.mark.qt_log_ignore("propagateSizeHints")
def test_the_tokens_of_a_formula_are_told_apart(formats, qtbot):
    layouts = FormulaLayouts()
    view = TextView(Formats(formats.font, LIGHT, formulas=layouts), StreamingMarkdown())
    qtbot.addWidget(view)
    pieces = (piece("so ", "plain"), piece("$x", "accepted"), piece("+y$", "correction"))
    view.text.append("".join(p.text for p in pieces))
    view.text.settle()
    assert view.toPlainText() == f"so {OBJECT}"
    view.show()
    made = overlaid(view, pieces=pieces)
    assert [text for text, _, _ in laid(view)] == ["so ", "$x", "+y$"]
    made.set_shown(False)
    settle(view, made)
    assert (view.toPlainText(), laid(view)) == (f"so {OBJECT}", [])
    layouts.close()
