"""What a person is told of a document before a model gets it."""

from dataclasses import replace

from engine.documents import Document, Section
from engine.documents.in_words import lacks, size_in_words


def document(kind, labels, format="pdf"):
    sections = tuple(Section(kind, i, "text", label) for i, label in enumerate(labels, start=1))
    return Document("a", format, "00", sections)


SCAN = replace(document("page", ("", "")), without_text=(3, 7))


def test_how_much_it_is():
    for one, words in (
        (document("page", ("",)), "1 page"),
        (SCAN, "7 pages"),
        (document("sheet", ("Prices", "Costs")), "2 sheets"),
        (document("sheet", ("Prices", "Prices", "Prices")), "1 sheet"),
        (document("lines", ("a.py", "a.py", "b.py"), "folder"), "2 files"),
        (document("part", ("a.docx > Scope", "a.docx > Term", "b.pdf"), "folder"), "2 files"),
        (document("lines", ("", "")), ""),
        (document("part", ("Scope",)), ""),
        (document("page", ()), ""),
    ):
        assert size_in_words(one) == words


def test_what_nobody_will_read_is_a_line_each():
    assert lacks(document("page", ("",))) == ()
    lines = lacks(replace(SCAN, hidden=1, faint=40, left_out=("Pictures: 3.\n", "Notes: 1.")))
    assert lines[0] == "2 of 7 pages have no text: 3, 7."
    assert all(
        word in line for word, line in zip(("1 hidden", "40", "Notes"), lines[1:], strict=True)
    )
    assert not any("\n" in line for line in lines)
    assert lines[-1] == "Left out: Pictures: 3; Notes: 1."
