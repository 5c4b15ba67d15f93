"""Word documents beyond the samples: what is hidden, what is linked to, what is no document."""

from itertools import product

import pytest

from engine.documents.word import read_docx
from models.errors import Problem
from tests.support.documents.office import (
    chart,
    docx,
    paragraph,
    related,
    run,
    word_part,
    zipped,
)


def texts(body):
    return [section.text for section in read_docx(docx(body)).sections]


def test_spaces_and_breaks():
    body = paragraph(run("a ") + run(" b") + "<w:r><w:tab/><w:t>c</w:t><w:br/><w:t>d</w:t></w:r>")
    assert texts(body) == ["a b c\nd"]
    assert texts(paragraph("<w:r><w:t>a</w:t><w:cr/><w:t>b</w:t><w:ptab/><w:t>c</w:t></w:r>")) == [
        "a\nb c"
    ]


IN_HEADERS = (
    (run("Contract 4711"), True),
    (run("  "), False),
    (run("Page ") + '<w:fldSimple w:instr=" PAGE ">' + run("7") + "</w:fldSimple>", False),
    (run("Page ") + "<w:r><w:instrText> NUMPAGES </w:instrText></w:r>" + run("7"), False),
    (run("ACME") + "<w:r><w:tab/><w:instrText>PAGE</w:instrText></w:r>" + run("7"), True),
    ("<w:r><w:instrText>DATE</w:instrText></w:r>" + run("3 May"), True),
)


def test_of_headers_and_footers_that_say_something_it_is_told():
    for (content, told), kind in product(IN_HEADERS, ("hdr", "ftr")):
        part = word_part(kind, paragraph(content))
        read = read_docx(docx(paragraph(run("a")), parts={"word/header1.xml": part}))
        assert [section.text for section in read.sections] == ["a"]
        assert read.left_out == (("Headers and footers.",) if told else ()), content


TICKS = (  # of a content control, and of a form of Word 97
    '<w:sdt><w:sdtPr><w14:checkbox xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml">'
    '<w14:checked w14:val="{}"/></w14:checkbox></w:sdtPr><w:sdtContent>'
    + run("\u2612")
    + "</w:sdtContent></w:sdt>",
    '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:checkBox><w:default w:val="0"/>'
    '<w:checked w:val="{}"/></w:checkBox></w:ffData></w:fldChar></w:r>'
    "<w:r><w:instrText> FORMCHECKBOX </w:instrText></w:r>"
    '<w:r><w:fldChar w:fldCharType="end"/></w:r>',
)


def test_ticks():
    for tick in TICKS:
        smoker, insured = tick.format(1) + run(" Smoker"), tick.format(0) + run(" Insured")
        body = paragraph(smoker) + paragraph(insured)
        assert texts(body) == ["☒ Smoker\n\n☐ Insured"]
        table = f"<w:tbl><w:tr><w:tc>{body}</w:tc><w:tc>{paragraph(run('x'))}</w:tc></w:tr></w:tbl>"
        assert texts(table) == ["☒ Smoker ☐ Insured | x"]


def test_what_is_chosen_from_a_list():
    field = (
        '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList>{}'
        '<w:listEntry w:val="France"/><w:listEntry w:val="Portugal"/></w:ddList></w:ffData>'
        "</w:fldChar></w:r><w:r><w:instrText> FORMDROPDOWN </w:instrText></w:r>"
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )
    for chosen, text in (
        ('<w:result w:val="1"/>', "Portugal"),
        ('<w:default w:val="1"/>', "Portugal"),
        ("", "France"),
    ):
        body = paragraph(run("Country: ") + field.format(chosen) + run("."))
        assert texts(body) == [f"Country: {text}."]


def test_a_style_without_a_type_is_a_paragraphs():
    styles = word_part("styles", '<w:style w:styleId="A"><w:name w:val="heading 1"/></w:style>')
    read = read_docx(docx(paragraph(run("a"), style="A"), parts={"word/styles.xml": styles}))
    assert [(section.label, section.text) for section in read.sections] == [("a", "a")]


def test_comments_are_a_part_of_their_own():
    comment = (
        f'<w:comment w:id="7" w:author="Ada" w:initials="A">{paragraph(run("Since when?"))}'
        "</w:comment>"
    )
    note = f'<w:footnote w:id="2">{paragraph(run("As of 2026."))}</w:footnote>'
    body = paragraph(
        run("The rent is 900")
        + '<w:r><w:commentReference w:id="7"/></w:r>'
        + run(" euros")
        + '<w:r><w:footnoteReference w:id="2"/></w:r>'
        + '<w:r><w:commentReference w:id="8"/></w:r>'
    )
    parts = {
        "word/comments.xml": word_part("comments", comment),
        "word/footnotes.xml": word_part("footnotes", note),
    }
    read = read_docx(docx(body, parts=parts))
    assert [(each.label, each.text) for each in read.sections] == [
        ("", "The rent is 900[A1] euros[1]"),
        ("Notes", "1. As of 2026."),
        ("Comments", "Comment [A1]\n\nSince when?"),
    ]
    assert read.left_out == ("1 comment.",)


def test_charts_and_diagrams_are_read_or_reported():
    drawn = "<w:r><w:drawing><wp:inline><a:graphic><a:graphicData>{}</a:graphicData></a:graphic>"
    drawn += "</wp:inline></w:drawing></w:r>"
    parts = (
        '<c:chart xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" r:id="x"/>',
        '<d:relIds xmlns:d="http://schemas.openxmlformats.org/drawingml/2006/diagram" r:dm="x"/>',
    )
    body = paragraph(run("a") + "".join(drawn.format(part) for part in parts))
    assert read_docx(docx(body)).left_out == ("1 chart.", "1 diagram.")
    kept = {
        "word/_rels/document.xml.rels": related(
            ("c", "chart", "charts/chart1.xml"), ("d", "diagramData", "diagrams/data1.xml")
        ),
        "word/charts/chart1.xml": chart("Turnover", ["2024"], {"North": (0.1,)}),
        "word/diagrams/data1.xml": word_part("x", "<a:p><a:r><a:t>First step</a:t></a:r></a:p>"),
    }
    read = read_docx(docx(body, parts=kept))
    assert read.left_out == ()
    assert [(each.label, each.text) for each in read.sections] == [
        ("", "a"),
        ("Charts and diagrams", "Chart: Turnover\n | North\n2024 | 10%\n\nFirst step"),
    ]
    broken = {**kept, "word/charts/chart1.xml": "<c"}
    assert read_docx(docx(body, parts=broken)).left_out == ("1 chart.",)


def test_tabs_are_columns_and_symbols_are_characters():
    tab, looks = "<w:r><w:tab/></w:r>", '<w:rFonts w:ascii="{}"/>'.format
    symbol = '<w:r><w:sym w:font="Wingdings" w:char="F0{}"/></w:r>'.format
    for content, text in (
        (run("Rent") + tab + run("500") + tab + tab + run("600"), "Rent | 500 | | 600"),
        (tab + tab + run("Place") + tab + run("Date"), "Place Date"),
        (run("\uf0fe", looks("Wingdings")) + run("o", looks("Wingdings")) + run("o"), "☒☐o"),
        (symbol("FC") + symbol("A8") + symbol("E0") + run("³ 5", looks("Symbol")), "✓☐🡪≥ 5"),
        (run("a") + '<w:r><w:sym w:font="Wingdings"/></w:r>' + symbol("xyz") + run("b"), "ab"),
        (run("o", looks("Calibri")) + run("a", looks("Symbol")), "o\u03b1"),
    ):
        assert texts(paragraph(content)) == [text]


def test_inserted_files_are_read_in_their_places():
    files = {
        "a.htm": "<html><p>a page<table><tr><td>1<td>2</table>",
        "b.docx": docx(paragraph(run("a docx"))),
        "c.txt": "a text",
        "d.rtf": r"{\rtf1 no}",
    }
    parts = {f"word/{name}": data for name, data in files.items()}
    parts["word/_rels/document.xml.rels"] = related(*((n[0], "aFChunk", n) for n in files))
    body = "".join(f'<w:altChunk r:id="{name[0]}"/>' for name in files)
    read = read_docx(docx(body + paragraph(run("end")), parts=parts))
    lines = ("a page", "1 | 2", "a docx", "a text", "end")
    assert [each.text for each in read.sections] == ["\n\n".join(lines)]
    assert read.left_out == ("1 inserted file.",)


def test_a_box_that_only_newer_programs_draw_is_read():
    box = (
        '<w:r><mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/'
        '2006"><mc:Choice Requires="wps"><w:drawing><wp:anchor><a:graphic><a:graphicData><wps:wsp '
        'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"><wps:txbx>'
        f"<w:txbxContent>{paragraph(run('boxed'))}</w:txbxContent></wps:txbx></wps:wsp>"
        "</a:graphicData></a:graphic></wp:anchor></w:drawing></mc:Choice>{}</mc:AlternateContent></w:r>"
    )
    older = (
        '<mc:Fallback><w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml"><v:textbox>'
        f"<w:txbxContent>{paragraph(run('boxed'))}</w:txbxContent></v:textbox></v:shape></w:pict>"
        "</mc:Fallback>"
    )
    for fallback in ("", "<mc:Fallback/>", older):
        assert texts(paragraph(run("a") + box.replace("{}", fallback))) == ["a\n\nboxed"]


def test_a_part_that_is_not_needed_may_be_broken():
    data = docx(paragraph(run("a")), parts={"docProps/app.xml": "<a", "customXml/b.xml": "no XML"})
    assert [section.text for section in read_docx(data).sections] == ["a"]
    with pytest.raises(Problem):
        read_docx(docx(paragraph(run("a")), parts={"word/footnotes.xml": "<a"}))


def test_nothing_else_is_opened(monkeypatch):
    picture = (
        "<w:r><w:drawing><wp:inline><a:graphic><a:graphicData><pic:pic><pic:blipFill>"
        '<a:blip r:link="p"/></pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline>'
        "</w:drawing></w:r>"
    )
    parts = {
        "word/_rels/document.xml.rels": related(("p", "image", "file:///etc/hostname")),
        "mammoth/style-map": "p => h1:fresh",
    }
    monkeypatch.setattr("builtins.open", None)
    read = read_docx(docx(paragraph(run("a") + picture), parts=parts))
    assert [(section.label, section.text) for section in read.sections] == [("", "a")]
    assert read.left_out == ("1 picture.",)


def test_what_is_no_document():
    for data in (
        b"no zip",
        zipped({"word/document.xml": "<a/>"}),
        zipped({"[Content_Types].xml": "<a/>", "word/other.xml": "<a/>"}),
        docx("<w:p>" * 5000 + "</w:p>" * 5000),
    ):
        with pytest.raises(Problem):
            read_docx(data)
