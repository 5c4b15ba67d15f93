"""What of the runs of a Word document is read: results of fields, what is seen, what is valid."""

from engine.documents.word import read_docx
from tests.support.documents.office import docx, numbering, paragraph, run, word_part


def sign(kind):
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def said(text):
    return f'<w:r><w:instrText xml:space="preserve">{text}</w:instrText></w:r>'


def field(instruction, result):
    return sign("begin") + instruction + sign("separate") + result + sign("end")


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
)
MERGED = field(said("MERGEFIELD Sex"), run("F"))
ROW = "<w:tr><w:trPr>{}</w:trPr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr>"


def read(body, styles=STYLES):
    found = read_docx(docx(body, parts={"word/styles.xml": word_part("styles", styles)}))
    return [section.text for section in found.sections], found.left_out


FIELDS = (
    (
        paragraph(run("Dear ") + field(said("IF ") + MERGED + said('= "M"'), run("Ms"))),
        "Dear Ms",
    ),
    (paragraph(field(said("=") + field(said("=") + MERGED, run("2")), run("3"))), "3"),
    (
        paragraph(field(said("TOC"), run("Scope ") + field(said("PAGEREF"), run("3")))),
        "Scope 3",
    ),
    (
        paragraph(run("a") + sign("begin") + said("XE") + run("no") + sign("end") + run("b")),
        "ab",
    ),
    (paragraph(run("a") + sign("begin") + said("IF") + run("b")), "ab"),
    (
        paragraph(run("a ") + sign("begin") + said("IF") + run("no"))
        + paragraph(run("no") + sign("separate") + run("b"))
        + paragraph(run("c") + sign("end") + run(" d")),
        "a\n\nb\n\nc d",
    ),
)


HIDDEN = (
    paragraph(run("no", "<w:vanish/>")),
    paragraph(run("no", '<w:vanish w:val="1"/>')),
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


def test_what_is_hidden_is_not_read_and_its_amount_is_told():
    for body in HIDDEN:
        found = read(body + paragraph(run("yes")))
        assert found == (["yes"], ("Hidden text: 2 characters.",)), body


def test_defaults_hide_too_and_styles_turn_each_other_round():
    hidden = (
        "<w:docDefaults><w:rPrDefault><w:rPr><w:vanish/></w:rPr></w:rPrDefault></w:docDefaults>"
    )
    body = paragraph(run("no") + run("yes", '<w:vanish w:val="0"/>'))
    for styles in (hidden, style("paragraph", "Normal", "<w:vanish/>", usual=True)):
        assert read(body, styles) == (["yes"], ("Hidden text: 2 characters.",))
    shown = paragraph(run("yes", '<w:rStyle w:val="Secret"/>'), style="Draft")
    shaded = run(" yes", '<w:color w:val="FFFFFF"/><w:shd w:val="clear" w:fill="000000"/>')
    assert read(shown + paragraph(shaded)) == (["yes yes"], ())


def test_a_hidden_end_joins_and_a_hidden_item_has_no_number():
    end = "<w:rPr><w:vanish/>{}</w:rPr>"
    listed = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="2"/></w:numPr>'
    joined = f"<w:p><w:pPr>{end}</w:pPr>{run('Term. ')}</w:p>" + paragraph(run("A day"))
    assert read(joined.format("")) == (["Term. A day"], ())
    assert read(joined.format("<w:specVanish/>")) == (["Term.\n\nA day"], ())
    hidden = f"<w:p><w:pPr>{listed}{end.format('')}</w:pPr>{run('no', '<w:vanish/>')}</w:p>"
    body = paragraph(run("a"), item_of=2) + hidden + paragraph(run("b"), item_of=2)
    found = read_docx(docx(body, parts={"word/numbering.xml": numbering()}))
    assert [section.text for section in found.sections] == ["1. a\n2. b"]


LOOKS = (
    (paragraph(run("950", "<w:strike/>") + run(" 1,050")), "~~950~~ 1,050"),
    (paragraph(run("a ", "<w:dstrike/>") + run("b ", "<w:strike/>") + run("c")), "~~a b~~ c"),
    (paragraph(run("a", '<w:rStyle w:val="Gone"/>') + run("b")), "~~a~~b"),
    (paragraph(run("a", '<w:strike w:val="0"/>'), style="Struck"), "a"),
    (paragraph(run("10") + run("6", '<w:rStyle w:val="High"/>')), "10⁶"),
    (paragraph(run("10") + run("6", '<w:position w:val="6"/>')), "10⁶"),
    (paragraph(run("10") + run("6", '<w:position w:val="2"/>')), "106"),
    (paragraph(run("CO") + run("2", '<w:vertAlign w:val="subscript"/>')), "CO₂"),
    # Hidden or not.
    (paragraph(run("a") + run("no", '<w:vanish w:val="0"/>')), "ano"),
    (paragraph(run("a") + run("no", "<w:webHidden/>")), "ano"),
)


def test_of_a_field_its_result_is_read_and_of_text_how_it_looks():
    for body, text in (*FIELDS, *LOOKS):
        assert read(body) == ([text], ()), text


def test_what_a_suggestion_deletes_is_crossed_out_and_told():
    deleted = "<w:del><w:r><w:delText>{}</w:delText></w:r></w:del>"
    rows = ROW.format("<w:del/>", paragraph(run("Sofa")), paragraph(run("900")))
    cell = paragraph(run("Desk"))
    rows += ROW.format("", f"<w:tcPr><w:cellDel/></w:tcPr>{cell}", paragraph(run("300")))
    for body, text, count in (
        (f"<w:tbl>{rows}</w:tbl>", "~~Sofa~~ | ~~900~~\n~~Desk~~ | 300", 2),
        (paragraph(deleted.format("5") + f"<w:ins>{run('7')}</w:ins> "), "~~5~~7", 2),
        (
            f"<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr>{deleted.format('Old.')}</w:p>"
            + paragraph(run("New.")),
            "~~Old.~~ New.",
            1,
        ),
        (
            paragraph(f"<w:moveFrom>{run('a')}</w:moveFrom>b<w:moveTo>{run('a')}</w:moveTo>"),
            "~~a~~a",
            1,
        ),
    ):
        told = f"{count} suggested change{'s' * (count > 1)}, with the deleted text crossed out."
        assert read(body) == ([text], (told,))


def test_what_is_not_read_is_told():
    for part, told in (
        ('<w:altChunk r:id="x"/>', "1 inserted file."),
        (
            paragraph('<w:r><w:object><o:OLEObject xmlns:o="o"/></w:object></w:r>'),
            "1 embedded object.",
        ),
        (paragraph(sign("begin") + said(r"EQ \f(1,2)") + sign("end")), "1 formula."),
    ):
        assert read(paragraph(run("a")) + part) == (["a"], (told,))
