"""Which header row a passage from the middle of a table gets."""

from engine.documents import Document, Section
from engine.documents.tables import header_of

ROWS = "\n".join(f"{n} | bolt {n} | {n * 2}" for n in range(1, 40))


def header(document: Document, words: str) -> str:
    return header_of(document, document.text.index(words))


def test_a_sheet_has_one_header_for_all_its_sections() -> None:
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


def test_a_file_with_separators_has_one_too() -> None:
    sections = (Section("lines", 1, "\nname;price\nbolt;2"), Section("lines", 41, "nut;3"))
    assert header(Document("a.csv", "csv", "00", sections), "nut") == "name;price"
    named = tuple(Section("lines", each.number, each.text, "b/a.CSV") for each in sections)
    other = Section("lines", 1, "x = 3\ny = 4", "b/a.py")
    folder = Document("b", "folder", "00", (*named, other))
    assert header(folder, "nut") == "name;price"
    assert header(folder, "y = 4") == ""


def test_a_table_in_a_text_ends_where_its_lines_end() -> None:
    text = f"Some prose | with a bar.\n\nNumber | Name | Price\n{ROWS}\n\nAfter it."
    one = Document("a.docx", "docx", "00", (Section("part", 1, text),))
    assert header(one, "30 | bolt") == "Number | Name | Price"
    assert header(one, "Number |") == ""
    assert header(one, "After it") == ""
    last = Document("a.docx", "docx", "00", (Section("part", 1, text.partition("\n\nAfter")[0]),))
    assert header(last, "39 | bolt") == "Number | Name | Price"


def test_a_table_of_numbers_and_a_very_long_header_have_none() -> None:
    numbers = Document("a.csv", "csv", "00", (Section("lines", 1, "1,2\n3,4\n5,6"),))
    assert header(numbers, "5,6") == ""
    long = ",".join(["column"] * 200)
    assert header(Document("a.csv", "csv", "00", (Section("lines", 1, f"{long}\n7,8"),)), "7") == ""
