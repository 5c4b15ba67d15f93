"""What is known of a document and of the places in it: what the user reads of it first, and which
header rows a passage from the middle of a table gets."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.documents import Document, Section, document_from_json
from engine.documents.child import read_bytes
from engine.documents.in_words import lacks, size_in_words
from engine.documents.tables import header_of

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
        (Section("part", 2, "", "Scope"), "Scope"),
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


def test_how_much_it_is_and_what_it_lacks():
    for one, words in (
        (shown("page", ("",)), "1 page"),
        (SCAN, "7 pages"),
        (replace(shown("slide", ("", "")), without_text=(3, 7)), "4 slides"),
        (shown("sheet", ("Prices", "Costs")), "2 sheets"),
        (shown("sheet", ("Prices", "Prices", "Prices")), "1 sheet"),
        (shown("lines", ("a.py", "a.py", "b.py"), "folder"), "2 files"),
        (shown("part", ("a.docx > Scope", "a.docx > Term", "b.pdf"), "folder"), "2 files"),
        (shown("part", ("Scope",)), ""),
    ):
        assert size_in_words(one) == words
    # What no one will read is a line each.
    assert lacks(shown("page", ("",))) == ()
    lines = lacks(replace(SCAN, hidden=1, faint=40, left_out=("Pictures: 3.\n", "Notes: 1.")))
    assert lines[0] == "2 of 7 pages have no text: 3, 7."
    assert all(
        word in line for word, line in zip(("1 hidden", "40", "Notes"), lines[1:], strict=True)
    )
    assert not any("\n" in line for line in lines)
    assert lines[-1] == "Left out: Pictures: 3; Notes: 1."


# Tables

ROWS = "\n".join(f"{n} | bolt {n} | {n * 2}" for n in range(1, 40))


def header(document, words):
    return header_of(document, document.text.index(words))


def test_sections_of_a_sheet_or_a_file_with_separators_have_one_header():
    sheet = Document(
        "a.xlsx",
        "xlsx",
        "00",
        (
            Section("sheet", 1, "Prices of 2025\nNumber | Name | Price\n1 | bolt | 2", "One"),
            Section("sheet", 51, "51 | nut | 3\n52 | lamp | 9", "One"),
            Section("sheet", 0, "Year | Cost\n2024 | 8", "Two"),
        ),
    )
    assert header(sheet, "52 | lamp") == "Number | Name | Price"
    assert header(sheet, "2024 |") == "Year | Cost"
    assert header(sheet, "Number |") == ""
    assert header(sheet, "Prices of") == ""
    sections = (Section("lines", 1, "\nname;price\nbolt;2"), Section("lines", 41, "nut;3"))
    assert header(Document("a.csv", "csv", "00", sections), "nut") == "name;price"
    named = tuple(Section("lines", each.number, each.text, "b/a.CSV") for each in sections)
    other = Section("lines", 1, "x = 3\ny = 4", "b/a.py")
    folder = Document("b", "folder", "00", (*named, other))
    assert header(folder, "nut") == "name;price"
    assert header(folder, "y = 4") == ""


def test_a_table_in_a_text_ends_where_its_lines_end():
    text = f"Some prose | with a bar.\n\nNumber | Name | Price\n{ROWS}\n\nAfter it."
    one = Document("a.docx", "docx", "00", (Section("part", 1, text),))
    assert header(one, "30 | bolt") == "Number | Name | Price"
    assert header(one, "Number |") == ""
    assert header(one, "After it") == ""
    last = Document("a.docx", "docx", "00", (Section("part", 1, text.partition("\n\nAfter")[0]),))
    assert header(last, "39 | bolt") == "Number | Name | Price"


TABLES = (
    ("Country,2021,2022", lambda n: f"Land {n},{n},{n + 1}", "Country,2021,2022"),
    ("Bank;;\nAccount;4711;\n\nDate;Sum;", lambda n: f"01.03.2026;-{n},50;", "Date;Sum;"),
    ("All staff;;\nName;City;Age", lambda n: f"Ann {n};Rome;{n}", "Name;City;Age"),
    (";2024;;2025\nShop;Jan;Feb;Jan", lambda n: f"S{n};1;2;3", ";2024;;2025\nShop;Jan;Feb;Jan"),
    ('Name;"Sum\n(EUR)";Day', lambda n: f"Rad;{n};01.02.2026", 'Name;"Sum\n(EUR)";Day'),
    ("Name;Sum", lambda n: "Name;Sum" if n % 20 == 5 else f"Rad;{n}", "Name;Sum"),
    ("Name;Sum", lambda n: ";" if n % 20 == 1 else f"Rad;{n}", "Name;Sum"),
    ("Name;Sum\nAnn 1;7\n\nShop 1;8", lambda n: f"Shop {n};{n}", ""),
    ("Ann;Rome;1", lambda n: f"Ben;Rome;{n}", ""),
    ("Film,1950,1951", lambda n: f"Film {n},{1950 + n % 90},1999", ""),
    (",".join(["column"] * 200), lambda n: f"7,{n}", ""),
    ("Anna;Rome", lambda n: f"{'a' * n};{('Rome', 'Oslo')[n % 2]}", ""),
)


def test_the_header_is_the_tables_own_or_none():
    for above, row, found in TABLES:
        rows = "\n".join(map(row, range(1, 101)))
        document = read_bytes("a.csv", f"{above}\n{rows}\n".encode())
        assert header_of(document, document.text.rindex(row(90))) == found, above
