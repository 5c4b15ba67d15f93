"""The automatic numbers of Word, as Word shows them."""

from engine.documents.numbering import written
from engine.documents.word import read_docx
from tests.support.documents.office import (
    docx,
    numbered_level,
    numbering_of,
    paragraph,
    run,
    used_list,
    word_part,
)

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
DELETED = (
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
    (items(1, 1, 0, 1), numbering_of(CONTRACT), "1.1 x; 1.2 x; Article 1 x; 1.1 x"),
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
    (items(0), numbering_of(OF_STYLE), "x"),
    # What is numbered but not shown; lists that are not there.
    (
        items(0) + DELETED + items(0) + paragraph("", item_of=1) + items(0),
        numbering_of(CONTRACT),
        "Article 1 x; Article 2 first x; Article 4 x",
    ),
    (items(0, of=9) + items(0, of=0) + items(5), numbering_of(numbered_level(0, "%1.")), "x; x; x"),
    (items(0), numbering_of(BULLETS), "x"),
)


def test_numbers_are_those_that_word_shows():
    for body, numbering, lines in SHOWN:
        assert shown(body, numbering, LIST_STYLE) == lines.split("; "), lines
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
