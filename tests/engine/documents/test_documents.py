"""What is known of a document and of the places in it, and what the user reads of it first."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.documents import Document, Section, document_from_json
from engine.documents.in_words import lacks, size_in_words

TEXTS = st.lists(st.text(max_size=20), max_size=5)


def made(texts):
    sections = tuple(Section("page", i, text) for i, text in enumerate(texts, start=1))
    return Document("a.pdf", "pdf", "00", sections, without_text=(2,), hidden=1)


@given(TEXTS)
def test_a_document_is_read_as_it_was_written_and_each_offset_is_of_its_section(texts):
    document = made(texts)
    assert document_from_json(document.to_json()) == document
    for section, start in zip(document.sections, document.starts, strict=True):
        assert document.text[start:].startswith(section.text)
        for offset in range(start, start + len(section.text)):
            assert document.sections[document.section_at(offset)] is section


def test_documents_of_earlier_versions_are_read_and_anything_else_is_a_value_error():
    for kind in ("msg", "mhtml"):  # which only those read
        stored = f'{{"name": "a", "format": "{kind}", "digest": "00", "sections": []}}'
        assert document_from_json(stored).format == kind
    for text in ("", "{}", "[1]", '{"name": 1}'):
        with pytest.raises(ValueError, match=r".*"):
            document_from_json(text)


def test_a_place_in_words():
    for section, place in (
        (Section("page", 3, ""), "page 3"),
        (Section("sheet", 1, "", "Prices"), "sheet Prices"),
        (Section("sheet", 52, "", "Prices"), "sheet Prices, row 52"),
        (Section("slide", 2, "", "Plans"), "slide 2, Plans"),
        (Section("lines", 1, "", "app/start.py"), "app/start.py, line 1"),
        (Section("lines", 9, ""), "line 9"),
        (Section("part", 2, "", "Scope"), "Scope"),
        (Section("chapter", 2, "", "Scope"), "Scope"),
        (Section("chapter", 2, ""), "chapter 2"),
    ):
        assert section.place == place
    for kind, first, place in (  # of a character, with its line or row
        ("lines", 41, "a, line 43"),
        ("sheet", 551, "sheet a, row 553"),
        ("sheet", 0, "sheet a, row 3"),
        ("page", 7, "page 7, a"),
    ):
        document = Document("a", "text", "00", (Section(kind, first, "x\ny\nz", "a"),))
        assert document.place(document.text.index("z")) == place


# In words


def shown(kind, labels, format="pdf"):
    sections = tuple(Section(kind, i, "text", label) for i, label in enumerate(labels, start=1))
    return Document("a", format, "00", sections)


SCAN = replace(shown("page", ("", "")), without_text=(3, 7))


def test_how_much_it_is():
    for one, words in (
        (shown("page", ("",)), "1 page"),
        (SCAN, "7 pages"),
        (replace(shown("slide", ("", "")), without_text=(3, 7)), "4 slides"),
        (shown("sheet", ("Prices", "Costs")), "2 sheets"),
        (shown("sheet", ("Prices", "Prices", "Prices")), "1 sheet"),
        (shown("lines", ("a.py", "a.py", "b.py"), "folder"), "2 files"),
        (shown("part", ("a.docx > Scope", "a.docx > Term", "b.pdf"), "folder"), "2 files"),
        (shown("lines", ("", "")), ""),
        (shown("part", ("Scope",)), ""),
        (shown("page", ()), ""),
    ):
        assert size_in_words(one) == words


def test_what_nobody_will_read_is_a_line_each():
    assert lacks(shown("page", ("",))) == ()
    lines = lacks(replace(SCAN, hidden=1, faint=40, left_out=("Pictures: 3.\n", "Notes: 1.")))
    assert lines[0] == "2 of 7 pages have no text: 3, 7."
    assert all(
        word in line for word, line in zip(("1 hidden", "40", "Notes"), lines[1:], strict=True)
    )
    assert not any("\n" in line for line in lines)
    assert lines[-1] == "Left out: Pictures: 3; Notes: 1."
