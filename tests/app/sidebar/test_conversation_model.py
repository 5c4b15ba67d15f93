"""The lists behind the sidebar: sections, titles, and no more telling than there is to tell."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt

from app.conversations.records import Excerpt, Hit
from app.sidebar.conversation_model import HIT, SECTION, SHOWN, ConversationModel, HitModel
from tests.support.app.conversation_samples import NOW, SEVERAL, conversation

ACCESSIBLE = Qt.ItemDataRole.AccessibleTextRole


@pytest.fixture
def model(qapp):
    model = ConversationModel()
    model.set_conversations(SEVERAL, NOW)
    return model


def test_each_section_has_one_heading(model):
    headings = [model.data(model.index(row), SECTION) for row in range(5)]
    assert headings == ["Pinned", "Today", "", "Past week", "Older"]


@given(days=st.floats(0, 1000))
def test_sections_follow_the_days(qapp, days):
    model = ConversationModel()
    model.set_conversations((conversation(1, "x", days=days),), NOW)
    order = ["Today", "Yesterday", "Past week", "Past month", "Older"]
    place = order.index(model.data(model.index(0), SECTION))
    assert [0, 0, 1, 7, 30][place] <= days + 1
    assert days <= [1, 2, 8, 31, 1000][place]


def test_a_screen_reader_gets_what_is_drawn(model):
    model.set_shown(1)
    heard = [model.data(model.index(row, 0), ACCESSIBLE) for row in range(5)]
    assert heard == [
        "Pinned long ago, pinned",
        "Boats, shown",
        "Parsers",
        "Soup",
        "New conversation",
    ]


def test_hostile_titles_are_one_harmless_line(qapp):
    model = ConversationModel()
    model.set_conversations((conversation(1, "a\n\u202eb\x1b <b>c"),), NOW)
    assert model.data(model.index(0)) == "a b <b>c"


def test_a_new_title_is_shown_and_emitted(model):
    told = []
    model.renamed.connect(lambda *renamed: told.append(renamed))
    index = model.index_of(2)
    assert model.setData(index, "  Zig \n parsers ")
    assert model.data(index) == "Zig parsers"
    assert told == [(2, "Zig parsers")]


@pytest.mark.parametrize("title", ["", "  \n", "Parsers"])
def test_no_title_and_the_same_title_change_nothing(model, title):
    told = []
    model.renamed.connect(told.append)
    assert not model.setData(model.index_of(2), title)
    assert model.data(model.index_of(2)) == "Parsers"
    assert told == []


def test_the_same_list_again_resets_nothing(model):
    resets = []
    model.modelReset.connect(lambda: resets.append(1))
    model.set_conversations(SEVERAL, NOW)
    assert resets == []
    model.set_conversations(SEVERAL[::-1], NOW)
    assert resets == [1]
    model.set_conversations(SEVERAL[::-1], NOW + timedelta(days=5))  # the headings change
    assert resets == [1, 1]


def test_the_shown_conversation_is_marked_in_any_place(model):
    model.set_shown(3)
    model.set_conversations(SEVERAL[2:], NOW)
    assert [model.data(model.index(row), SHOWN) for row in range(3)] == [False, True, False]
    model.set_shown(99)
    assert not any(model.data(model.index(row), SHOWN) for row in range(3))
    assert not model.index_of(99).isValid()


def test_a_screen_reader_gets_hits_in_one_line(qapp):
    model = HitModel()
    message = Hit(1, 5, "Boats", (Excerpt("the\n", False), Excerpt("sea", True)))
    model.set_hits((message, Hit(1, None, "Boats", (Excerpt("Boats", True),))))
    assert [model.data(model.index(row, 0), ACCESSIBLE) for row in (0, 1)] == [
        "Boats: the sea",
        "Boats",
    ]
    assert model.data(model.index(0, 0), HIT) == message
