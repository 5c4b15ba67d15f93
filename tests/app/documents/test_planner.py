"""Messages are planned in a thread, which cuts each document of a conversation once."""

import pytest

from app.documents.planner import MessageToPlan, Planner
from engine.documents.passages import PassageIndex
from tests.support.app.attached import text_document

LONG = text_document("long.txt", "\n\n".join(f"Clause {n} is about {n * 7}." for n in range(900)))
SHORT = text_document("short.txt", "The roof leaks.")


@pytest.fixture
def planner():
    planner = Planner()
    yield planner
    planner.close()
    planner.close()  # which does no harm


@pytest.fixture
def cut(monkeypatch):
    """The names of the documents that are cut, each time."""
    names = []
    passages = PassageIndex.passages

    def spy(self, number, document):
        if number not in self._passages:
            names.append(document.name)
        return passages(self, number, document)

    monkeypatch.setattr(PassageIndex, "passages", spy)
    return names


def message(question, *documents, conversation=1, room=900):
    return MessageToPlan(
        conversation,
        question,
        lambda: dict(enumerate(documents, start=1)),
        count=lambda text: len(text) // 4,
        room=lambda count: room,
    )


def test_a_document_is_cut_once_while_a_person_types_until_it_is_gone(planner, cut):
    for question in ("What", "What does", "What does clause 77 say?"):
        planner.plan(message(question, LONG)).result()
    assert cut == ["long.txt"]
    planner.plan(message("What?", LONG, conversation=2)).result()
    assert cut == ["long.txt"] * 2
    planner.plan(message("What?", LONG, LONG, room=2000)).result()
    planner.plan(message("What?", LONG, room=2000)).result()
    assert cut == ["long.txt"] * 5
