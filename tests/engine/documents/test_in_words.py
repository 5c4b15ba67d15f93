"""What a person is told of a document: how much it is, and what of it nobody will read."""

from dataclasses import replace

import pytest

from engine.documents import Document, Section
from engine.documents.in_words import lacks, size_in_words

PAGES = Document(
    "a.pdf", "pdf", "00", (Section("page", 1, "One."), Section("page", 3, "Three.")), (2, 4)
)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (PAGES, "4 pages"),
        (replace(PAGES, sections=PAGES.sections[:1], without_text=()), "1 page"),
        (Document("a.txt", "text", "", (Section("lines", 1, "x"),)), ""),
        (Document("a.txt", "text", "", ()), ""),
        (
            Document(
                "src",
                "folder",
                "",
                (
                    Section("lines", 1, "x", "a.py"),
                    Section("lines", 60, "x", "a.py"),
                    Section("lines", 1, "x", "b.py"),
                ),
            ),
            "2 files",
        ),
        (Document("a.xlsx", "xlsx", "", (Section("sheet", 1, "x", "Prices"),)), "1 sheet"),
    ],
)
def test_its_size_in_words(document: Document, words: str) -> None:
    assert size_in_words(document) == words


def test_what_it_lacks_is_said_a_line_each() -> None:
    assert lacks(replace(PAGES, without_text=())) == ()
    lines = lacks(replace(PAGES, hidden=1, faint=2, left_out=("a.png: a picture", "b\n.png")))
    pages, hidden, faint, left_out = lines
    assert "2, 4" in pages
    assert hidden.startswith("1 hidden character was")
    assert faint.startswith("2 characters are")
    assert "b .png" in left_out
    assert not any("\n" in line for line in lines)
