"""Presentations beyond the samples: what a slide says, what it draws, and what no one sees."""

from xml.etree.ElementTree import fromstring

from engine.documents.charts import chart_text
from engine.documents.slides import read_pptx
from tests.support.documents.office import chart, parts_of, pptx, related, shape, slide, zipped
from tests.support.documents.samples import seen

LINKS = "ppt/slides/_rels/slide1.xml.rels"


def text_of(*shapes, parts=None, notes=None):
    (section,) = read_pptx(pptx([slide(*shapes)], parts=parts, notes=notes)).sections
    return section.text


def text_run(text, looks=""):
    return f"<a:r><a:rPr {looks}/><a:t>{text}</a:t></a:r>"


def line(*runs):
    return f"<a:p>{''.join(runs)}</a:p>"


def table(*rows):
    """Of rows of cells, each its content and its attributes."""
    cells = "<a:tc {1}><a:txBody>{0}</a:txBody></a:tc>".format
    drawn = "".join(f"<a:tr>{''.join(cells(*cell) for cell in row)}</a:tr>" for row in rows)
    return f"<p:graphicFrame><a:graphic><a:tbl>{drawn}</a:tbl></a:graphic></p:graphicFrame>"


NUMBERED = (
    (0, "arabicPeriod"), (0, "arabicPeriod"), (1, "alphaLcParenR"), (1, "alphaLcParenR"),
    (0, "arabicPeriod"), (1, "alphaLcParenR"), (1, ""), (0, 'romanUcParenBoth" startAt="4'),
)  # fmt: skip
ITEM = '<a:p><a:pPr lvl="{}"><a:buAutoNum type="{}"/></a:pPr><a:r><a:t>x</a:t></a:r></a:p>'
ITEMS = [ITEM.format(*each).replace('<a:buAutoNum type=""/>', "") for each in NUMBERED]
STRUCK = (
    text_run("was ", 'strike="noStrike"')
    + text_run("95", 'strike="sngStrike"')
    + text_run("0 EUR ", 'strike="dblStrike"')
)
STRIKES = '<a:lstStyle><a:lvl1pPr><a:defRPr strike="sngStrike"/></a:lvl1pPr></a:lstStyle>'
SQUARE = "<a:sSup><a:e><a:r><a:t>r</a:t></a:r></a:e><a:sup><a:r><a:t>2</a:t></a:r></a:sup></a:sSup>"
FORMULA = f"<a:m><a:oMath><a:r><a:t>π</a:t></a:r>{SQUARE}</a:oMath></a:m>"
OTHER_FORMULA = f"<mc:AlternateContent><mc:Choice>{FORMULA}</mc:Choice></mc:AlternateContent>"
READ = (
    *((shape("a") + shape("b", kind=kind), "a") for kind in ("dt", "ftr", "hdr", "sldNum")),
    (
        shape(
            line(
                text_run("a "),
                "<a:fld><a:t>2026</a:t></a:fld><a:br/>",
                text_run("b"),
                "<a:endParaRPr/>",
            ),
            "c",
        ),
        "a 2026\nb\nc",
    ),
    (shape(*ITEMS), "1. x\n2. x\n  a) x\n  b) x\n3. x\n  a) x\n  x\n(IV) x"),
    (
        table(
            ((line(text_run("North")), 'rowSpan="2"'), (line(text_run("Ann")), "")),
            ((line(), 'vMerge="1"'), (line(text_run("Ben")), "")),
            ((line(), 'vMerge="1"'), (line(), "")),
        ),
        "North | Ann\nNorth | Ben",
    ),
    (shape("old").replace("<a:p>", f"{STRIKES}<a:p>"), "~~old~~"),
    (
        shape(line(STRUCK, text_run("now 1"))) + table(((line(STRUCK), ""), (line(STRUCK), ""))),
        "was ~~950 EUR~~ now 1\n\nwas ~~950 EUR~~ | was ~~950 EUR~~",
    ),
    (
        shape(
            line(text_run("Area "), FORMULA),
            line(text_run("Or "), OTHER_FORMULA, text_run("!")),
            line(text_run("250"), text_run("1,2", 'baseline="30000"')),
        ),
        "Area πr²\nOr πr²!\n250^(1,2)",
    ),
)


def test_a_slide_is_read_as_it_is_seen_without_what_stands_on_every_slide():
    for shapes, text in READ:
        assert seen(read_pptx(pptx([slide(shapes)]))) == ([text], ()), text


def test_a_chart_is_read_as_its_table():
    drawn = chart("Turnover", ["2024", "2025"], {"North": (0.1, 0.2), "South": (0.3,)})
    parts = {
        LINKS: related(("c", "chart", "../charts/chart1.xml")),
        "ppt/charts/chart1.xml": drawn,
    }
    read = read_pptx(pptx([slide(shape("a"), "<p:pic/>")], parts=parts))
    text = "a\n\nChart: Turnover\n | North | South\n2024 | 10% | 30%\n2025 | 20% | "
    assert seen(read) == ([text], ("Pictures: 1.",))
    unread = '<p:graphicFrame><c:chart xmlns:c="http://x/chart"/></p:graphicFrame>'
    assert read_pptx(pptx([slide(shape("a"), unread)])).left_out == ("Charts: 1.",)
    frame = '<p:nvGraphicFramePr><p:cNvPr hidden="1"/></p:nvGraphicFramePr>'
    hidden = f'<p:graphicFrame>{frame}<c:chart xmlns:c="http://x/chart" r:id="c"/></p:graphicFrame>'
    assert text_of(shape("a"), hidden, parts=parts) == "a"


def test_numbers_of_a_chart_look_as_they_are_shown():
    for number, number_format, since, text in (
        (46_082.5, "General", "", "46082.5"),
        (46_082.5, "[$-409]d-mmm-yy", "", "2026-03-01"),
        (46_082.5, ";;;", "", "46082.5"),
        (44_560, "d/m/yy", '<c:date1904 val="1"/>', "2025-12-31"),
    ):
        drawn = chart("", ["a"], {"": (number,)}).replace("0%", number_format)
        drawn = drawn.replace("<c:chart>", f"{since}<c:chart>")
        assert chart_text(fromstring(drawn)) == f"Chart\na | {text}"
    assert chart_text(fromstring(chart("Turnover", ["2024"], {}))) == ""
    odd = chart("", ["a"], {"b": (1,)}).replace('idx="0"', 'idx="x"')
    assert chart_text(fromstring(odd)) == ""


def test_what_the_axes_and_the_categories_of_a_chart_say_is_kept():
    drawn = chart("Turnover", ["2024", "2025"], {"North": (0.1, 0.2), "West": (0.2, 0.4)})
    other = chart("", ["2030"], {"South": (0.3,)}).partition("<c:ser>")[2].partition("</c:bar")[0]
    points = "".join(f'<c:pt idx="{i}"><c:v>Q{4 - i}</c:v></c:pt>' for i in range(3))
    years = "".join(f'<c:pt idx="{i}"><c:v>{year}</c:v></c:pt>' for i, year in ((0, 24), (2, 25)))
    levels = f"<c:cat><c:lvl>{points}</c:lvl><c:lvl>{years}</c:lvl></c:cat><c:val><c:numCache>"
    numbers = "".join(f'<c:pt idx="{i}"><c:v>{i}</c:v></c:pt>' for i in range(3))
    series = f"{levels}{numbers}</c:numCache></c:val></c:ser>"
    axis = "<c:valAx><c:title><a:t>EUR million</a:t></c:title></c:valAx></c:plotArea>"
    cell = "<c:title><c:tx><c:strRef><c:strCache><c:pt><c:v>Of a cell</c:v>"
    cell += "</c:pt></c:strCache></c:strRef></c:tx></c:title><c:plotArea>"
    for given, new, text in (
        ("</c:plotArea>", axis, f"Chart: Turnover\nAxis: EUR million\n{TABLE}"),
        ("</c:barChart>", f"<c:ser>{other}</c:barChart>", f"Chart: Turnover\n{TABLE}\n\n{OTHER}"),
        (
            "</c:barChart>",
            f"<c:ext><c:ser>{other}</c:ext></c:barChart>",
            f"Chart: Turnover\n{TABLE}",
        ),
        ("<c:plotArea>", cell, f"Chart: TurnoverOf a cell\n{TABLE}"),
        ("</c:barChart>", f"<c:ser>{series}</c:barChart>", f"Chart: Turnover\n{TABLE}\n\n{LEVELS}"),
    ):
        assert chart_text(fromstring(drawn.replace(given, new))) == text


TABLE = " | North | West\n2024 | 10% | 20%\n2025 | 20% | 40%"
OTHER = " | South\n2030 | 30%"
LEVELS = "24 Q4 | 0\n24 Q3 | 1\n25 Q2 | 2"


def test_comments_and_notes_stand_below_a_slide():
    older = "<p:cm><p:text>Is that so?</p:text></p:cm>"
    line = "<a:p><a:r><a:t>Since </a:t></a:r><a:r><a:t>when?</a:t></a:r></a:p>"
    newer = f"<p:cm><p:txBody>{line}</p:txBody></p:cm>"
    parts = {
        LINKS: related(("c", "comments", "../comments/c.xml")),
        "ppt/comments/c.xml": slide(older + newer),
    }
    assert text_of(shape("a"), parts=parts) == "a\n\nComment: Is that so?\n\nComment: Since when?"
    choices = ("Choice", "Fallback")  # for different programs: they are read once
    both = "".join(f"<mc:{each}>{shape(each, kind='body')}</mc:{each}>" for each in choices)
    notes = slide(f"<mc:AlternateContent>{both}</mc:AlternateContent>")
    assert text_of(shape("a"), notes={1: notes}) == "a\n\nNotes: Choice"
    away = related(("n", "notesSlide", "file:///etc/hostname"))
    away = away.replace("Target=", 'TargetMode="External" Target=')
    assert text_of(shape("a"), parts={LINKS: away}) == "a"  # a link elsewhere is not followed


def placed(text, x, y, *, more="", looks=""):
    """A text box of 3,000 by 500 units."""
    frame = f'<a:xfrm {more}><a:off x="{x}" y="{y}"/><a:ext cx="3000" cy="500"/></a:xfrm>'
    return shape(text).replace(
        "<p:nvSpPr>", f"<p:spPr>{frame}</p:spPr><p:nvSpPr><p:cNvPr {looks}/>"
    )


def group(*shapes, x=0, looks=""):
    """A group at `x` in whose space a unit is two of the slide."""
    frame = f'<a:xfrm><a:off x="{x}" y="0"/><a:ext cx="8000" cy="6000"/>'
    frame += '<a:chOff x="0" y="0"/><a:chExt cx="4000" cy="3000"/></a:xfrm>'
    named = f"<p:nvGrpSpPr><p:cNvPr {looks}/></p:nvGrpSpPr><p:grpSpPr>{frame}</p:grpSpPr>"
    return f"<p:grpSp>{named}{''.join(shapes)}</p:grpSp>"


def test_shapes_are_read_by_their_places():
    cards = [("b1", 3200, 1500), ("a2", 0, 2500), ("a1", 0, 1500), ("b2", 3200, 2500)]
    grouped = group(placed("a2", 0, 900), placed("a1", 0, 0))
    for shapes, text in (
        ([placed(*each) for each in cards], "a1 a2 b1 b2"),
        ([placed("c", 0, 4000), placed("a", 0, 0), placed("b", 900, 2000)], "a b c"),
        ([placed("b", 5000, 0), grouped, shape("first")], "first a1 a2 b"),
    ):
        assert text_of(*shapes).split() == text.split()


def test_a_diagram_is_read_in_its_order():
    texts = {"d": "", "4": "Ship", "1": "Order", "3": "Pack", "2": "Pay", "x": "by card"}
    points = "".join(
        f'<dgm:pt modelId="{name}"><dgm:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></dgm:t></dgm:pt>'
        for name, text in texts.items()
    )
    links = "".join(
        f'<dgm:cxn srcId="{above}" destId="{name}" srcOrd="{order}" {kind}/>'
        for above, name, order, kind in (
            ("d", "3", 2, ""), ("d", "1", "first", ""), ("d", "4", 3, ""), ("d", "2", 1, ""),
            ("2", "x", "", 'type="parOf"'), ("1", "x", 0, 'type="presOf"'),
        )
    )  # fmt: skip
    parts = {
        LINKS: related(("d", "diagramData", "../data1.xml")),
        "ppt/data1.xml": slide(points + links),
    }
    assert text_of(shape("a"), parts=parts) == "a\n\nOrder\nPay\n  by card\nPack\nShip"


PLACED = (
    (placed("b", 100, 100), True),
    (placed("b", -2900, 100), True),
    (placed("b", -3000, 100), False),
    (placed("b", -3100, 100, more='rot="2700000"'), True),
    (placed("b", 100, 100, looks='hidden="1"'), False),
    (group(placed("b", 4600, 100)), False),
    (group(placed("b", 100, 100), x=-6000), True),
    (group(placed("b", 100, 100, looks='hidden="1"')), False),
)


def test_text_that_no_slide_shows_is_not_read_but_told():
    name = "ppt/presentation.xml"
    size = b'<p:sldSz cx="9000" cy="7000"/></p:presentation>'
    for drawn, shown in PLACED:
        data = parts_of(pptx([slide(shape("a"), drawn)]))
        read = read_pptx(zipped({**data, name: data[name].replace(b"</p:presentation>", size)}))
        told = () if shown else ("Hidden text: 1 character.",)
        assert seen(read) == (["a\n\nb" if shown else "a"], told), drawn


SOLID = "<a:solidFill>{}</a:solidFill>"
WHITE = SOLID.format('<a:srgbClr val="FFFFFF"/>')
CLEAR = SOLID.format('<a:srgbClr val="0000FF"><a:alpha val="0"/></a:srgbClr>')
GROUND = '<p:bg><p:bgRef idx="1001"><a:schemeClr val="{}"/></p:bgRef></p:bg>'


INKED = (
    (WHITE, "", False),
    (SOLID.format('<a:srgbClr val="0000FF"/>'), "", True),
    (CLEAR, "<p:pic/>", False),
    ("<a:noFill/>", "", False),
    ("<a:ln/><a:noFill/>", "", True),
    (WHITE, GROUND.format("tx2"), True),
    (WHITE, GROUND.format("bg1"), False),
    (WHITE, f"<p:spPr><a:prstGeom/>{SOLID.format('<a:srgbClr val="0000FF"/>')}</p:spPr>", True),
)


def test_letters_that_no_one_sees_are_not_read_but_told():
    for fill, more, shown in INKED:
        drawn = f"<a:p><a:r><a:rPr>{fill}</a:rPr><a:t>b</a:t></a:r></a:p>"
        of_list = f"<a:lstStyle><a:lvl1pPr><a:defRPr>{fill}</a:defRPr></a:lvl1pPr></a:lstStyle>"
        inherited = shape("b").replace("<a:p>", f"{of_list}<a:p>")
        layout = {
            LINKS: related(("l", "slideLayout", "../slideLayouts/l.xml")),
            "ppt/slideLayouts/l.xml": slide(more),
        }
        for page, parts in (
            (slide(shape("a"), shape(drawn), more), {}),
            (slide(shape("a"), inherited), layout),
        ):
            read = read_pptx(pptx([page], parts=parts))
            assert [section.text.split() for section in read.sections] == [["a", "b"][: 1 + shown]]
            assert ("Hidden text: 1 character." in read.left_out) is not shown


def test_what_a_slide_draws_and_nothing_reads_is_told():
    other = "<mc:Fallback><p:pic/></mc:Fallback></mc:AlternateContent>"
    for drawn, told in (
        ("<p:graphicFrame><p:oleObj/></p:graphicFrame>", "Embedded objects"),
        (f"<mc:AlternateContent><mc:Choice><p:contentPart/></mc:Choice>{other}", "Drawings in ink"),
        (f"<mc:AlternateContent><mc:Choice><p:model3d/></mc:Choice>{other}", "Pictures"),
        ("<p:graphicFrame><dgm:relIds/></p:graphicFrame>", "Diagrams"),
    ):
        assert read_pptx(pptx([slide(shape("a"), drawn)])).left_out == (f"{told}: 1.",)
