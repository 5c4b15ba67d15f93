"""What a message is given of its documents: whole or in passages, never twice, and in good time."""

from dataclasses import replace
from functools import partial
from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.documents import Document, Section
from engine.documents.passages import PassageIndex
from engine.documents.plan import MOST_PASSAGE_TOKENS, Plan, plan
from engine.documents.prompt import (
    Attached,
    Passage,
    Range,
    Sent,
    SentDocument,
    sent_from_json,
    write_message,
)
from engine.documents.slow import SLOW_SECONDS, is_slow, room_in_time, to_read
from models.errors import Problem

SUBJECTS = ["apples", "bridges", "candles", "dragons", "engines", "forests", "guitars", "hammers"]


def count(text):
    """Tokens of words and signs."""
    return sum(1 for part in text.replace("\n", " \n ").split(" ") if part)


def document(name, subjects=SUBJECTS, words=200):
    """A page about each subject."""
    texts = [f"About {subject}. " + "filler " * words for subject in subjects]
    sections = tuple(Section("page", i, text.strip()) for i, text in enumerate(texts, start=1))
    return Document(name, "pdf", name, sections)


LONG, SHORT = document("long.pdf"), document("short.pdf", ["zebras"], words=20)
BOTH = {1: LONG, 2: SHORT}


@pytest.fixture
def ask():
    with PassageIndex() as index:
        yield partial(plan, index=index, count=count)


def pages(one, number=1, documents=BOTH):
    """The pages of a document that a message has, from 1."""
    return [
        documents[number].section_at(part.offset) + 1
        for sent in one.sent.documents
        if sent.number == number
        for part in sent.ranges
    ]


def test_documents_that_fit_are_given_whole_and_of_others_what_was_asked_for(ask):
    one = ask("Which apples?", BOTH, room=2000)
    assert [(sent.name, sent.passages) for sent in one.sent.documents] == [
        ("long.pdf", 0),
        ("short.pdf", 0),
    ]
    assert pages(one) == list(range(1, 9))
    assert sum(one.tokens) == count(one.sent.text) - count("Which apples?")
    assert (one.words, one.whole_tokens, one.in_part) == ((), 0, False)
    one = ask("Tell me about candles", BOTH, room=600)
    long, short = one.sent.documents
    assert (long.among, short.passages) == (8, 0)
    assert 0 < long.passages < 8
    assert 3 in pages(one)
    assert sum(one.tokens) <= 600
    assert one.words == ("candles",)
    assert one.whole_tokens == pytest.approx(count(LONG.text), rel=0.01)
    assert "candles" in one.told(long)
    huge = document("huge.pdf", SUBJECTS * 20)  # passages take no more than they help
    one = ask("apples and guitars", {3: huge}, room=30_000, share=1)
    assert sum(one.tokens) <= MOST_PASSAGE_TOKENS


def test_every_new_document_is_given_something_and_without_a_word_its_beginning(ask):
    for question in ("What is this about?", "zebras", "Summarize it!"):
        one = ask(question, {1: LONG}, room=1000)
        assert one.from_beginning == (1,)
        assert pages(one)[:2] == [1, 2]
    documents = {n: document(f"{n}.pdf") for n in (1, 2, 3)}
    documents[4] = document("4.pdf", ["zebras"] * 8)
    one = ask("zebras", documents, room=2500)
    assert [sent.number for sent in one.sent.documents] == [1, 2, 3, 4]
    assert one.from_beginning == (1, 2, 3)
    with pytest.raises(Problem):
        ask("zebras", documents, room=900)
    with pytest.raises(Problem, match=LONG.name):  # and not a picture
        ask("dragons?", {1: LONG}, room=-5)
    first = ask("dragons?", {1: LONG}, room=900)
    assert ask("engines?", {1: LONG}, room=-5, before=[first.sent]).sent == Sent("engines?")


def test_a_later_question_gets_what_no_message_has(ask):
    before, given_pages = [], []
    for question in ("dragons?", "dragons?", "And engines?", "Thanks!", "Thanks for the zebras!"):
        one = ask(question, {1: LONG}, room=900, share=0.4, before=before)
        assert not set(chain(*given_pages)) & set(pages(one)), "twice"
        given_pages.append(pages(one))
        before.append(one.sent)
        assert one.sent.text.endswith(question)
    assert [bool(sent.documents) for sent in before] == [True, True, True, False, False]
    assert 4 in given_pages[0]
    assert set(given_pages[1]) <= {3, 5, 2, 6}
    assert before[3].text == "Thanks!"
    first = ask("page 5?", {1: LONG}, room=1000)
    assert ask("page 5?", {1: LONG}, room=1000, before=[first.sent]).sent.documents == ()
    asked = {"before": [first.sent], "asked_before": "page 5?"}
    assert pages(ask("And page 6?", {1: LONG}, room=1000, **asked)) == [6]


def test_a_question_that_refers_to_the_one_before_is_looked_for_with_it(ask):
    how = {"room": 900, "share": 0.3}
    first = ask("apples?", {1: LONG}, **how)
    for question, words in (
        ("And the filler?", ("guitars", "made", "filler")),
        ("Which filler?", ("filler",)),
        ("And the filler of forests or hammers?", ("filler", "forests", "hammers")),
    ):
        before = {"before": [first.sent], "asked_before": "How are guitars made?"}
        assert ask(question, {1: LONG}, **how, **before).words == words


def test_a_place_that_is_asked_for_comes_first(ask):
    for question, wanted in (
        ("What is on page 5?", [5]),
        ("Summarize pages 2 and 7", [2, 7]),
        ("What has page 3 to do with engines?", [3, 5]),
    ):
        one = ask(question, {1: LONG}, room=1000)
        assert set(wanted) <= set(pages(one)), question
        assert not one.in_part
    alone = ask("What is on page 5?", {1: LONG}, room=1000)
    assert pages(alone) == [5]
    assert (alone.words, alone.from_beginning) == (("page 5",), ())
    both = ask("page 1 and hammers, page 12", {1: LONG}, room=1000)
    assert both.words == ("page 1", "hammers", "page", "12")
    assert ask("page 99?", {1: LONG}, room=1000).from_beginning == (1,)
    many = ask("Summarize pages 1 to 8", {1: LONG}, room=1000)
    assert (pages(many), many.in_part) == ([1, 2], True)


def test_passages_of_a_table_fit_with_their_headers(ask):
    header = ",".join(f"column {n}" for n in range(30))
    rows = [f"item{n},{','.join([str(n)] * 29)}" for n in range(300)]
    sections = tuple(
        Section("lines", 1 + at, "\n".join([header, *rows][at : at + 40]))
        for at in range(0, 301, 40)
    )
    table = Document("a.csv", "csv", "00", sections)
    one = ask("item77 item123 item250?", {1: table}, count=len, room=12_000)
    assert sum(one.tokens) <= 6000
    assert one.sent.text.count("column 7,") >= 3
    for row in (77, 123, 250):
        assert rows[row] in one.sent.text


@example([900], 1000, 1.0, "guitars and hammers")
@given(
    st.lists(st.integers(1, 900), min_size=1, max_size=4),
    st.integers(400, 6000),
    st.sampled_from([0.3, 0.5, 1.0]),
    st.sampled_from(["apples", "what", "guitars and hammers", "Summarize all"]),
)
def test_what_is_given_fits_whatever_the_tokens(lengths, room, share, question):
    def uneven(text):
        """More tokens where the samples are not taken."""
        return count(text) + text.count("filler filler filler") + 300 * text.count("guitars")

    documents = {n: document(f"{n}", words=words) for n, words in enumerate(lengths, start=1)}
    with PassageIndex() as index:
        try:
            one = plan(question, documents, index=index, count=uneven, room=room, share=share)
        except Problem:
            return
    assert sum(one.tokens) <= room
    assert {sent.number for sent in one.sent.documents} == set(documents)
    for sent in one.sent.documents:
        offsets = [part.offset for part in sent.ranges]
        assert offsets == sorted(offsets)


def test_a_picture_is_given_once_and_takes_room(ask):
    picture = Document("boat.jpg", "picture", "a" * 64, (), pixels=(64, 48))
    asked = partial(ask, "Which boat?", {1: SHORT, 2: picture})
    uncounted = asked(room=1000)
    assert ["tokens" in uncounted.told(one) for one in uncounted.sent.documents] == [False, True]
    counted = partial(asked, picture_tokens=lambda document: 100)
    first = counted(room=1000)
    told = {
        one.number: tokens for one, tokens in zip(first.sent.documents, first.tokens, strict=True)
    }
    assert (first.sent.question, told[2]) == ("Which boat?", 100)
    assert counted(room=1000, before=[first.sent]).sent.documents == ()
    with pytest.raises(Problem):
        counted(room=99)
    without = first.sent.without(2)
    assert [one.pixels for one in without.documents if one.number == 2] == [None]
    assert without.question == "Which boat?"
    assert sent_from_json(first.sent.to_json()) == first.sent


# Documents that are slow to read


PAGE = Document("a.pdf", "pdf", "00", (Section("page", 1, "The first page."),))
WHOLE = write_message("Why?", [Attached(1, PAGE)])
PICTURE = write_message("Why?", [Attached(1, replace(PAGE, pixels=(10, 10)))])
IN_PASSAGES = write_message("Why?", [Attached(1, PAGE, (Passage(0, 3),), among=2)])


def test_a_document_is_slow_that_takes_long_whole_or_in_passages():
    assert is_slow(Plan(WHOLE, tokens=(4000,)), 0.01)
    assert not is_slow(Plan(WHOLE, tokens=(4000,)), 0.001)
    assert not is_slow(Plan(WHOLE, tokens=(2000,)), 1.0)
    assert is_slow(Plan(IN_PASSAGES, tokens=(4000,)), 1.0)
    assert not is_slow(Plan(IN_PASSAGES, tokens=(room_in_time(0.003),)), 0.003)
    assert not is_slow(Plan(PICTURE, tokens=(4000,)), 1.0)
    assert not is_slow(Plan(WHOLE, tokens=(4000,)), 0.0)

    # What is read in good time is never nothing.
    assert room_in_time(0.001) == SLOW_SECONDS * 1000
    assert room_in_time(1.0) == room_in_time(0.0) > 1000
    for seconds, in_words in (
        (0.2, "about a second to read"),
        (4.4, "about 4 s to read"),
        (200, "about 3 min to read"),
    ):
        assert to_read(seconds) == in_words


# What a message is, and where each character of it comes from

PAGES = Document(
    "plan.pdf",
    "pdf",
    "00",
    (Section("page", 1, "The first page."), Section("page", 2, "The second page.")),
)


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


def test_another_question_keeps_all_before_it_and_a_deletion_the_others():
    attached = [Attached(1, PAGES), Attached(2, PAGES)]
    sent = write_message("Who?", attached)
    assert sent.question == "Who?"
    assert sent.asked("Where?") == write_message("Where?", attached)
    assert sent.given(1) + sent.given(2) + "Who?" == sent.text
    rest = sent.without(1)  # a deleted one leaves the places of the others
    assert sent_from_json(rest.to_json()) == rest
    assert rest.given(2) == sent.given(2)
    assert rest.given(1).startswith("[")
    assert rest.question == "Who?"
    for place in range(len(rest.text)):
        source = rest.source(place)
        assert source is None or source[0] == 2
        if source:
            assert PAGES.text[source[1]] == rest.text[place]
    for start, end in ((5, 2), (-1, 2), (0, 99)):  # outside of the text
        wrong = Sent("text", (SentDocument(1, "a", (), start=start, end=end),))
        with pytest.raises(ValueError, match="document 1"):
            sent_from_json(wrong.to_json())


def test_how_a_document_is_written():
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
    # Passages say where they begin, and are joined.
    text = Section("lines", 11, "one\ntwo\nthree four\nfive six")
    document = Document("a.txt", "text", "00", (text,))
    passages = (Passage(4, 7), Passage(8, 13), Passage(19, 27))
    sent = write_message("Why?", [Attached(1, document, passages, among=9)])
    assert "\n[line 12]\ntwo\nthree\n\n[line 14]\nfive six\n" in sent.text
    (part,) = sent.documents
    assert (part.number, part.name, part.passages, part.among) == (1, "a.txt", 3, 9)
    assert sent.text.endswith("\n\nWhy?")
    # A part from the middle of a table has its header.
    table = Document("a.csv", "csv", "00", (Section("lines", 1, "name,price\nbolt,2\nnut,3"),))
    last = (Passage(18, 23),)
    sent = write_message("Why?", [Attached(1, table, last, among=2)])
    assert "[line 3]\nname,price\nnut,3\n" in sent.text
    assert [(part.offset, part.length) for part in sent.documents[0].ranges] == [(18, 5)]
    whole = write_message("Why?", [Attached(1, table)])
    assert whole.text.count("name,price") == 1
