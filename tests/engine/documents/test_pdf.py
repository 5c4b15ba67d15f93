"""The text of PDFs, what of it no one sees, and boxes that surround just what they should."""

from io import BytesIO
from itertools import product

import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from engine.documents.hidden import without_hidden
from engine.documents.pdf import draw_page, read_pdf
from models.errors import Problem
from tests.support.documents.pdfs import HEIGHT, WIDTH, Page, line, lines, pdf, risen, unicode_line
from tests.support.documents.samples import seen
from tests.support.mostly_slow import examples

PARAGRAPH = (
    "The parties agree on what follows, and on how",
    "it is to be read where two of them disagree.",
    "Words that are cut at an end of a line, manip-",
    "ulated by none, are searched for as a whole.",
)
PAGE = lines(PARAGRAPH) + line("A paragraph of its own.", y=180)


def texts_of(data):
    return [section.text for section in read_pdf(data).sections]


def texts(*pages):
    return texts_of(pdf(*pages))


def in_cells(*cells):
    return "".join(f"1 0 0 1 {x} 250 Tm ({text}) Tj " for x, text in cells)


SPACED = "BT /F1 12 Tf {} Tc 1 0 0 1 20 250 Tm (123) Tj ET"  # PDFium sees no spaces in it
TICKED = Page(
    line("Smoker", x=40, y=250) + line("Insured", x=40, y=226),
    ticks=[(20, 250, True), (20, 226, False)],
)
READ = (
    (PAGE, f"{'\n'.join(PARAGRAPH)}\n\nA paragraph of its own."),
    # Of a row of dots three stay.
    (line("1 Introduction . . . . . . . . . 7"), "1 Introduction ... 7"),
    (unicode_line("Привет 日本語 \ud800!"), "Привет 日本語 \U0001f600!"),
    # Cells side by side are apart.
    (f"BT /F1 12 Tf {in_cells((20, 12), (40, 3), (52, 0))} ET", "12 3 0"),
    (SPACED.format(4), "123"),
    (SPACED.format(20), "1 2 3"),
    # Accents are put onto their letters.
    (unicode_line("Ouz") + unicode_line("\u00a8", x=27), "Oüz"),
    (
        unicode_line("Pas") + unicode_line("\u00b8", x=34.4) + unicode_line("ca", x=41.6),
        "Paşca",
    ),
    # What a line goes through is crossed out.
    (line("250 EUR and more") + "1 w 20 254 m 95 254 l S ", "~~250 EUR and~~ more"),
    (line("250 EUR and more") + "20 253.4 75 .8 re f ", "~~250 EUR and~~ more"),
    (line("250 EUR and more") + "1 w 20 248 m 95 248 l S ", "250 EUR and more"),  # under it
    (line("250 EUR and more") + "1 w 0 254 m 400 254 l S ", "250 EUR and more"),  # across the page
    # Raised and lowered digits.
    *(
        (risen(*pieces) + line("2 of 3", y=220), f"{text}\n2 of 3")
        for pieces, text in (
            ([("250", 0), ("9", 5), (" EUR", 0)], "250⁹ EUR"),
            (
                [("3 . 10", 0), ("-6", 5), (" m", 0), ("2", 4), (" of water.", 0)],
                "3 . 10⁻⁶ m² of water.",
            ),
            ([("log", 0), ("2", -3), ("8 = 3, CO", 0), ("2", -2)], "log₂8 = 3, CO₂"),
            ([("250", 0), ("1,2", 5), (" EUR", 0)], "250^(1,2) EUR"),
            ([("Sum 250", 0), ("9", 5)], "Sum 250⁹"),
            ([("250 EUR", 0)], "250 EUR"),
        )
    ),
    (line("1,250") + line("2", x=54, y=254, size=7) + line("in May", x=64), "1,250² in May"),
    (line("Total 100") + line("12", x=130, y=255, size=7), "Total 100 12"),
    # What is filled in stands beside its label.
    (
        Page(
            line("Name", y=250)
            + line("Country", y=226)
            + line("First", y=200)
            + line("Second", x=150, y=200),
            notes=[
                line("Ada", x=100, y=250),
                line("Portugal", x=100, y=226),
                line("2", x=220, y=200),
                line("1", x=70, y=200),
                line("below", x=20, y=184),
            ],
        ),
        "Name Ada\nCountry Portugal\nFirst 1 Second 2\nbelow",
    ),
    (TICKED, "☒ Smoker\n☐ Insured"),
)


def test_a_line_is_read_as_it_is_seen():
    for content, text in READ:
        assert texts(content) == [text], text
    assert len(draw_page(pdf(TICKED), 1, spans=[(0, 8)], width=400).boxes) == 1
    for alef in "اأإآ":  # of a ligature the letters are in order
        data = pdf(unicode_line("ت\ud800كشم"), odd=f"0644{ord(alef):04X}")
        assert texts_of(data) == [f"مشكل{alef}ت"]


def test_what_cannot_be_read_is_a_problem():
    form = "/AcroForm << /XFA () /Fields [] >> /NeedsRendering true"  # that one program shows
    for why, data in (
        ("XFA", pdf(line("Please wait..."), catalog=form)),
        ("password", pdf(line("x"), encrypted=True)),
        ("2,000", pdf(*[""] * 2001)),
        *(("damaged", data) for data in (b"%PDF-1.7\n", b"%PDF-", pdf()[:100])),
    ):
        with pytest.raises(Problem, match=why):
            read_pdf(data)
    read = read_pdf(pdf(*[lines(["A page that other programs show too."] * 9)] * 4, catalog=form))
    assert (len(read.sections), len(read.left_out)) == (4, 1)


def test_a_picture_of_a_page_with_a_stamp_is_reported():
    scan = "q 400 0 0 300 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \xff EI Q "
    logo = "q 40 0 0 30 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \xff EI Q "
    stamp = line("Case 1:20-cv-01234 Page 1 of 3")
    whole = lines(["A page that was recognized has far more text than any stamp. "] * 4)
    for content, reported in ((scan + stamp, 1), (logo + stamp, 0), (scan + whole, 0), (stamp, 0)):
        assert len(read_pdf(pdf(content)).left_out) == reported


def in_table(*rows, xs=(20, 110, 200, 290)):
    """A table drawn row by row; of each row, the cells with bars between them."""
    cells = [(270 - 15 * i, row.split("|")) for i, row in enumerate(rows)]
    placed = [(*each, y) for y, row in cells for each in zip(row, xs, strict=False)]
    return "".join(line(text, x=x, y=y) for text, x, y in placed if text)


LEFT = [
    "the mill was built long ago by",
    "a family of weavers who came",
    "from the north in winter.",
]
RIGHT = [
    "the bridge is younger; it was",
    "paid by a tax on salt, and",
    "has seven arches of stone.",
]
MIXED = in_table(*map("{}|{}".format, LEFT, RIGHT), xs=(20, 210))
LABELS = lines(["Invoice", "Date", "Total"]) + lines(["R-20-11", "3 May 20", "1,428.00"], x=110)


LAID_OUT = (
    (MIXED, [*LEFT, "", *RIGHT]),
    (MIXED + line("It stands.", y=225), [*LEFT, "It stands.", "", *RIGHT]),
    (
        MIXED + line("A full line after both columns of it.", y=210),
        [*LEFT, "", *RIGHT, "", "A"],
    ),
    (lines(LEFT) + lines(RIGHT, x=210), [*LEFT, "", *RIGHT]),
    (LABELS, ["Invoice R-20-11", "Date 3 May 20", "Total 1,428.00"]),
    (
        lines(["Name:", "Born:"]) + lines(["Ada", "Rome", "End"], x=90),
        ["Name: Ada", "Born: Rome"],
    ),
    (
        in_table("Item|2024|2025|2026", "Rent|500||600", "Gas||80|90", "Oil|7||"),
        ["Item 2024 2025 2026", "Rent 500 – 600", "Gas – 80 90", "Oil 7 – –"],
    ),
    (
        in_table("A long|of a|50 EUR|60", "name|plan||", "Rent|flat||70", "Tax|city|1,20|80"),
        ["A long of a 50 EUR 60", "name plan", "Rent flat – 70", "Tax city 1,20 80"],
    ),
)


def test_a_page_is_read_as_it_is_laid_out():
    for content, read in LAID_OUT:
        assert texts(content)[0].startswith("\n".join(read)), read


def test_pages_have_their_printed_numbers():
    catalog = "/PageLabels << /Nums [0 << /S /r >> 2 << /S /D >> 3 << /S /D /St 4 >>] >>"
    read = read_pdf(pdf(*[line("a")] * 4, "", line("b"), catalog=catalog))
    assert [(each.kind, each.number, each.label, each.text) for each in read.sections] == [
        ("page", 1, "printed i", "a"),
        ("page", 2, "printed ii", "a"),
        ("page", 3, "printed 1", "a"),
        ("page", 4, "", "a"),
        ("page", 6, "", "b"),
    ]
    assert (read.without_text, read.faint, read.left_out) == ((), 0, ())


@pytest.mark.parametrize(
    ("font", "codes"),
    [
        ("Type0 /BaseFont /X /Encoding /Identity-H /DescendantFonts [6 0 R]", "0024000100450003"),
        ("TrueType /BaseFont /X /FirstChar 1 /LastChar 2 /Widths [600 600]", "01020304"),
        (
            "Type3 /FontBBox [0 0 9 9] /FontMatrix [.1 0 0 .1 0 0] /CharProcs << /a 5 0 R >>"
            " /Encoding << /Differences [1 /a /a /a] >> /FirstChar 1 /LastChar 3 /Widths [9 9 9]",
            "010302",
        ),
    ],
)
def test_a_page_whose_fonts_name_no_letters_has_no_text(font, codes):
    page = f"BT /F9 12 Tf 20 250 Td <{codes * 3}> Tj ET "
    made = pdf(page, line("Read."), more=[f"<< /Type /Font /Subtype /{font} >>"])
    private = pdf(unicode_line("\ue001\ue002 a"), line("Read."))
    for data in (made.replace(b"/F2 4", b"/F9 8"), private):
        read = read_pdf(data)
        assert ([each.text for each in read.sections], read.without_text) == (["Read."], (1,))
        assert len(read.left_out) == 1


def test_characters_that_nobody_sees_are_left_out_and_tiny_ones_counted():
    for content, faint, unseen in (
        (line("tiny", size=3), 4, 0),
        (line("tiny by its matrix", matrix=".2 0 0 .2"), 15, 0),
        (line("white", before="1 g"), 0, 5),
        ("0 g 0 240 400 40 re f " + line("white on black", before="1 g"), 0, 0),
        (line("unseen", before="3 Tr"), 0, 6),
        (line("under white") + "1 g 0 240 400 30 re f 0 g ", 0, 10),
        (line("under a frame") + "0 240 400 30 re S ", 0, 0),
        ("q .5 0 0 .5 0 0 cm 0 0 20 20 re W n " + line("beyond a clip") + "Q ", 0, 11),
        ("q 0 200 400 100 re W n " + line("within a clip") + "Q ", 0, 0),
    ):
        read = read_pdf(pdf(content + line("seen", y=50)))
        assert read.faint == faint
        assert (read.sections[0].text == "seen") == (unseen > 0)
        assert read.left_out == ((f"Hidden text: {unseen} characters.",) if unseen else ())


def test_layers_that_are_off_are_not_read():
    for state in ("/OFF [8 0 R]", "/BaseState /OFF", "/ON [8 0 R]"):
        catalog = f"/OCProperties << /OCGs [8 0 R 9 0 R] /D << {state} /Order [] >> >>"
        off = f"/OC /A BDC {line('7,000 EUR')} EMC\n" if "ON" not in state else ""
        page = Page(off + line("8,500 EUR", y=200), resources="/Properties << /A 8 0 R /B 9 0 R >>")
        layers = ["<< /Type /OCG /Name (A) >>", "<< /Type /OCG /Name (B) >>"]
        assert texts_of(pdf(page, catalog=catalog, more=layers)) == ["8,500 EUR"]


def test_only_under_a_picture_unpainted_text_is_recognized_text():
    picture = "q 100 0 0 100 200 50 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \xe0 EI Q "
    page = picture + line("under", x=210, y=100, before="3 Tr") + line("no", before="3 Tr")
    assert seen(read_pdf(pdf(page))) == (["under"], ("Hidden text: 2 characters.",))
    drawn = line("recognized", before="3 Tr")
    form = (  # a layer that is drawn as one
        f"<< /Length {len(drawn)} /Type /XObject /Subtype /Form /BBox [0 0 {WIDTH} {HEIGHT}]"
        f" /Resources << /Font << /F1 3 0 R >> >> >>\nstream\n{drawn}\nendstream"
    )
    scan = "q 400 0 0 300 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \xff EI Q /X Do "
    for content, read in ((scan, ["recognized"]), ("/X Do ", [])):
        page = Page(content, resources="/XObject << /X 8 0 R >>")
        assert texts_of(pdf(page, more=[form])) == read


def test_what_an_annotation_crosses_out_is_marked():
    quad = "/Rect [20 248 90 262] /QuadPoints [79 262 103 262 79 248 103 248]"
    note = f"/Annots [<< /Type /Annot /Subtype /StrikeOut {{}} {quad} /Contents (850) >>]"
    page = Page(line("The rent is 900 now."), more=note.format("/F 4"))
    assert texts(page) == ["The rent is ~~900~~ now.\n\nComment: 850"]
    assert draw_page(pdf(page), 1, spans=[(14, 17)], width=400).boxes
    hidden = Page(line("The rent is 900 now."), more=note.format("/F 2"))
    assert texts(hidden) == ["The rent is 900 now."]


def test_comments_of_all_kinds_and_attached_files_are_named():
    kinds = ("Square", "Circle", "Line", "Ink", "Stamp", "Polygon", "FreeText", "Caret", "Text")
    notes = "".join(
        f"<< /Type /Annot /Subtype /{kind} /Rect [60 70 90 90] /Contents ({kind}) >> "
        for kind in (*kinds, "Link", "Popup")
    )
    page = Page(line("Budget"), more=f"/Annots [{notes}]")
    (text,) = texts(page)
    assert draw_page(pdf(page), 1, spans=[(0, 99)], width=400).boxes
    assert text.split("\n\n")[1:] == [f"Comment: {kind}" for kind in kinds]
    file = "<< /Type /Filespec /F (a.csv) /UF (a.csv) /EF << /F 8 0 R >> >>"
    catalog = f"/Names << /EmbeddedFiles << /Names [(a.csv) {file}] >> >>"
    stream = "<< /Length 3 /Type /EmbeddedFile >>\nstream\na,b\nendstream"
    read = read_pdf(pdf(line("a"), catalog=catalog, more=[stream]))
    assert read.left_out == ("Attached files: a.csv.",)


def test_text_beyond_the_edges_is_left_out_and_reported():
    spread = lines(["left", "page"]) + lines(["right", "page"], x=WIDTH / 2 + 20)
    for content, more, text in (
        (line("seen") + line("beside", x=WIDTH + 20), "", "seen"),
        (line("seen") + line("above", y=HEIGHT + 20), "", "seen"),
        (spread, f"/CropBox [0 0 {WIDTH / 2} {HEIGHT}]", "left\npage"),
        (spread, f"/CropBox [{WIDTH / 2} 0 {WIDTH} {HEIGHT}]", "right\npage"),
    ):
        read = read_pdf(pdf(Page(content, more=more)))
        assert [section.text for section in read.sections] == [text]
        assert read.faint == 0
        assert len(read.left_out) == 1


def test_a_damaged_name_costs_no_text():
    half, gone = "<FEFFD83D0041>", "99 0 R"  # half a character
    listed = "/Names << /EmbeddedFiles << /Names [(a) {}] >> >>"
    note = f"<< /Type /Annot /Subtype /FileAttachment /Rect [0 0 9 9] /FS << /UF {half} >> >>"
    for page, more, catalog in (
        (line("x"), (), listed.format(gone)),
        (line("x"), ("",), listed.format(f"<< /UF {half} >>")),
        (line("x"), (), f"/PageLabels << /Nums [0 << /P {half} >>] >>"),
        (Page(line("x"), more="/Annots [8 0 R]"), (note,), ""),
    ):
        assert texts_of(pdf(page, more=more, catalog=catalog)) == ["x"]


def test_a_damaged_page_is_left_out_and_it_is_told():
    for first, found in ((line("One."), ([1], ())), ("0 0 9 9 re f", ([], (1,)))):
        before, mark, after = pdf(first, line("Two.")).rpartition(b"<< /Type /Page /Parent")
        read = read_pdf(before + b"[".ljust(len(mark) - 1) + b"]" + after)
        assert ([section.number for section in read.sections], read.without_text) == found
        assert len(read.left_out) == 1
    with pytest.raises(Problem):
        draw_page(before + b"null".ljust(len(mark)) + after, 2, spans=[], width=100)


# Boxes


def letters_in(data, boxes, size):
    """The letters of a page whose middles are in these boxes, as PDFium gives them."""
    page = pypdfium2.PdfDocument(data)[0]
    characters = page.get_textpage()
    across, up = size[0] / WIDTH, size[1] / HEIGHT
    found = ""
    for number in range(characters.count_chars()):
        left, bottom, right, top = characters.get_charbox(number)
        x, y = (left + right) / 2 * across, size[1] - (bottom + top) / 2 * up
        if any(box.left < x < box.right and box.top < y < box.bottom for box in boxes):
            found += characters.get_text_range(number, 1)
    return only_letters(found)


def only_letters(text):
    return "".join(filter(str.isalpha, text))


@settings(max_examples=examples(40))
@given(st.data())
def test_the_letters_in_the_boxes_are_those_of_the_span(data):
    file = pdf(PAGE)
    text = read_pdf(file).sections[0].text
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    picture = draw_page(file, 1, spans=[(start, end)], width=600)
    found = letters_in(file, picture.boxes, (picture.width, picture.height))
    assert found == only_letters(text[start:end])


def test_each_span_has_boxes_of_its_own_one_for_a_line():
    file = pdf(PAGE)
    text = read_pdf(file).sections[0].text
    second = text.index("it is")
    spans = [(0, 11), (second, text.index("ulated"))]
    picture = draw_page(file, 1, spans=spans, width=800)
    assert [box.span for box in picture.boxes] == [0, 1, 1]
    one, two, three = picture.boxes
    assert one.bottom <= two.top < two.bottom <= three.top + 2
    assert one.left == two.left == three.left
    file = pdf(unicode_line("ab\u200b\u200bcd efgh") + line("below", y=100))
    text, hidden = without_hidden(read_pdf(file).sections[0].text)
    assert hidden == 2
    dotted = pdf(line("Naming . . . . . . . . . . page 8"))
    for data, words, said in ((file, "ef", text), (dotted, "page", texts_of(dotted)[0])):
        start = said.index(words)  # hidden characters and left out dots are not counted
        picture = draw_page(data, 1, spans=[(start, start + len(words))], width=800)
        assert letters_in(data, picture.boxes, (picture.width, picture.height)) == words


def test_boxes_surround_the_ink_however_the_page_lies():
    for turn, crop in product((0, 90, 180, 270), ("", "/CropBox [10 100 300 290]")):
        file = pdf(Page(line("Hgjf", x=50, y=200), more=f"/Rotate {turn} {crop}"))
        picture = draw_page(file, 1, spans=[(0, 4)], width=800)
        image = Image.open(BytesIO(picture.png)).convert("L")
        assert image.size == (picture.width, picture.height)
        ink = image.point(lambda shade: 255 * (shade < 128)).getbbox()
        assert ink
        left, top, right, bottom = ink
        edges = [(box.left, box.top, box.right, box.bottom) for box in picture.boxes]
        lefts, tops, rights, bottoms = zip(*edges, strict=True)
        assert min(lefts) - 2 <= left < right <= max(rights) + 2
        assert min(tops) - 2 <= top < bottom <= max(bottoms) + 2
        size = (max(rights) - min(lefts)) * (max(bottoms) - min(tops))
        assert size < 4 * (right - left) * (bottom - top)


def test_a_page_of_any_shape_gives_a_picture_of_bounded_size():
    picture = draw_page(pdf(PAGE), 1, spans=[], width=1001)
    assert (picture.width, picture.height) == (1001, pytest.approx(1001 * HEIGHT / WIDTH, abs=1))
    for box in ("0 0 14000 1", "0 0 1 14000"):
        picture = draw_page(pdf(Page("", more=f"/MediaBox [{box}]")), 1, spans=[], width=10**9)
        assert 1 <= picture.width <= 4000
        assert 1 <= picture.height <= 4000
    for number in (0, 2):
        with pytest.raises(Problem):
            draw_page(pdf(PAGE), number, spans=[], width=100)
    spans = [(0, 0), (5, 2), (10**6, 10**7), (-5, -1)]  # which are not there
    assert draw_page(pdf(line("Short.")), 1, spans=spans, width=100).boxes == ()
