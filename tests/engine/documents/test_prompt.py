"""What a model is given of documents, and where each character comes from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.documents import Document, Section
from engine.documents.prompt import (
    Attached,
    Passage,
    Range,
    Sent,
    SentDocument,
    sent_from_json,
    write_message,
)

PAGES = Document(
    "plan.pdf",
    "pdf",
    "00",
    (Section("page", 1, "The first page."), Section("page", 2, "The second page.")),
)


def test_a_part_from_the_middle_of_a_table_has_its_header():
    table = Document("a.csv", "csv", "00", (Section("lines", 1, "name,price\nbolt,2\nnut,3"),))
    last = (Passage(18, 23),)
    sent = write_message("Why?", [Attached(1, table, last, among=2)])
    assert "[line 3]\nname,price\nnut,3\n" in sent.text
    assert [(part.offset, part.length) for part in sent.documents[0].ranges] == [(18, 5)]
    whole = write_message("Why?", [Attached(1, table)])
    assert whole.text.count("name,price") == 1


@st.composite
def attached(draw):
    texts = draw(st.lists(st.text("ab \n", min_size=1, max_size=8), min_size=1, max_size=4))
    sections = tuple(Section("page", i, text) for i, text in enumerate(texts, start=1))
    document = Document("a.pdf", "pdf", "00", sections)
    if draw(st.booleans()):
        return Attached(draw(st.integers(1, 9)), document)
    length = len(document.text)
    edges = sorted(draw(st.sets(st.integers(0, length), max_size=6)))
    passages = tuple(map(Passage, edges[::2], edges[1::2]))
    return Attached(draw(st.integers(1, 9)), document, passages, among=9)


@given(st.lists(attached(), max_size=3, unique_by=lambda each: each.number), st.text(max_size=5))
def test_every_character_of_a_document_is_known_as_its(given, asked):
    sent = write_message(asked, given)
    documents = {each.number: each.document for each in given}
    for document in sent.documents:
        for part in document.ranges:
            for i in range(part.length):
                source = sent.source(part.start + i)
                assert source == (document.number, part.offset + i)
                assert documents[document.number].text[source[1]] == sent.text[part.start + i]
    assert sent.source(len(sent.text) - len(asked)) is None


def test_how_much_there_is_of_a_document_is_told_in_words():
    part = Range(0, 0, 9)
    for sent, words, whole, deleted in (
        (SentDocument(1, "a", (part,)), "whole", True, False),
        (SentDocument(1, "a", (part,), passages=9, among=140), "9 passages of 140", False, False),
        (SentDocument(1, "a", (), among=3), "notes on its parts", False, False),
        (SentDocument(1, "a", ()), "deleted", False, True),
    ):
        assert (sent.in_words, sent.whole, sent.deleted) == (words, whole, deleted)


def test_another_question_keeps_all_before_it():
    attached = [Attached(1, PAGES), Attached(2, PAGES)]
    sent = write_message("Who?", attached)
    assert sent.question == "Who?"
    assert sent.asked("Where?") == write_message("Where?", attached)
    assert sent.given(1) + sent.given(2) + "Who?" == sent.text


def test_a_deleted_document_leaves_the_places_of_the_others():
    sent = write_message("Who?", [Attached(1, PAGES), Attached(2, PAGES)])
    rest = sent.without(1)
    assert sent_from_json(rest.to_json()) == rest
    assert rest.given(2) == sent.given(2)
    assert rest.given(1).startswith("[")
    assert rest.question == "Who?"
    for place in range(len(rest.text)):
        source = rest.source(place)
        assert source is None or source[0] == 2
        if source:
            assert PAGES.text[source[1]] == rest.text[place]


def test_places_outside_of_the_text_are_refused():
    for start, end in ((5, 2), (-1, 2), (0, 99)):
        wrong = Sent("text", (SentDocument(1, "a", (), start=start, end=end),))
        with pytest.raises(ValueError, match="document 1"):
            sent_from_json(wrong.to_json())


def test_a_text_that_was_cut_to_have_places_stands_as_it_was():
    lines = [f"line {i}" if i % 7 else "" for i in range(1, 40)]
    sections = tuple(
        Section("lines", start + 1, "\n".join(lines[start : start + 9]).rstrip(), "a.py")
        for start in (0, 10, 20, 30)
    )
    source = Document("src", "folder", "00", (*sections, Section("lines", 1, "line 1", "b.py")))
    sent = write_message("Why?", [Attached(1, source)])
    assert sent.text.count("line 1]") == 2
    assert "line 11]" not in sent.text
    written = sent.text.split("\n")
    assert written.index("line 39") - written.index("line 1") == 38


def test_passages_say_where_they_begin_and_are_joined():
    text = Section("lines", 11, "one\ntwo\nthree four\nfive six")
    document = Document("a.txt", "text", "00", (text,))
    passages = (Passage(4, 7), Passage(8, 13), Passage(19, 27))
    sent = write_message("Why?", [Attached(1, document, passages, among=9)])
    assert "\n[line 12]\ntwo\nthree\n\n[line 14]\nfive six\n" in sent.text
    (part,) = sent.documents
    assert (part.number, part.name, part.passages, part.among) == (1, "a.txt", 3, 9)
    assert sent.text.endswith("\n\nWhy?")
