"""Word documents beyond the samples: what of them is read, what is told, and their numbers."""

from itertools import product

from engine.documents.numbering import written
from engine.documents.word import read_docx
from tests.support.documents.office import (
    chart,
    docx,
    numbered_level,
    numbering,
    numbering_of,
    paragraph,
    related,
    run,
    used_list,
    word_part,
)


def sign(kind):
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def said(text):
    return f'<w:r><w:instrText xml:space="preserve">{text}</w:instrText></w:r>'


def field(instruction, result):
    return sign("begin") + instruction + sign("separate") + result + sign("end")


def of_97(entries, kind):
    """A field of a form of Word 97."""
    begun = (
        f'<w:r><w:fldChar w:fldCharType="begin"><w:ffData>{entries}</w:ffData></w:fldChar></w:r>'
    )
    return begun + said(f" {kind} ") + sign("end")


def tags(name, *parts):
    return f"<{name}>{''.join(parts)}</{name}>"


def style(kind, name, looks, *, on="", usual=False):
    return (
        f'<w:style w:type="{kind}" w:styleId="{name}" w:default="{int(usual)}">'
        f'<w:name w:val="{name}"/><w:basedOn w:val="{on}"/><w:rPr>{looks}</w:rPr></w:style>'
    )


STYLES = (
    style("character", "Secret", "<w:vanish/>")
    + style("character", "Gone", "<w:strike/>")
    + style("character", "High", '<w:vertAlign w:val="superscript"/>')
    + style("paragraph", "Draft", "<w:vanish/>")
    + style("paragraph", "Child", "", on="Draft")
    + style("paragraph", "Old", "<w:dstrike/>")
    + style("paragraph", "Struck", "<w:strike/>")
    + '<w:style w:styleId="H"><w:name w:val="heading 1"/></w:style>'  # of a paragraph
)
ROW = "<w:tr><w:trPr>{}</w:trPr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr>"


def read(body, styles=STYLES, **parts):
    """The labels and texts of the sections, and what is told."""
    files = {f"word/{name}.xml": content for name, content in parts.items()}
    found = read_docx(docx(body, parts={"word/styles.xml": word_part("styles", styles), **files}))
    return [(each.label, each.text) for each in found.sections], found.left_out


MERGED = field(said("MERGEFIELD Sex"), run("F"))
TAB, FONT = "<w:r><w:tab/></w:r>", '<w:rFonts w:ascii="{}"/>'.format
SYMBOL = '<w:r><w:sym w:font="Wingdings" w:char="F0{}"/></w:r>'.format
TICKED = (  # of a content control, and of a form of Word 97
    '<w:sdt><w:sdtPr><w14:checkbox xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml">'
    '<w14:checked w14:val="{}"/></w14:checkbox></w:sdtPr><w:sdtContent>'
    + run("\u2612")
    + "</w:sdtContent></w:sdt>",
    of_97('<w:checkBox><w:default w:val="0"/><w:checked w:val="{}"/></w:checkBox>', "FORMCHECKBOX"),
)
CHOICES = '<w:ddList>{}<w:listEntry w:val="France"/><w:listEntry w:val="Portugal"/></w:ddList>'
IN_LINE = (
    # Of a field its result.
    (run("Dear ") + field(said("IF ") + MERGED + said('= "M"'), run("Ms")), "Dear Ms"),
    (field(said("=") + field(said("=") + MERGED, run("2")), run("3")), "3"),
    (field(said("TOC"), run("Scope ") + field(said("PAGEREF"), run("3"))), "Scope 3"),
    (run("a") + sign("begin") + said("XE") + run("no") + sign("end") + run("b"), "ab"),
    *(
        (run("Country: ") + of_97(CHOICES.format(chosen), "FORMDROPDOWN") + run("."), text)
        for chosen, text in (
            ('<w:result w:val="1"/>', "Country: Portugal."),
            ('<w:default w:val="1"/>', "Country: Portugal."),
            ("", "Country: France."),
        )
    ),
    *((tick.format(1) + run(" a ") + tick.format(0) + run(" b"), "☒ a ☐ b") for tick in TICKED),
    # How it looks.
    (run("a ", "<w:dstrike/>") + run("b ", "<w:strike/>") + run("c"), "~~a b~~ c"),
    (run("a", '<w:rStyle w:val="Gone"/>') + run("b"), "~~a~~b"),
    (run("10") + run("6", '<w:rStyle w:val="High"/>'), "10⁶"),
    (run("10") + run("6", '<w:position w:val="6"/>'), "10⁶"),
    (run("CO") + run("2", '<w:vertAlign w:val="subscript"/>'), "CO₂"),
    (run("a") + run("no", '<w:vanish w:val="0"/>'), "ano"),
    # Spaces and breaks; tabs are columns, and symbols are characters.
    (
        run("a ") + run(" b") + "<w:r><w:tab/><w:t>c</w:t><w:br/><w:t>d</w:t></w:r>",
        "a b c\nd",
    ),
    (run("Rent") + TAB + run("500") + TAB + TAB + run("600"), "Rent | 500 | | 600"),
    (run("\uf0fe", FONT("Wingdings")) + run("o", FONT("Wingdings")) + run("o"), "☒☐o"),
    (SYMBOL("FC") + SYMBOL("A8") + SYMBOL("E0") + run("³ 5", FONT("Symbol")), "✓☐🡪≥ 5"),
    (run("a") + '<w:r><w:sym w:font="Wingdings"/></w:r>' + SYMBOL("xyz") + run("b"), "ab"),
    (run("o", FONT("Calibri")) + run("a", FONT("Symbol")), "o\u03b1"),
)


def of(text):
    return tags("m:r", tags("m:t", text))


FORMULAS = (
    (tags("m:f", tags("m:num", of("5")), tags("m:den", of("16"))), "1 5/16"),
    (tags("m:f", tags("m:num", of("1")), tags("m:den", of("2"))), "1½"),
    (tags("m:sSup", tags("m:e", of("0")), tags("m:sup", of("6"))), "1 0⁶"),
    (tags("m:rad", tags("m:deg"), tags("m:e", of("16"))), "1√16"),
    (tags("m:nary", *(tags(f"m:{each}", of("n")) for each in ("sub", "sup", "e"))), "1∫ₙⁿ n"),
    (tags("m:d", '<m:dPr><m:begChr m:val="["/></m:dPr>', tags("m:e", of("a"))), "1[a)"),
)


def test_a_line_is_read_as_it_is_seen():
    formulas = [
        (run("Take 1") + written + run(" cups"), f"Take {text} cups")
        for formula, text in FORMULAS
        for written in (tags("m:oMath", formula), tags("m:oMathPara", tags("m:oMath", formula)))
    ]
    for content, text in (*IN_LINE, *formulas):
        assert read(paragraph(content)) == ([("", text)], ()), content


HIDDEN = (
    paragraph(run("no", "<w:vanish/>")),
    paragraph(f'<w:hyperlink w:anchor="x">{run("no", "<w:vanish/>")}</w:hyperlink>'),
    paragraph(run("no", '<w:rStyle w:val="Secret"/>')),
    paragraph(run("no"), style="Draft"),
    paragraph(run("no"), style="Child"),
    paragraph(run("no", '<w:color w:val="FFFFFF"/>')),
    paragraph(
        f"<w:r><w:rPr><w:vanish/></w:rPr><w:pict><w:txbxContent>{paragraph(run('no'))}</w:txbxContent></w:pict></w:r>"
    ),
    f"<w:tbl>{ROW.format('<w:hidden/>', paragraph(run('n')), paragraph(run('o')))}</w:tbl>",
)
BOX = (  # which only newer programs draw
    '<w:r><mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/'
    '2006"><mc:Choice Requires="wps"><w:drawing><wp:anchor><a:graphic><a:graphicData><wps:wsp '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"><wps:txbx>'
    f"<w:txbxContent>{paragraph(run('boxed'))}</w:txbxContent></wps:txbx></wps:wsp>"
    "</a:graphicData></a:graphic></wp:anchor></w:drawing></mc:Choice>{}</mc:AlternateContent></w:r>"
)
OLDER_BOX = (
    '<mc:Fallback><w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml"><v:textbox>'
    f"<w:txbxContent>{paragraph(run('boxed'))}</w:txbxContent></v:textbox></v:shape></w:pict>"
    "</mc:Fallback>"
)
DELETED = "<w:del><w:r><w:delText>{}</w:delText></w:r></w:del>"
CELL_DELETED = f"<w:tcPr><w:cellDel/></w:tcPr>{paragraph(run('Desk'))}"
ENDING = "<w:p><w:pPr><w:rPr>{}</w:rPr></w:pPr>{}</w:p>".format
SUGGESTED = "{} suggested change{}, with the deleted text crossed out.".format
READ = (
    *((body + paragraph(run("yes")), "yes", "Hidden text: 2 characters.") for body in HIDDEN),
    # A hidden end of a paragraph joins.
    (ENDING("<w:vanish/>", run("Term. ")) + paragraph(run("A day")), "Term. A day", ""),
    (
        ENDING("<w:vanish/><w:specVanish/>", run("Term. ")) + paragraph(run("A day")),
        "Term.\n\nA day",
        "",
    ),
    # What a suggestion deletes is crossed out.
    (
        f"<w:tbl>{ROW.format('<w:del/>', paragraph(run('Sofa')), paragraph(run('900')))}"
        f"{ROW.format('', CELL_DELETED, paragraph(run('300')))}</w:tbl>",
        "~~Sofa~~ | ~~900~~\n~~Desk~~ | 300",
        SUGGESTED(2, "s"),
    ),
    (paragraph(DELETED.format("5") + f"<w:ins>{run('7')}</w:ins> "), "~~5~~7", SUGGESTED(2, "s")),
    (
        ENDING("<w:del/>", DELETED.format("Old.")) + paragraph(run("New.")),
        "~~Old.~~ New.",
        SUGGESTED(1, ""),
    ),
    # What nothing reads.
    (
        paragraph(run("a") + '<w:r><w:object><o:OLEObject xmlns:o="o"/></w:object></w:r>'),
        "a",
        "1 embedded object.",
    ),
    (
        paragraph(run("a") + sign("begin") + said(r"EQ \f(1,2)") + sign("end")),
        "a",
        "1 formula.",
    ),
    # Several paragraphs.
    (paragraph(run("a", '<w:strike w:val="0"/>'), style="Struck"), "a", ""),
    (
        paragraph(run("a ") + sign("begin") + said("IF") + run("no"))
        + paragraph(run("no") + sign("separate") + run("b"))
        + paragraph(run("c") + sign("end") + run(" d")),
        "a\n\nb\n\nc d",
        "",
    ),
    *(
        (paragraph(run("a") + BOX.replace("{}", older)), "a\n\nboxed", "")
        for older in ("", "<mc:Fallback/>", OLDER_BOX)
    ),
)


def test_what_is_seen_is_read_and_the_rest_is_told():
    for body, text, told in READ:
        assert read(body) == ([("", text)], (told,) if told else ()), body
    assert read(paragraph(run("a"), style="H")) == ([("a", "a")], ())


def test_defaults_hide_too_and_styles_turn_each_other_round():
    hidden = (
        "<w:docDefaults><w:rPrDefault><w:rPr><w:vanish/></w:rPr></w:rPrDefault></w:docDefaults>"
    )
    body = paragraph(run("no") + run("yes", '<w:vanish w:val="0"/>'))
    for styles in (hidden, style("paragraph", "Normal", "<w:vanish/>", usual=True)):
        assert read(body, styles) == ([("", "yes")], ("Hidden text: 2 characters.",))
    shown = paragraph(run("yes", '<w:rStyle w:val="Secret"/>'), style="Draft")
    shaded = run(" yes", '<w:color w:val="FFFFFF"/><w:shd w:val="clear" w:fill="000000"/>')
    assert read(shown + paragraph(shaded)) == ([("", "yes yes")], ())
    listed = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="2"/></w:numPr><w:rPr><w:vanish/></w:rPr>'
    item = f"<w:p><w:pPr>{listed}</w:pPr>{run('no', '<w:vanish/>')}</w:p>"  # without a number
    body = paragraph(run("a"), item_of=2) + item + paragraph(run("b"), item_of=2)
    assert read(body, numbering=numbering())[0] == [("", "1. a\n2. b")]


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
        found = read(paragraph(run("a")), header1=word_part(kind, paragraph(content)))
        assert found == ([("", "a")], ("Headers and footers.",) if told else ()), content


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
    parts = {"comments": word_part("comments", comment), "footnotes": word_part("footnotes", note)}
    assert read(body, **parts) == (
        [
            ("", "The rent is 900[A1] euros[1]"),
            ("Notes", "1. As of 2026."),
            ("Comments", "Comment [A1]\n\nSince when?"),
        ],
        ("1 comment.",),
    )


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
    found = read_docx(docx(body, parts=kept))
    assert found.left_out == ()
    assert [(each.label, each.text) for each in found.sections] == [
        ("", "a"),
        ("Charts and diagrams", "Chart: Turnover\n | North\n2024 | 10%\n\nFirst step"),
    ]
    broken = {**kept, "word/charts/chart1.xml": "<c"}
    assert read_docx(docx(body, parts=broken)).left_out == ("1 chart.",)


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
    found = read_docx(docx(body + paragraph(run("end")), parts=parts))
    lines = ("a page", "1 | 2", "a docx", "a text", "end")
    assert [each.text for each in found.sections] == ["\n\n".join(lines)]
    assert found.left_out == ("1 inserted file.",)


# The automatic numbers, as Word shows them


CONTRACT = (
    numbered_level(0, "Article %1")
    + numbered_level(1, "%1.%2")
    + numbered_level(2, "(%3)", kind="lowerLetter")
)


def shown(paragraphs, numbering, styles=""):
    """The lines of a document."""
    parts = {"word/numbering.xml": numbering}
    if styles:
        parts["word/styles.xml"] = word_part("styles", styles)
    sections = read_docx(docx(paragraphs, parts=parts)).sections
    return [line for each in sections for line in each.text.splitlines() if line]


def items(*levels, of=1):
    return "".join(paragraph(run("x"), item_of=of, level=level) for level in levels)


LEGAL = numbered_level(0, "Article %1", kind="upperRoman") + numbered_level(
    1, "Section %1.%2", kind="decimalZero", more="<w:isLgl/>"
)  # digits, whatever the levels above look like
AGAIN = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride>'
OTHER = f'<w:lvlOverride w:ilvl="0">{numbered_level(0, "§ %1")}</w:lvlOverride>'
NEVER_ANEW = numbered_level(0, "%1.") + numbered_level(
    1, "Item %2", more='<w:lvlRestart w:val="0"/>'
)
ANEW_AFTER_FIRST = (
    numbered_level(0, "%1.")
    + numbered_level(1, "%2.")
    + numbered_level(2, "%3)", more='<w:lvlRestart w:val="1"/>')
)
DELETED_ITEM = (
    '<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr><w:rPr>'
    f'<w:del w:id="1"/></w:rPr></w:pPr>{run("first ")}</w:p>'
)
TIGHT = numbered_level(0, "%1", more='<w:suff w:val="nothing"/>')
TABLE = f"<w:tbl><w:tr>{''.join(f'<w:tc>{items(0)}</w:tc>' for _ in '12')}</w:tr></w:tbl>"
LIST_STYLE = (
    '<w:style w:type="numbering" w:styleId="L"><w:pPr><w:numPr><w:numId w:val="1"/>'
    "</w:numPr></w:pPr></w:style>"
)
OF_STYLE = '<w:numStyleLink w:val="L"/>'
BULLETS = numbered_level(0, "", kind="none")
SHOWN = (
    # Levels count, and begin again.
    (
        items(0, 2, 2, 1, 2, 0, 1),
        numbering_of(CONTRACT),
        "Article 1 x; (a) x; (b) x; 1.1 x; (a) x; Article 2 x; 2.1 x",
    ),
    (
        items(0) + paragraph(run("between")) + items(0, of=2) + items(0, 1),
        numbering_of(CONTRACT, numbered_level(0, "%1)", kind="upperRoman")),
        "Article 1 x; between; I) x; Article 2 x; 2.1 x",
    ),
    (items(0, 1), numbering_of(LEGAL), "Article I x; Section 1.1 x"),
    (items(0, 1, 0, 1), numbering_of(NEVER_ANEW), "1. x; Item 1 x; 2. x; Item 2 x"),
    (
        items(0, 1, 2, 1, 2, 0, 2),
        numbering_of(ANEW_AFTER_FIRST),
        "1. x; 1. x; 1) x; 2. x; 2) x; 2. x; 1) x",
    ),
    # Lists of one kind count together, unless one starts again.
    (
        items(0) + items(0, of=2) + items(0, 0, 1, of=3) + items(0),
        numbering_of(CONTRACT, uses=used_list(2, 1) + used_list(3, 1, AGAIN)),
        "Article 1 x; Article 2 x; Article 7 x; Article 8 x; 8.1 x; Article 9 x",
    ),
    (
        items(0, 1, of=2),
        numbering_of(CONTRACT, uses=used_list(2, 1, OTHER)),
        "§ 1 x; 1.1 x",
    ),
    (TABLE, numbering_of(TIGHT), "1x | 2x"),
    # The list of a style; in a circle.
    (items(0, 1, of=2), numbering_of(CONTRACT, OF_STYLE), "Article 1 x; 1.1 x"),
    # What is numbered but not shown; lists that are not there.
    (
        items(0) + DELETED_ITEM + items(0) + paragraph("", item_of=1) + items(0),
        numbering_of(CONTRACT),
        "Article 1 x; Article 2 first x; Article 4 x",
    ),
    (items(0, of=9) + items(0, of=0) + items(5), numbering_of(numbered_level(0, "%1.")), "x; x; x"),
    (items(0), numbering_of(BULLETS), "x"),
)


def test_numbers_are_those_that_word_shows():
    for body, lists, lines in SHOWN:
        assert shown(body, lists, LIST_STYLE) == lines.split("; "), lines
    assert [each.text for each in read_docx(docx(items(0))).sections] == ["x"]


def test_styles_number_their_paragraphs():
    def style(name, content, based_on=""):
        parent = f'<w:basedOn w:val="{based_on}"/>' if based_on else ""
        return (
            f'<w:style w:type="paragraph" w:styleId="{name}"><w:name w:val="{name}"/>{parent}'
            f"<w:pPr>{content}</w:pPr></w:style>"
        )

    numbers = '<w:numPr>{}<w:numId w:val="{}"/></w:numPr>'
    linked = numbered_level(0, "%1.", more='<w:pStyle w:val="heading 1"/>') + numbered_level(
        1, "%1.%2", more='<w:pStyle w:val="heading 2"/>'
    )
    styles = (
        style("heading 1", numbers.format("", 1))
        + style("heading 2", '<w:numPr><w:ilvl w:val="1"/></w:numPr>', "heading 1")
        + style("Child", "", "heading 2")
        + style("Plain", numbers.format("", 0), "heading 1")
    )
    body = "".join(
        paragraph(run(name), style=name)
        for name in ("heading 1", "heading 2", "Child", "Plain", "heading 1")
    )
    assert shown(body, numbering_of(linked), styles) == [
        *("1. heading 1", "1.1 heading 2", "1.2 Child", "Plain", "2. heading 1")
    ]


FORMATS = (
    ("upperRoman", (4, 9, 40, 1999), ("IV", "IX", "XL", "MCMXCIX")),
    ("lowerRoman", (3,), ("iii",)), ("lowerLetter", (1, 26, 27, 53), ("a", "z", "aa", "aaa")),
    ("upperLetter", (2,), ("B",)), ("decimalZero", (7, 12), ("07", "12")),
    ("001", (7,), ("007",)),
    ("ordinal", (1, 2, 3, 11, 22), ("1st", "2nd", "3rd", "11th", "22nd")),
    ("decimalEnclosedCircle", (3,), ("③",)), ("decimalFullWidth", (12,), ("\uff11\uff12",)),
    ("russianLower", (1, 3), ("а", "в")),  # noqa: RUF001
    ("chineseCounting", (3, 10, 11, 20, 105), ("三", "十", "十一", "二十", "一百〇五")),
    ("ideographTraditional", (2,), ("乙",)), ("ganada", (2,), ("나",)), ("aiueo", (2,), ("イ",)),
    ("hebrew1", (2, 15, 116, 127), ("ב", "טו", "קטז", "קכז")),  # noqa: RUF001
    ("hebrew2", (11,), ("כ",)), ("thaiLetters", (2,), ("2",)), ("arabicAlpha", (2,), ("ب",)),
    ("arabicAbjad", (3,), ("3",)), ("iroha", (2,), ("2",)),
    ("ideographDigital", (12,), ("12",)), ("cardinalText", (2,), ("2",)),
    ("upperRoman", (0, 99_999), ("0", "99999")),
)  # fmt: skip


def test_formats():
    for kind, counts, texts in FORMATS:
        assert tuple(written(count, kind) for count in counts) == texts, kind
