"""What a message is given of its documents: whole or in passages, never twice, and in good time."""

from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.documents import Document, Section
from engine.documents.passages import PassageIndex
from engine.documents.plan import MOST_PASSAGE_TOKENS, Plan, plan
from engine.documents.prompt import Attached, Passage, Sent, sent_from_json, write_message
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
def index():
    with PassageIndex() as index:
        yield index


def pages(one, number, documents=BOTH):
    """The pages of a document that a message has, from 1."""
    return [
        documents[number].section_at(part.offset) + 1
        for sent in one.sent.documents
        if sent.number == number
        for part in sent.ranges
    ]


def test_documents_that_fit_are_given_whole(index):
    one = plan("Which apples?", BOTH, index=index, count=count, room=2000)
    assert [(sent.name, sent.passages) for sent in one.sent.documents] == [
        ("long.pdf", 0),
        ("short.pdf", 0),
    ]
    assert pages(one, 1) == list(range(1, 9))
    assert sum(one.tokens) == count(one.sent.text) - count("Which apples?")
    assert (one.words, one.whole_tokens, one.in_part) == ((), 0, False)


def test_of_one_that_does_not_fit_the_passages_are_given_that_were_asked_for(index):
    one = plan("Tell me about candles", BOTH, index=index, count=count, room=600)
    long, short = one.sent.documents
    assert (long.among, short.passages) == (8, 0)
    assert 0 < long.passages < 8
    assert 3 in pages(one, 1)
    assert sum(one.tokens) <= 600
    assert one.words == ("candles",)
    assert one.whole_tokens == pytest.approx(count(LONG.text), rel=0.01)
    assert "candles" in one.told(long)


def test_without_a_word_that_is_found_the_beginning_is_given(index):
    for question in ("What is this about?", "zebras", "Summarize it!"):
        one = plan(question, {1: LONG}, index=index, count=count, room=1000)
        assert one.from_beginning == (1,)
        assert pages(one, 1)[:2] == [1, 2]


def test_every_new_document_is_given_something(index):
    documents = {n: document(f"{n}.pdf") for n in (1, 2, 3)}
    documents[4] = document("4.pdf", ["zebras"] * 8)
    one = plan("zebras", documents, index=index, count=count, room=2500)
    assert [sent.number for sent in one.sent.documents] == [1, 2, 3, 4]
    assert one.from_beginning == (1, 2, 3)
    with pytest.raises(Problem):
        plan("zebras", documents, index=index, count=count, room=900)


def test_a_later_question_gets_what_no_message_has(index):
    how = {"index": index, "count": count, "room": 900, "share": 0.4}
    before, given_pages = [], []
    for question in ("dragons?", "dragons?", "And engines?", "Thanks!", "Thanks for the zebras!"):
        one = plan(question, {1: LONG}, **how, before=before)
        assert not set(chain(*given_pages)) & set(pages(one, 1)), "twice"
        given_pages.append(pages(one, 1))
        before.append(one.sent)
        assert one.sent.text.endswith(question)
    assert [bool(sent.documents) for sent in before] == [True, True, True, False, False]
    assert 4 in given_pages[0]
    assert set(given_pages[1]) <= {3, 5, 2, 6}
    assert before[3].text == "Thanks!"


def test_a_question_that_refers_to_the_one_before_is_looked_for_with_it(index):
    how = {"index": index, "count": count, "room": 900, "share": 0.3}
    first = plan("apples?", {1: LONG}, **how)
    for question, words in (
        ("And the filler?", ("guitars", "made", "filler")),
        ("Which filler?", ("filler",)),
        ("And the filler of forests or hammers?", ("filler", "forests", "hammers")),
    ):
        before = {"before": [first.sent], "asked_before": "How are guitars made?"}
        assert plan(question, {1: LONG}, **how, **before).words == words


def test_a_document_that_is_given_in_part_is_named_once(index):
    first = plan("forests?", {1: LONG}, index=index, count=count, room=900)
    assert first.in_part
    assert not plan("forests?", {1: LONG}, index=index, count=count, room=9000).in_part
    later = plan("hammers?", {1: LONG}, index=index, count=count, room=900, before=[first.sent])
    assert later.sent.documents
    assert not later.in_part


def test_a_place_that_is_asked_for_comes_first(index):
    for question, wanted in (
        ("What is on page 5?", [5]),
        ("Summarize pages 2 and 7", [2, 7]),
        ("What has page 3 to do with engines?", [3, 5]),
    ):
        one = plan(question, {1: LONG}, index=index, count=count, room=1000)
        assert set(wanted) <= set(pages(one, 1, {1: LONG})), question
        assert not one.in_part
    alone = plan("What is on page 5?", {1: LONG}, index=index, count=count, room=1000)
    assert pages(alone, 1) == [5]
    assert (alone.words, alone.from_beginning) == (("page 5",), ())
    both = plan("page 1 and hammers, page 12", {1: LONG}, index=index, count=count, room=1000)
    assert both.words == ("page 1", "hammers", "page", "12")
    elsewhere = plan("page 99?", {1: LONG}, index=index, count=count, room=1000)
    assert elsewhere.from_beginning == (1,)


def test_a_place_that_is_given_is_not_given_again(index):
    how = {"index": index, "count": count, "room": 1000}
    first = plan("page 5?", {1: LONG}, **how)
    assert plan("page 5?", {1: LONG}, **how, before=[first.sent]).sent.documents == ()
    asked = {"before": [first.sent], "asked_before": "page 5?"}
    assert pages(plan("And page 6?", {1: LONG}, **how, **asked), 1) == [6]
    many = plan("Summarize pages 1 to 8", {1: LONG}, **how)
    assert (pages(many, 1), many.in_part) == ([1, 2], True)


def test_passages_of_a_table_fit_with_their_headers(index):
    header = ",".join(f"column {n}" for n in range(30))
    rows = [f"item{n},{','.join([str(n)] * 29)}" for n in range(300)]
    sections = tuple(
        Section("lines", 1 + at, "\n".join([header, *rows][at : at + 40]))
        for at in range(0, 301, 40)
    )
    table = Document("a.csv", "csv", "00", sections)
    one = plan("item77 item123 item250?", {1: table}, index=index, count=len, room=12_000)
    assert sum(one.tokens) <= 6000
    assert one.sent.text.count("column 7,") >= 3
    for row in (77, 123, 250):
        assert rows[row] in one.sent.text


def test_passages_take_no_more_than_they_help(index):
    huge = document("huge.pdf", SUBJECTS * 20)
    one = plan("apples and guitars", {1: huge}, index=index, count=count, room=30_000, share=1)
    assert sum(one.tokens) <= MOST_PASSAGE_TOKENS


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


def test_without_any_room_no_picture_is_blamed(index):
    how = {"index": index, "count": count}
    with pytest.raises(Problem, match=LONG.name):
        plan("dragons?", {1: LONG}, **how, room=-5)
    first = plan("dragons?", {1: LONG}, **how, room=900)
    assert plan("engines?", {1: LONG}, **how, room=-5, before=[first.sent]).sent == Sent("engines?")


def test_a_picture_is_given_once_and_takes_room(index):
    picture = Document("boat.jpg", "picture", "a" * 64, (), pixels=(64, 48))
    documents = {1: SHORT, 2: picture}

    def planned(room, before=()):
        return plan(
            "Which boat?",
            documents,
            index=index,
            count=count,
            room=room,
            before=before,
            picture_tokens=lambda document: 100,
        )

    uncounted = plan("Which boat?", documents, index=index, count=count, room=1000)
    assert ["tokens" in uncounted.told(one) for one in uncounted.sent.documents] == [False, True]
    first = planned(1000)
    told = {
        one.number: tokens for one, tokens in zip(first.sent.documents, first.tokens, strict=True)
    }
    assert (first.sent.question, told[2]) == ("Which boat?", 100)
    assert planned(1000, [first.sent]).sent.documents == ()
    with pytest.raises(Problem):
        planned(99)
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
        (43, "about 45 s to read"),
        (200, "about 3 min to read"),
    ):
        assert to_read(seconds) == in_words
