"""The lists behind the sidebar: sections, titles, and no more telling than there is to tell."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextDocument

from app.conversations.records import Excerpt, Hit
from app.sidebar.conversation_model import HIT, SECTION, ConversationModel, HitModel
from tests.support.app.conversation_samples import NOW, SEVERAL, conversation

ACCESSIBLE = Qt.ItemDataRole.AccessibleTextRole


@pytest.fixture
def model(qapp):
    model = ConversationModel()
    model.set_conversations(SEVERAL, NOW)
    return model


@given(days=st.floats(0, 1000))
def test_sections_follow_the_days(qapp, days):
    model = ConversationModel()
    model.set_conversations((conversation(1, "x", days=days),), NOW)
    order = ["Today", "Yesterday", "Past week", "Past month", "Older"]
    place = order.index(model.data(model.index(0, 0), SECTION))
    assert [0, 0, 1, 7, 30][place] <= days + 1
    assert days <= [1, 2, 8, 31, 1000][place]


def test_a_screen_reader_gets_what_is_drawn(model):
    hostile = conversation(5, "a\n\u202eb\x1b <b>c", days=401)
    model.set_conversations((*SEVERAL, hostile), NOW)
    model.set_shown(1)
    assert [(model.data(model.index(row, 0), SECTION), model.data(model.index(row, 0), ACCESSIBLE))
            for row in range(6)] == [
        ("Pinned", "Pinned long ago, pinned"),
        ("Today", "Boats, shown"),
        ("", "Parsers"),
        ("Past week", "Soup"),
        ("Older", "New conversation"),
        ("", "a b <b>c"),
    ]  # fmt: skip


def test_a_tooltip_has_a_title_that_looks_like_html(model):
    model.set_conversations((conversation(5, "How is a <div> centred?"),), NOW)
    shown = QTextDocument()
    shown.setHtml(model.data(model.index(0, 0), Qt.ItemDataRole.ToolTipRole))
    assert shown.toPlainText().splitlines()[0] == "How is a <div> centred?"


def test_a_new_title_is_shown_and_emitted_unless_it_is_empty_or_the_same(model):
    told = []
    model.renamed.connect(lambda *renamed: told.append(renamed))
    index = model.index_of(2)
    for title in ("", "  \n", "Parsers"):
        assert not model.setData(index, title)
    assert told == []
    assert model.setData(index, "  Zig \n parsers ")
    assert model.data(index) == "Zig parsers"
    assert told == [(2, "Zig parsers")]


def test_the_same_list_again_resets_nothing(model):
    resets = []
    model.modelReset.connect(lambda: resets.append(1))
    model.set_conversations(SEVERAL, NOW)
    assert resets == []
    model.set_conversations(SEVERAL[::-1], NOW)
    assert resets == [1]
    model.set_conversations(SEVERAL[::-1], NOW + timedelta(days=5))  # the headings change
    assert resets == [1, 1]


def test_a_screen_reader_gets_hits_in_one_line(qapp):
    model = HitModel()
    message = Hit(1, 5, "Boats", (Excerpt("the\n", False), Excerpt("sea", True)))
    model.set_hits((message, Hit(1, None, "Boats", (Excerpt("Boats", True),))))
    assert [model.data(model.index(row, 0), ACCESSIBLE) for row in (0, 1)] == [
        "Boats: the sea",
        "Boats",
    ]
    assert model.data(model.index(0, 0), HIT) == message
