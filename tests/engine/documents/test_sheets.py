"""Workbooks beyond the samples: values that are stored and how they are shown, sizes that are not
believed, limits."""

from datetime import timedelta

import openpyxl
import pytest
from openpyxl.comments import Comment
from openpyxl.formatting.rule import FormulaRule
from openpyxl.styles import Color, Font, PatternFill

from engine.documents import sheets
from engine.documents.child import read_bytes
from engine.documents.number_formats import (
    FIRST_DAY_OF_1904,
    elapsed,
    text_with_format,
    with_format,
)
from engine.documents.sheets import read_xlsx
from models.errors import Problem
from tests.support.documents.office import parts_of, xlsx, zipped
from tests.support.documents.samples import seen

SHEET = "xl/worksheets/sheet1.xml"
SIZE, EMPTY = b'<dimension ref="A1:A1" />', b"<sheetData></sheetData>"


def with_rows(rows, *, size=""):
    """A workbook whose sheet has this XML."""
    parts = parts_of(xlsx(lambda _: None))
    assert SIZE in parts[SHEET]
    assert EMPTY in parts[SHEET]
    made = parts[SHEET].replace(SIZE, f'<dimension ref="{size}"/>'.encode() if size else b"")
    return zipped({**parts, SHEET: made.replace(EMPTY, f"<sheetData>{rows}</sheetData>".encode())})


def texts(data):
    return [section.text for section in read_xlsx(data).sections]


def filled(*rows):
    def fill(workbook):
        for row in rows:
            workbook.active.append(row)

    return xlsx(fill)


def test_the_value_of_a_formula_is_what_its_program_stored():
    cells = (
        '<c r="A1"><f>1+1</f><v>2</v></c><c r="B1"><f>NOW()</f></c><c r="C1" t="e"><v>#N/A</v></c>'
    )
    assert texts(with_rows(f'<row r="1">{cells}</row>')) == ["2 | =NOW() | #N/A"]
    row = '<row r="3"><c r="C3"><v>7</v></c></row>'
    for size in ("A1", "A1:XFD1048576", "B2:A1"):  # which is not believed
        assert texts(with_rows(row, size=size)) == ["7"]


VALUES = (
    (25, '0"%"', "25%"),
    (10**15, "General", "1000000000000000"),
    (46_082, "dd.mm.yy", "2026-03-01"),
    (46_082.5, "dd.mm.yy", "2026-03-01 12:00"),
    (10**10, "dd.mm.yy", "#VALUE!"),
    (" a \n b ", "General", "a b"),
    ("a_x000D_\nb _x005F_x0041_", "General", "a b _x0041_"),
)


def test_values_as_the_user_reads_them():
    def fill(workbook):
        for row, (value, number_format, _) in enumerate(VALUES, start=1):
            cell = workbook.active.cell(row=row, column=1, value=value)
            cell.number_format = number_format

    assert texts(xlsx(fill)) == ["\n".join(text for _, _, text in VALUES)]


def styled(rows, *formats, book=""):
    """A workbook whose cells' style n has the n-th of these numbers of a format, from 1."""
    parts = parts_of(with_rows(rows))
    looks = "".join(f'<xf numFmtId="{each}"/>' for each in (0, *formats))
    styles = parts["xl/styles.xml"].partition(b"<cellXfs")[0].decode()
    parts["xl/styles.xml"] = f"{styles}<cellXfs>{looks}</cellXfs></styleSheet>".encode()
    parts["xl/workbook.xml"] = parts["xl/workbook.xml"].replace(b"<workbookPr", book.encode(), 1)
    return zipped(parts)


UNDEFINED = (
    (46_022, (*range(27, 37), *range(50, 59), 14, 22, 71, 77, 81), "2025-12-31"),
    (0.75, (*range(32, 36), 18, 20, 55, 75), "18:00"),
    (0.25, (9, 67), "25%"),
    (0.25, (12, 49, 69, 70, 163, 164, 5000), "0.25"),
    (83.456 / 86_400, (47, 80), "00:01:23.456"),
    (1.25, (46,), "30:00:00"),
)


def test_formats_that_a_workbook_need_not_define():
    for value, numbers, text in UNDEFINED:
        cells = "".join(f'<c s="{i + 1}"><v>{value}</v></c>' for i in range(len(numbers)))
        book = '<workbookPr date1904="0"'
        read = texts(styled(f'<row r="1">{cells}</row>', *numbers, book=book))
        assert read == [" | ".join([text] * len(numbers))]
    row = '<row r="1"><c s="1"><v>44560</v></c></row>'
    assert texts(styled(row, 14, book='<workbookPr date1904="1"')) == ["2025-12-31"]


def test_what_is_crossed_out_is_marked_and_drawings_and_comments_are_told():
    def fill(workbook):
        workbook.active.append(("Desk", 250, "new 199 EUR"))
        workbook.active["B1"].font = Font(strike=True)
        for cell in ("A1", "B1"):
            workbook.active[cell].comment = Comment("Is that so?", "Ada")

    parts = parts_of(xlsx(fill))
    runs = "<r><rPr><strike/></rPr><t>new </t></r><r><t> 199</t></r><r><rPr><strike val='0'/></rPr>"
    sheet = parts[SHEET].replace(b"<t>new 199 EUR</t>", f"{runs}<t> EUR</t></r>".encode())
    assert sheet != parts[SHEET]
    read = read_xlsx(zipped({**parts, SHEET: sheet, "xl/drawings/drawing1.xml": "<a/>"}))
    assert seen(read) == (
        ["Desk | ~~250~~ | ~~new~~ 199 EUR"],
        ("Charts, pictures and text boxes of sheets: 1.", "Comments of sheets: 2."),
    )
    broken = {**parts_of(filled(("<cellXfs>",))), "xl/comments1.xml": "<comments><commentList>"}
    assert texts(zipped(broken)) == ["<cellXfs>"]


HIDDEN = (
    ("", '<row r="1"/><row r="2" hidden="1">{}</row>', "", "row 2"),
    ("", '<row r="2" ht="0" customHeight="1">{}</row>', "", "row 2"),
    ("", '<row r="2" hidden="0" customHeight="0" ht="15">{}</row>', "1 | 2", ""),
    ('<col min="2" max="9" hidden="1"/>', '<row r="2">{}</row>', "1", "column B"),
    ('<col max="2" min="2" width="0"/>', '<row r="2">{}</row>', "1", "column B"),
    ('<col min="3" max="16384" hidden="1"/>', '<row r="2">{}</row>', "1 | 2", ""),
)


def test_hidden_rows_columns_and_cells_are_not_read_but_told():
    for before, rows, text, told in HIDDEN:
        parts = parts_of(with_rows(rows.format("<c><v>1</v></c><c><v>2</v></c>")))
        cols = f"<cols>{before}</cols><sheetData>" if before else "<sheetData>"
        sheet = parts[SHEET].replace(b"<sheetData>", cols.encode())
        read = read_xlsx(zipped({**parts, SHEET: sheet}))
        left_out = (f"Hidden rows and columns: Sheet {told}.",) if told else ()
        assert seen(read) == ([text] if text else [], left_out), before + rows

    def fill(workbook):
        workbook.active.append(("Key", 7, "note", 0, "=1+1", "  "))
        for cell in ("B1", "C1", "D1"):
            workbook.active[cell].number_format = ";;;"

    assert seen(read_xlsx(xlsx(fill))) == (["Key | =1+1"], ("Cells that their format hides: 3.",))


def test_letters_in_the_colour_of_their_ground_are_not_read_but_told():
    def shades(rule, *looks):
        def fill(workbook):
            for number, (ink, ground) in enumerate(looks, start=1):
                cell = workbook.active.cell(row=1, column=number, value="abcdefgh"[:number])
                cell.font = Font(color=ink)
                cell.fill = PatternFill("solid", fgColor=ground) if ground else PatternFill()
            if rule:
                workbook.active.conditional_formatting.add("A1", FormulaRule(["TRUE"]))

        return xlsx(fill)

    red, white = "FFFF0000", "FFFFFFFF"
    unseen = (white, None), (Color(theme=0), None), (Color(indexed=9), white), (red, red)
    unseen += (Color(theme=4, tint=0.5), Color(theme=4, tint=0.5)), (None, "FF000000")
    shown = (white, red), (None, None)
    read = read_xlsx(shades(False, *unseen, *shown))
    assert seen(read) == (["abcdefg | abcdefgh"], ("Hidden text: 21 characters.",))
    assert read_xlsx(shades(True, (white, None))).left_out == ()  # a rule may colour the ground


def test_rows_have_their_places():
    rows = [("Order", "Sum"), *((f"O-{number}", number) for number in range(1, 121))]
    document = read_bytes("a.xlsx", filled(("All orders",), (), *rows))
    assert [each.place for each in document.sections] == [
        *("sheet Sheet", "sheet Sheet, row 51", "sheet Sheet, row 101")
    ]
    assert document.sections[0].text.startswith("All orders\n\nOrder | Sum\nO-1 | 1\n")
    for number in (1, 47, 48, 120):
        place = document.place(document.text.index(f"O-{number} |"))
        assert place == f"sheet Sheet, row {number + 3}"


LONG = "x" * 300


def test_a_merged_cell_stands_in_each_of_its_rows():
    def merged(hidden, *cells):
        def fill(workbook):
            for row in (("Region", "Name"), ("North", "Ann"), (None, "Ben"), (LONG, "Cid")):
                workbook.active.append(row)
            workbook.active.append((None, "Dee"))
            for each in cells:
                workbook.active.merge_cells(each)
            workbook.active.row_dimensions[2].hidden = hidden

        return texts(xlsx(fill))

    rest = f"North | Ben\n{LONG} | Cid\n | Dee"
    cells = ("A2:A3", "A4:A5", "A6:A7", "C1:D1")
    assert merged(False, *cells) == [f"Region | Name\nNorth | Ann\n{rest}"]
    assert merged(True, "A2:A3") == [f"Region | Name\n \n{rest}"]  # seen in the others


def test_a_sheet_far_too_long_or_that_unfolds_is_cut(monkeypatch):
    monkeypatch.setattr(sheets, "MOST_ROWS", 1_000)
    rows = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1001"><c r="A1001"><v>2</v></c></row>'
    read = read_xlsx(with_rows(rows))
    assert [section.text for section in read.sections] == ["1"]
    assert len(read.left_out) == 1
    monkeypatch.setattr(sheets, "WORKBOOK_CHARACTERS", 2_000)
    for row in (("x" * 100,), (*[None] * 99, 1)):  # one text many times; empty cells
        read = read_xlsx(filled(*[row] * 50))
        assert 1000 < sum(len(section.text) for section in read.sections) <= 2_000 or not row[0]
        assert len(read.left_out) == 1
        assert "Sheet from row" in read.left_out[0]


def test_what_is_not_a_workbook_is_a_problem():
    assert openpyxl.DEFUSEDXML
    parts = parts_of(filled((1,)))
    files = [b"no zip"]
    for missing in ("xl/workbook.xml", "[Content_Types].xml"):
        files.append(zipped({name: parts[name] for name in parts if name != missing}))
    for row, cell, value in (
        ("x", 'r="A1"', 1),
        (1, 'r="ZZZZZZZ1"', 1),
        (1, 'r="A1" t="s"', 99),
        (1, 'r="A1"', "9" * 5000),
    ):
        files.append(with_rows(f'<row r="{row}"><c {cell}><v>{value}</v></c></row>'))
    for number, data in enumerate(files):
        with pytest.raises(Problem):
            pytest.fail(f"{number} is {read_xlsx(data)}")


# Numbers as the cells show them

ACCOUNTING = '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)'
LOSS = -1234.1  # which no format makes a profit
DAY = 46_022

AS_SHOWN = (
    (1234.5, "$#,##0.00", "$1,234.50"),
    (-1234.5, "$#,##0.00", "-$1,234.50"),
    (12, "[$€-407] #,##0.00", "€ 12.00"),
    (37, '0 "kg"', "37 kg"),
    (1234, "00000", "01234"),
    (3_005_551_234, "(000) 000-0000", "(300) 555-1234"),
    (-1234.5, ACCOUNTING, "$(1,234.50)"),
    (0, ACCOUNTING, "$-"),
    (0, '"Yes";;"No"', "No"),
    (17, '[Red][<10]0" low";[>=10]0" high"', "17 high"),
    (12_500_000, '0.0,,"M"', "12.5M"),
    (1_234_567, '#,##0,"k"', "1,234.567k"),
    (0.5, "#.##", "0.5"),
    (5, 'General" days"', "5 days"),
    (12_345_678_901_234_567, "0", "12345678901234567"),
    # No digit is lost.
    (1234.5678, "$#,##0.00", "$1,234.5678"),
    (0.123456, "0%", "12.3456%"),
    (0.25, "# ?/?", "0.25"),
    (1.5e-05, "0.00E+00", "1.5e-05"),
    (7, "0" * 1000, "7"),
    (float("nan"), "0.00", "nan"),
    (5, '[>100]"big"', "5"),
    (7, "@", "7"),
    # A loss is never a profit, in the four choices of Excel's dialog and in others.
    (LOSS, "0.00;[Red]0.00", "-1234.10"),
    (LOSS, "0.00_);(0.00)", "(1234.10)"),
    (LOSS, '0.0" CR";0.0" DR"', "-1234.1 DR"),
    (LOSS, "0.0 ;0.0-", "1234.1-"),
    (LOSS, "General;[Red]General", "-1234.1"),
    (LOSS, "0%;[Red]0%", "-123410%"),
    (LOSS, "[Red][<0]0.0;0.0", "-1234.1"),
    (LOSS, "[>=0]0.0;(0.0)", "(1234.1)"),
    (LOSS, "[h]:mm;[Red][h]:mm", "-29618:24"),
    (LOSS, "hh:mm", "-29618:24"),
    (50, '[>=1000]0.0,,"M";(0);0', "50"),
    (50, "0;[Red]0", "50"),
    # Dates are told from numbers.
    (DAY, "mmm-yy;@", "2025-12-31"),
    (DAY, '[$-411]ggge"年"m"月"d"日"', "2025-12-31"),
    (DAY, "aaaa", "Wednesday"),
    (DAY, "aaa", "Wed"),
    (DAY, "[$-411]aaaa;@", "水曜日"),
    (DAY, "[$-ja-JP]aaa", "水"),
    (DAY, "[$-804]aaaa", "星期三"),
    (DAY, "d/m/yyyy(aaa)", "2025-12-31"),
    (DAY + 0.999999, "d/m/yy h:mm", "2026-01-01"),
    (DAY + 0.5, "h:mm AM/PM", "12:00"),
    (83.456 / 86_400, "mm:ss.000", "00:01:23.456"),
    (59, "d/m/yyyy", "1900-02-28"),
    (61, "d/m/yyyy", "1900-03-01"),
    (8, r"0\h", "8h"),  # letters that stand for themselves
    (8, "[Magenta]0", "8"),
    (8, "G/通用格式", "8"),
    (0.5, '# ?/8" in"', "0.5 in"),
    # An empty section hides its numbers.
    (3, ";;;", ""),
    (-1, '"Yes";;"No"', ""),
    (0, "0;-0;", ""),
)


def test_the_text_is_the_cells():
    for value, number_format, text in AS_SHOWN:
        assert with_format(value, number_format) == text, number_format
    for value, text in ((44_560, "2025-12-31"), (1, "1904-01-02")):
        assert with_format(value, "d/m/yyyy", first_day=FIRST_DAY_OF_1904) == text
    length = timedelta(hours=30, minutes=15)
    for number_format, text in (
        ("[h]:mm", "30:15"),
        ("[h]:mm:ss", "30:15:00"),
        ("[mm]:ss", "1815:00"),
        ("[s]", "108900"),
    ):
        assert elapsed(length, number_format) == text
    assert elapsed(-length, "[h]:mm") == "-30:15"
    for number_format, text in (
        ('0;-0;0;"Room "@', "Room 7a"),
        ('@" kg"', "7a kg"),
        ("0;-0;0", "7a"),
        ('0;-0;0;"kept"', "kept"),
        (";;;", ""),
    ):
        assert text_with_format("7a", number_format) == text
