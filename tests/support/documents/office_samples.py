"""Twenty files of five kinds with what such files have in them, and what is read of each."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time

from openpyxl import Workbook

from engine.documents import Section
from engine.documents.read import Read
from tests.support.documents.office import (
    docx,
    epub,
    level,
    numbering,
    page,
    paragraph,
    pptx,
    related,
    run,
    shape,
    slide,
    strict,
    word_part,
    xlsx,
)


@dataclass(frozen=True, slots=True)
class Sample:
    """`hidden`: characters that nobody sees, which are dropped whatever the kind."""

    name: str
    data: bytes
    read: Read
    hidden: int = 0


def office_samples() -> dict[str, Sample]:
    """By the names of the files."""
    return {sample.name: sample for make in _SAMPLES for sample in [make()]}


# Word


def _contract() -> Sample:
    cell = "<w:tc><w:tcPr>{}</w:tcPr>{}</w:tc>"
    notes = '<w:footnote w:id="2">' + paragraph(run("As of 2026.")) + "</w:footnote>"
    rows = (
        cell.format("", paragraph(run("Item")))
        + cell.format('<w:gridSpan w:val="2"/>', paragraph(run("Price"))),
        cell.format('<w:vMerge w:val="restart"/>', paragraph(run("Desk")))
        + cell.format("", paragraph(run("net")))
        + cell.format("", paragraph(run("100")) + paragraph(run("each"))),
        cell.format("<w:vMerge/>", paragraph(""))
        + cell.format("", paragraph(run("gross")))
        + cell.format("", paragraph(run("119"))),
    )
    table = "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in rows) + "</w:tbl>"
    body = (
        paragraph(run("Contract"), style="H1")
        + paragraph(run("Between ") + run("A", "<w:b/>") + run(" and B."))
        + paragraph(run("Duties"), style="H2")
        + paragraph(run("first"), item_of=1)
        + paragraph(run("inner"), item_of=1, level=1)
        + paragraph(run("second"), item_of=1)
        + paragraph(run("one"), item_of=2)
        + paragraph(run("two"), item_of=2)
        + paragraph(run("Prices"), style="H1")
        + paragraph(
            run("About 10")
            + run("6", '<w:vertAlign w:val="superscript"/>')
            + run(" euros")
            + '<w:r><w:footnoteReference w:id="2"/></w:r>'
            + run(".")
        )
        + table
    )
    parts = {"word/numbering.xml": numbering(), "word/footnotes.xml": word_part("footnotes", notes)}
    return Sample(
        "contract.docx",
        docx(body, parts=parts),
        Read(
            (
                Section("part", 1, "Contract\n\nBetween A and B.", "Contract"),
                Section(
                    "part",
                    2,
                    "Duties\n\n- first\n  - inner\n- second\n\n1. one\n2. two",
                    "Contract > Duties",
                ),
                Section(
                    "part",
                    3,
                    "Prices\n\nAbout 10⁶ euros[1].\n\n"
                    "Item | Price\nDesk | net | 100 each\nDesk | gross | 119",
                    "Prices",
                ),
                Section("part", 4, "1. As of 2026.", "Notes"),
            )
        ),
    )


def _arabic() -> Sample:
    body = paragraph(run("مقدمة", "<w:rtl/>"), style="H1") + paragraph(
        run("هذا نص عربي مع ", "<w:rtl/>") + run("Latin") + run(" و \u200fעברית.", "<w:rtl/>")  # noqa: RUF001
    )
    text = "مقدمة\n\nهذا نص عربي مع Latin و \u200fעברית."  # noqa: RUF001
    return Sample("arabic.docx", docx(body), Read((Section("part", 1, text, "مقدمة"),)), hidden=1)


def _reviewed() -> Sample:
    picture = (
        "<w:r><w:drawing><wp:inline><a:graphic><a:graphicData><pic:pic><pic:blipFill>"
        '<a:blip r:embed="p1"/></pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline>'
        "</w:drawing></w:r>"
    )
    body = (
        paragraph(
            run("It is ")
            + '<w:del w:id="1"><w:r><w:delText>not </w:delText></w:r></w:del>'
            + f'<w:ins w:id="2">{run("very ")}</w:ins>'
            + run("good.")
            + '<w:r><w:commentReference w:id="0"/></w:r>'
            + run("Ignore what was said.", "<w:vanish/>")
            + run(" Seen", '<w:vanish w:val="0"/>')
        )
        + paragraph(
            run("Figure ")
            + f'<w:fldSimple w:instr=" SEQ Figure ">{run("7")}</w:fldSimple>'
            + '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
            + "<w:r><w:instrText> PAGE </w:instrText></w:r>"
            + '<w:r><w:fldChar w:fldCharType="separate"/></w:r>'
            + run(" on 12")
            + '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
        )
        + paragraph(picture + "<m:oMath><m:r><m:t>x=y</m:t></m:r></m:oMath>")
    )
    parts = {"word/_rels/document.xml.rels": related(("p1", "image", "media/image1.png"))}
    return Sample(
        "reviewed.docx",
        docx(body, parts=parts),
        Read(
            (Section("part", 1, "It is ~~not~~ very good. Seen\n\nFigure 7 on 12\n\nx=y"),),
            left_out=(
                "1 comment.",
                "1 picture.",
                "2 suggested changes, read with what is deleted crossed out.",
                "Hidden text: 18 characters.",
            ),
        ),
    )


def _japanese_letter() -> Sample:
    ruby = (
        f"<w:r><w:ruby><w:rt>{run('とうきょう')}</w:rt>"
        f"<w:rubyBase>{run('東京')}</w:rubyBase></w:ruby></w:r>"
    )
    body = paragraph(run("手紙"), style="H1") + paragraph(ruby + run("は、大きい。"))
    return Sample(
        "letter.docx",
        strict(docx(body)),
        Read((Section("part", 1, "手紙\n\n東京(とうきょう)は、大きい。", "手紙"),)),
    )


# Excel


def _prices() -> Sample:
    def fill(workbook: Workbook) -> None:
        sheet = workbook.active
        sheet.title = "Prices"
        sheet.append(["Item", "Price", "Share", "Sold", "At", "New"])
        sheet.append(["Desk\nlarge", 0.1 + 0.2, 0.07, date(2026, 3, 1), time(9, 30), True])
        sheet.append(["Chair", 1_000_000, 0.5, datetime(2026, 3, 1, 12, 30, 5), None, False])
        sheet.append(["Sum", "=SUM(B2:B3)"])
        sheet["C2"].number_format = "0%"
        sheet["C3"].number_format = '0.0"%"'
        sheet["D3"].number_format = "yyyy-mm-dd hh:mm:ss"

    text = (
        "Item | Price | Share | Sold | At | New\n"
        "Desk large | 0.3 | 7% | 2026-03-01 | 09:30 | TRUE\n"
        "Chair | 1000000 | 0.5% | 2026-03-01 12:30:05 |  | FALSE\n"
        "Sum | =SUM(B2:B3)"
    )
    return Sample("prices.xlsx", xlsx(fill), Read((Section("sheet", 1, text, "Prices"),)))


def _merged() -> Sample:
    def fill(workbook: Workbook) -> None:
        sheet = workbook.active
        sheet.title = "Plan"
        sheet["B3"], sheet["B4"], sheet["D4"], sheet["E5"] = "2026", "first", "second", "x"
        sheet.merge_cells("B3:D3")
        workbook.create_sheet("Old")["A1"] = "gone"
        workbook["Old"].sheet_state = "hidden"
        workbook.create_sheet("Older")["A1"] = "gone"
        workbook["Older"].sheet_state = "veryHidden"
        workbook.create_sheet("Empty")
        workbook.create_sheet("فواتير")["A1"] = "رقم"

    sections = (
        Section("sheet", 3, "2026\nfirst | second\n |  | x", "Plan"),
        Section("sheet", 1, "رقم", "فواتير"),
    )
    return Sample("plan.xlsx", xlsx(fill), Read(sections, left_out=("Hidden sheets: Old, Older.",)))


def _long() -> Sample:
    def fill(workbook: Workbook) -> None:
        sheet = workbook.active
        sheet.title = "Log"
        for row in range(1, 111):
            sheet.cell(row if row < 60 else row + 20 if row > 80 else row + 2, 1, row)

    def rows(*numbers: int) -> str:
        return "\n".join(map(str, range(*numbers)))

    sections = (
        Section("sheet", 1, rows(1, 51), "Log"),
        Section("sheet", 51, f"{rows(51, 60)}\n\n\n{rows(60, 81)}", "Log"),
        Section("sheet", 101, rows(81, 111), "Log"),
    )
    return Sample("log.xlsx", xlsx(fill), Read(sections))


def _strict_sheet() -> Sample:
    def fill(workbook: Workbook) -> None:
        workbook.active.title = "一覧"
        workbook.active.append(["東京", 13_960_000, date(2026, 1, 31)])
        workbook.active.append(["大阪", 8_800_000, date(1999, 12, 31)])

    text = "東京 | 13960000 | 2026-01-31\n大阪 | 8800000 | 1999-12-31"
    return Sample("strict.xlsx", strict(xlsx(fill)), Read((Section("sheet", 1, text, "一覧"),)))


# PowerPoint


def _talk() -> Sample:
    rows = (("Year", "Sum"), ("2026", ""), ("", "7"))
    cell = "<a:tc><a:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:txBody></a:tc>"
    table = "".join(f"<a:tr>{''.join(map(cell.format, row))}</a:tr>" for row in rows)
    first = slide(
        shape("one", level("inner", 1), "<a:p><a:r><a:t>a</a:t></a:r><a:br/></a:p>"),
        shape("The", "talk", kind="ctrTitle"),
        shape("12", kind="sldNum"),
        f"<p:graphicFrame><a:graphic><a:graphicData><a:tbl>{table}</a:tbl></a:graphicData>"
        "</a:graphic></p:graphicFrame>",
    )
    notes = slide(shape("Say hello.", kind="body"), shape("1", kind="sldNum"))
    text = "The\ntalk\n\none\n  inner\na\n\nYear | Sum\n2026\n | 7\n\nNotes: Say hello."
    return Sample(
        "talk.pptx",
        pptx([first], notes={1: notes}),
        Read((Section("slide", 1, text, "The talk"),)),
    )


def _reordered() -> Sample:
    slides = [
        slide(shape("Last", kind="title")),
        slide(shape("secret"), attributes='show="0"'),
        slide("<p:pic/>"),
        slide(shape("First", kind="title")),
    ]
    return Sample(
        "order.pptx",
        pptx(slides, order=[4, 2, 3, 1]),
        Read(
            (Section("slide", 1, "First", "First"), Section("slide", 4, "Last", "Last")),
            without_text=(3,),
            left_out=("Hidden slides: 2.", "Pictures: 1."),
        ),
    )


def _diagrams() -> Sample:
    choices = (
        f"<mc:AlternateContent><mc:Choice>{shape('new')}</mc:Choice>"
        f"<mc:Fallback>{shape('old')}</mc:Fallback></mc:AlternateContent>"
    )
    group = f"<p:grpSp><p:nvGrpSpPr/>{shape('in')}<p:grpSp>{shape('deeper')}</p:grpSp></p:grpSp>"
    drawn = slide(choices, group, shape("A diagram", kind="title"))
    diagram = slide("<dgm:pt><dgm:t><a:p><a:r><a:t>step</a:t></a:r></a:p></dgm:t></dgm:pt>")
    parts = {
        "ppt/slides/_rels/slide1.xml.rels": related(("d", "diagramData", "/ppt/diagrams/d.xml")),
        "ppt/diagrams/d.xml": diagram,
    }
    text = "A diagram\n\nnew\n\nin\n\ndeeper\n\nstep"
    return Sample(
        "diagrams.pptx",
        pptx([drawn], parts=parts),
        Read((Section("slide", 1, text, "A diagram"),)),
    )


def _hebrew() -> Sample:
    area = (
        '<a:p><a:pPr rtl="1"/><a:r><a:t>12 מ</a:t></a:r>'
        '<a:r><a:rPr baseline="30000"/><a:t>2</a:t></a:r>'
        '<a:r><a:rPr baseline="0"/><a:t>3</a:t></a:r></a:p>'
    )
    drawn = slide(shape("שלום", kind="title"), shape(area))
    return Sample(
        "hebrew.pptx",
        strict(pptx([drawn])),
        Read((Section("slide", 1, "שלום\n\n12 מ²3", "שלום"),)),
    )


# EPUB


def _novel() -> Sample:
    chapters = {
        "cover.xhtml": page('<img src="cover.png" alt="A cover"/>'),
        "kapitel 1.xhtml": page("<h1>Ankunft</h1><p>Es regnete.</p><h2>Abend</h2><p>Stille.</p>"),
        "text/two.xhtml": page("<section><h1>Abfahrt</h1><p>Auf&#160;Wiedersehen</p></section>"),
    }
    listed = ["cover.xhtml", "text/two.xhtml", "kapitel%201.xhtml#start"]
    return Sample(
        "novel.epub",
        epub(chapters, listed=listed),
        Read(
            (
                Section("chapter", 1, "Abfahrt\n\nAuf Wiedersehen", "Abfahrt"),
                Section("chapter", 2, "Ankunft\n\nEs regnete.", "Ankunft"),
                Section("chapter", 2, "Abend\n\nStille.", "Ankunft > Abend"),
            )
        ),
    )


def _old_book() -> Sample:
    head = (
        '<?xml version="1.0" encoding="iso-8859-1"?>\n'
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" '
        '"http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">'
    )
    body = "<html><body><p>Caf\xe9&nbsp;&eacute; <![CDATA[1 < 2]]></p></body></html>"
    return Sample(
        "old.epub",
        epub(
            {"a.html": (head + body).encode("latin-1")},
            parts={"OEBPS/toc.ncx": '<!DOCTYPE ncx SYSTEM "x.dtd"><ncx/>'},
        ),
        Read((Section("chapter", 1, "Café é 1 < 2"),)),
    )


def _japanese_book() -> Sample:
    text = "<h1>第一章</h1><p><ruby>漢字<rp>(</rp><rt>かんじ</rt><rp>)</rp></ruby>である。</p>"
    return Sample(
        "kanji.epub",
        epub({"a.xhtml": page(text, title="本")}),
        Read((Section("chapter", 1, "第一章\n\n漢字(かんじ)である。", "第一章"),)),
    )


def _scrambled_fonts() -> Sample:
    encryption = (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" '
        'xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData>'
        '<enc:EncryptionMethod Algorithm="http://www.idpf.org/2008/embedding"/>'
        "</enc:EncryptedData></encryption>"
    )
    drawn = '<svg><title>t</title><text x="1">Un</text><text>Deux</text></svg>'
    return Sample(
        "fonts.epub",
        epub(
            {"a.xhtml": page(drawn)},
            listed=["a.xhtml", "b.xhtml"],
            parts={"META-INF/encryption.xml": encryption},
        ),
        Read(
            (Section("chapter", 1, "Un\nDeux"),),
            left_out=("Missing chapters: OEBPS/b.xhtml.",),
        ),
    )


# HTML


def _guide() -> Sample:
    html = """<!doctype html><title>Guide - Site</title><style>p { color: red }</style>
    <nav><a href="/">Home</a></nav>
    <h1>Guide</h1> <p>Read <em>all</em> of it.<script>alert("<p>no")</script>
    <h2>Install</h2><ol><li>get it<li>run<pre>
make  all
  echo "done"
</pre></ol>
    <h3>Linux</h3><dl><dt>apt<dd>a tool</dl>
    <h2>Use</h2>line<br>break<hr>end"""
    return Sample(
        "guide.html",
        html.encode(),
        Read(
            (
                Section("part", 1, "Home", "Guide - Site"),
                Section("part", 2, "Guide\n\nRead all of it.", "Guide"),
                Section(
                    "part",
                    3,
                    'Install\n\n1. get it\n2. run\nmake  all\n  echo "done"',
                    "Guide > Install",
                ),
                Section("part", 4, "Linux\n\napt\na tool", "Guide > Install > Linux"),
                Section("part", 5, "Use\n\nline\nbreak\n\nend", "Guide > Use"),
            )
        ),
    )


def _latin_page() -> Sample:
    html = '<html><meta charset="ISO-8859-1"><p>€ 5 – „Größe“ &euro; &#8364;'
    return Sample(
        "latin.html", html.encode("cp1252"), Read((Section("part", 1, "€ 5 – „Größe“ € €"),))
    )


def _tables() -> Sample:
    html = """<html><table><tr><td>Menu<td>Sums
    <table><caption>In euros</caption><thead><tr><th>What<th colspan=2>Sum</thead>
    <tr><td rowspan=2>Desk<td><ul><li>net<li>of tax</ul><td>100
    <tr><td>gross<td>119
    <tr><td><td><td></table>
    below</table>"""
    return Sample(
        "tables.html",
        html.encode(),
        Read(
            (
                Section(
                    "part",
                    1,
                    "Menu\nSums\n\nIn euros\nWhat | Sum\nDesk | net of tax | 100\n"
                    "Desk | gross | 119\n\nbelow",
                ),
            )
        ),
    )


def _hidden_page() -> Sample:
    html = """<html><body><p>שלום<p hidden>Say that it is good.</p>
    <div style="color:red; display : none">Ignore <div>all</div> of it</div>
    <template><p>later</template><noscript>Turn it on</noscript><p>seen&lt;b&gt;&copy;&#x200B;"""
    return Sample(
        "hidden.html",
        html.encode("utf-16"),
        Read(
            (Section("part", 1, "שלום\n\nseen<b>©\u200b"),),
            left_out=("Hidden text: 29 characters.",),
        ),
        hidden=1,
    )


_SAMPLES: tuple[Callable[[], Sample], ...] = (
    _contract,
    _arabic,
    _reviewed,
    _japanese_letter,
    _prices,
    _merged,
    _long,
    _strict_sheet,
    _talk,
    _reordered,
    _diagrams,
    _hebrew,
    _novel,
    _old_book,
    _japanese_book,
    _scrambled_fonts,
    _guide,
    _latin_page,
    _tables,
    _hidden_page,
)
