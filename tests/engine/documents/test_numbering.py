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


def test_levels_count_and_begin_anew():
    for levels, numbers in (
        ((0, 2, 2, 1, 2, 0, 1), ["Article 1", "(a)", "(b)", "1.1", "(a)", "Article 2", "2.1"]),
        ((1, 1, 0, 1), ["1.1", "1.2", "Article 1", "1.1"]),  # a level before the one above
    ):
        assert shown(items(*levels), numbering_of(CONTRACT)) == [f"{each} x" for each in numbers]
    body = items(0) + paragraph(run("between")) + items(0, of=2) + items(0, 1)
    lists = numbering_of(CONTRACT, numbered_level(0, "%1)", kind="upperRoman"))
    assert shown(body, lists) == ["Article 1 x", "between", "I) x", "Article 2 x", "2.1 x"]
    legal = numbered_level(0, "Article %1", kind="upperRoman") + numbered_level(
        1, "Section %1.%2", kind="decimalZero", more="<w:isLgl/>"
    )  # digits, whatever the levels above look like
    assert shown(items(0, 1), numbering_of(legal)) == ["Article I x", "Section 1.1 x"]
    tight = numbered_level(0, "%1", more='<w:suff w:val="nothing"/>')
    table = f"<w:tbl><w:tr>{''.join(f'<w:tc>{items(0)}</w:tc>' for _ in '12')}</w:tr></w:tbl>"
    assert shown(table, numbering_of(tight)) == ["1x | 2x"]


def test_lists_of_one_kind_count_together_unless_one_starts_anew():
    again = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride>'
    lists = numbering_of(CONTRACT, uses=used_list(2, 1) + used_list(3, 1, again))
    body = items(0) + items(0, of=2) + items(0, 0, 1, of=3) + items(0)
    assert shown(body, lists) == [
        *("Article 1 x", "Article 2 x", "Article 7 x", "Article 8 x", "8.1 x", "Article 9 x")
    ]
    other = f'<w:lvlOverride w:ilvl="0">{numbered_level(0, "§ %1")}</w:lvlOverride>'
    lists = numbering_of(CONTRACT, uses=used_list(2, 1, other))  # with a level of its own
    assert shown(items(0, 1, of=2), lists) == ["§ 1 x", "1.1 x"]


def test_a_level_may_go_on_or_begin_behind_another_one_only():
    never = numbered_level(0, "%1.") + numbered_level(
        1, "Item %2", more='<w:lvlRestart w:val="0"/>'
    )
    assert shown(items(0, 1, 0, 1), numbering_of(never)) == ["1. x", "Item 1 x", "2. x", "Item 2 x"]
    by_first = (
        numbered_level(0, "%1.")
        + numbered_level(1, "%2.")
        + numbered_level(2, "%3)", more='<w:lvlRestart w:val="1"/>')
    )
    assert shown(items(0, 1, 2, 1, 2, 0, 2), numbering_of(by_first)) == [
        *("1. x", "1. x", "1) x", "2. x", "2) x", "2. x", "1) x")
    ]


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


def test_a_list_may_be_the_one_of_a_style():
    styles = (
        '<w:style w:type="numbering" w:styleId="L"><w:pPr><w:numPr><w:numId w:val="1"/>'
        "</w:numPr></w:pPr></w:style>"
    )
    lists = numbering_of(CONTRACT, '<w:numStyleLink w:val="L"/>')
    assert shown(items(0, 1, of=2), lists, styles) == ["Article 1 x", "1.1 x"]
    circle = numbering_of('<w:numStyleLink w:val="L"/>')
    assert shown(items(0), circle, styles) == ["x"]


def test_what_is_numbered_but_not_shown():
    deleted = '<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr><w:rPr>'
    deleted += f'<w:del w:id="1"/></w:rPr></w:pPr>{run("first ")}</w:p>'
    empty = paragraph("", item_of=1)
    body = items(0) + deleted + items(0) + empty + items(0)
    assert shown(body, numbering_of(CONTRACT)) == [
        "Article 1 x",
        "Article 2 first x",
        "Article 4 x",
    ]


def test_lists_that_are_not_there_number_nothing():
    body = items(0, of=9) + items(0, of=0) + items(5)
    assert shown(body, numbering_of(numbered_level(0, "%1."))) == ["x", "x", "x"]
    assert [each.text for each in read_docx(docx(items(0))).sections] == ["x"]
    assert shown(items(0), numbering_of(numbered_level(0, "", kind="none"))) == ["x"]


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
