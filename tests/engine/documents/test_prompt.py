"""What a model is given of documents, and where each character comes from."""

from hypothesis import given
from hypothesis import strategies as st

from engine.documents import Document, Section
from engine.documents.prompt import Attached, Passage, write_message

PAGES = Document(
    "plan.pdf",
    "pdf",
    "00",
    (Section("page", 1, "The first page."), Section("page", 2, "The second page.")),
)


def test_a_whole_document_stands_before_the_question() -> None:
    sent = write_message("Why?", [Attached(1, PAGES)])
    assert sent.text.endswith("\n\nWhy?")
    for section in PAGES.sections:
        assert f"[{section.place}]\n{section.text}\n" in sent.text
    (document,) = sent.documents
    assert (document.number, document.name, document.passages) == (1, "plan.pdf", 0)


def test_of_passages_the_message_says_how_many_there_are() -> None:
    sent = write_message("Why?", [Attached(3, PAGES, (Passage(4, 9),), among=7)])
    assert "first" in sent.text
    assert "second" not in sent.text
    (document,) = sent.documents
    assert (document.number, document.passages, document.among) == (3, 1, 7)


@st.composite
def attached(draw: st.DrawFn) -> Attached:
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
def test_every_character_of_a_document_is_known_as_its(given: list[Attached], asked: str) -> None:
    sent = write_message(asked, given)
    documents = {each.number: each.document for each in given}
    for document in sent.documents:
        for part in document.ranges:
            for i in range(part.length):
                source = sent.source(part.start + i)
                assert source == (document.number, part.offset + i)
                assert documents[document.number].text[source[1]] == sent.text[part.start + i]
    assert sent.source(len(sent.text) - len(asked)) is None
