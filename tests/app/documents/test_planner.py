"""Messages are planned in a thread, which cuts each document of a conversation once."""

import pytest

from app.documents.planner import MessageToPlan, Planner
from engine.documents.passages import PassageIndex
from models.errors import Problem
from tests.support.app.attached import text_document

LONG = text_document("long.txt", "\n\n".join(f"Clause {n} is about {n * 7}." for n in range(900)))
SHORT = text_document("short.txt", "The roof leaks.")


@pytest.fixture
def planner():
    planner = Planner()
    yield planner
    planner.close()


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


def test_what_fits_is_whole_and_of_the_rest_there_are_passages(planner):
    planned = planner.plan(message("What does clause 77 say?", SHORT, LONG)).result()
    short, long = planned.sent.documents
    assert (short.name, short.passages) == ("short.txt", 0)
    assert 0 < long.passages < long.among
    assert planned.sent.question == "What does clause 77 say?"


def test_a_document_is_cut_once_while_a_person_types(planner, cut):
    for question in ("What", "What does", "What does clause 77 say?"):
        planner.plan(message(question, LONG)).result()
    assert cut == ["long.txt"]
    planner.plan(message("What?", LONG, conversation=2)).result()
    assert cut == ["long.txt"] * 2


def test_what_is_gone_is_forgotten(planner, cut):
    planner.plan(message("What?", LONG, LONG, room=2000)).result()
    planner.plan(message("What?", LONG, room=2000)).result()
    assert cut == ["long.txt"] * 3


def test_without_room_it_is_a_problem(planner):
    with pytest.raises(Problem) as caught:
        planner.plan(message("What?", SHORT, room=1)).result()
    assert caught.value.remedy


def test_closing_twice_does_no_harm():
    planner = Planner()
    planner.plan(message("What?", SHORT)).result()
    planner.close()
    planner.close()
