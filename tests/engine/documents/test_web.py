"""HTML as the text that a browser shows: blocks, lists, tables, forms, formulas, and nothing that
the page or its styles hide; also in books and in messages.
"""

from email.message import EmailMessage

import pytest

from engine.documents.books import read_epub
from engine.documents.child import read_bytes
from engine.documents.mail import read_mail
from engine.documents.web import Part, decoded, read_html, read_page
from models.errors import Problem
from tests.support.documents.messages import eml, webarchive
from tests.support.documents.office import epub, page, parts_of, zipped
from tests.support.documents.samples import seen


def text_of(html, *sheets):
    return "\n\n".join(part.text for part in read_page(html, *sheets).parts)


READ = (
    ("one\n  two<p>three <b>fo</b>ur<div>five</div>six", "one two\n\nthree four\n\nfive\nsix"),
    ("a<br>b<br><br>c<br/>d", "a\nb\n\nc\nd"),
    ("a &lt;b&gt; &amp; &eacute;&nbsp;&#233;", "a <b> & é é"),
    ("<ul><li>a<li>b<ul><li>c</ul></ul>d", "- a\n- b\n  - c\n\nd"),
    ("<ol start=3><li>a<li value=7>b<li>c</ol>", "3. a\n7. b\n8. c"),
    ("<ul><li><img></ul>a", "a"),
    ("<ol type=a><li>x<li>y<ol type=I start=4><li>z</ol></ol>", "a. x\nb. y\n  IV. z"),
    ("<ol reversed><li>x<li>y<ol reversed start=9><li>z</ol></ol>", "2. x\n1. y\n  9. z"),
    ("<style>.l{list-style:inside upper-alpha}</style><ol class=l><li>x</ol>", "A. x"),
    ("<pre>\n a\n\n  b <i>c</i>\n</pre>d", " a\n\n  b c\n\nd"),
    ("<pre><div>a</div><div>b\n</div>c</pre>", "a\nb\nc"),
    ("10<sup>6</sup>, 4<sup>th</sup>, x<sup>[1]</sup>", "10⁶, 4th, x[1]"),
    ("<ruby>漢<rt>kan</rt></ruby>字", "漢(kan)字"),
    ('<math alttext="x^2"><mi>x</mi><mn>2</mn></math>', "x^2"),
    ("a<![CDATA[b > c]]>d<![if !x]>e<![endif]>f<![odd]>g", "ab > cdefg"),
    ("1<q>2</q>3", "1“2”3"),
    # Tables.
    ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a | b\n1 | 2"),
    ("<table><tr><td>a<td rowspan=2>b<td>c<tr><td>d<td>e</table>", "a | b | c\nd | b | e"),
    ("<table><tr><td>a<td><td><tr><td><td></table>b", "a\n\nb"),
    ("<table><tr><td><pre>1\n2</pre><td><pre>a\n  b</pre></table>", "1\n2\n\na\n  b"),
    ("<table><tr><td>a<td>b<table><tr><td>c<td>d</table>e</table>", "a\nb\n\nc | d\n\ne"),
    (
        "<table><tr><th>a<th>b<th>c<tr><td>1<td><table><tr><td>S<td>2<tr><td>L<td>3</table><td>4"
        "<tr><td>5<td>x<table><tr><td>y</table>z<td>6</table>7",
        "a | b | c\n1 | S, 2; L, 3 | 4\n5 | x y z | 6\n\n7",
    ),
    (f"<table><tr><td colspan=9999>a{'<td>b' * 3}</table>", f"a{' | ' * 1000}b | b | b"),
    *(
        (f"<{name}><table></{name}><tr><td>1<td>2<tr><td>3<td>4</table>", "1 | 2\n3 | 4")
        for name in ("center", "form", "div", "font", "b", "p")
    ),
    ("<table><caption>a</div>b</caption><tr><td>c<td>d</table>", "ab\nc | d"),
    ("<table><thead><th>a<th>b</thead><tbody><td>1<td>2</table>", "a | b\n1 | 2"),
    # Forms.
    ("<p><input type=checkbox checked> yes <input type=CheckBox> no", "☒ yes ☐ no"),
    ("<p><input type=radio> a <input type=radio checked> b", "☐ a ☒ b"),
    ("<p>Name: <input value='Ada'><input type=hidden value=token>", "Name: Ada"),
    ("<p>Name: <input type=email value=a@b.c> <input type=submit value=Go>", "Name: a@b.c"),
    (
        "<input value=12><input value=3><input type=range value=4><textarea>5</textarea>",
        "12 3 5",
    ),
    ("<select multiple><option selected>a<option>b<option selected label=c></select>", "a, c"),
    # Formulas complete no number, and end with their paragraph.
    ("<p><math><mn>1</mn><p>a</p><p>b</p>", "1\n\na\n\nb"),
    ("<math>" + "<mrow>" * 600 + "x", "x"),
    ("<m:math><m:mfrac><m:mn>1</m:mn><m:mn>2</m:mn></m:mfrac></m:math> l", "½ l"),
    ("10<sup>6,5</sup> log<sub>2</sub>8 x<sub>max</sub>", "10^(6,5) log₂8 xmax"),
    ("10<span style='vertical-align:super'>6</span>, x<sub>1<sup>2</sup></sub>", "10⁶, x_1²"),
    # Neither half a mark nor depth is a matter.
    ("<![", "<!["),
    ("</", "</"),
    ("&#xd800;&#0;&#99999999;", "\ufffd" * 3),
    ("<div>" * 5_000 + "a", "a"),
    ("<ul><li>" * 500 + "a", f"{' ' * 510}- a"),
    ("Price: <del>100 EUR</del> <ins>80 EUR</ins>", "Price: ~~100 EUR~~ 80 EUR"),
    ("<s> a <b>b</b> c </s>d<strike></strike>", "~~a b c~~ d"),
    ("<style>.x i{text-decoration-line:line-through}</style><p class=x><i>a</i> b", "~~a~~ b"),
    ("<del><p>a</p><ul><li>b</ul></del>c", "~~a~~\n\n- ~~b~~\n\nc"),
    ("<table><tr><td><s>1</s><td>2</table>", "~~1~~ | 2"),
)
FORMULAS = (
    ("<mfrac><mn>1</mn><mn>2</mn></mfrac>", "½"),
    ("<mfrac linethickness=0><mi>n</mi><mi>k</mi></mfrac>", "(n over k)"),
    ("<msup><mn>10</mn><mrow><mo>-</mo><mn>6</mn></mrow></msup>", "10⁻⁶"),
    ("<msub><mi>x</mi><mn>1</mn></msub><mo>=</mo><mn>5</mn>", "x₁ = 5"),
    ("<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>", "x₁²"),
    ("<msqrt><mi>a</mi><mo>+</mo><mi>b</mi></msqrt>", "√(a+b)"),
    ("<mroot><mn>27</mn><mn>3</mn></mroot>", "³√27"),
    ("<mn>0.</mn><mover><mn>3</mn><mo>¯</mo></mover>", "0.3\u0305"),
    (
        "<mmultiscripts><mi>U</mi><mn>3</mn><none/><mprescripts/><mn>92</mn><mn>238</mn>"
        "</mmultiscripts>",
        "₉₂²³⁸U₃",
    ),
    (
        "<mtable><mtr><mtd>1</mtd><mtd>2</mtd></mtr><mtr><mtd>3</mtd><mtd>4</mtd></mtr></mtable>",
        "((1, 2); (3, 4))",
    ),
    ("<mn>5</mn><mphantom><mn>0</mn></mphantom>", "5"),
    ("<menclose notation=updiagonalstrike><mn>5</mn></menclose><mn>4</mn>", "~~5~~4"),
    ("<mn>1</mn><annotation>no</annotation>", "1"),
)
SEEN = (
    "<p aria-hidden=true>yes",
    "<details><summary>yes</summary></details>",
    "<p style='visibility:hidden'><b style='visibility:visible'>yes</b>",
    "<div style='background:#000'><p style='color:#fff'>yes</div>",
    "<table bgcolor=navy><tr><td><font color=white>yes</font></table>",
    "<table background=a.png bgcolor=white><tr><td style='color:#fff'>yes</table>",
    "<div><img src=a.png><p style='position:absolute;color:#fff'>yes</div>",
    "<p style='color:#fff'><a href=x>yes</a>",
    "<p style='color:var(--a);background:var(--a)'>yes",
    "<p style='opacity:0;animation:fade 1s'>yes",
    "<style media=print>p{display:none}</style><p>yes",
    "<style>@media (max-width:600px){p{display:none}} p:hover{display:none}</style><p>yes",
    "<style>.x{display:none}.x{display:block}</style><p class=x>yes",
    "<script>if (a < b) { no('</p>') }</script>yes",
    "<style>p { no }</style><template><p>no</p></template><noscript>no</noscript>yes",
    "<!-- no --><title>no</title>yes<iframe>no</iframe>",
)
RAISED = (  # which no style sheet lowers
    *(
        (
            f"<style>sub,sup,*{{position:relative;vertical-align:{each}}}</style>"
            "<p>1,250<sup>2</sup>, 10<sup>6</sup>, H<sub>2</sub>O",
            "1,250², 10⁶, H₂O",
        )
        for each in ("baseline;top:-.5em", "top", "text-top", ".4em", "5px", "inherit;font:inherit")
    ),
    *(
        (f"10<i style='{style}'>6</i><table><td style='{style}'>6</td></table>", f"{shown}\n\n6")
        for style, shown in (
            ("vertical-align:5px", "10⁶"),
            ("vertical-align:top;font-size:60%", "10⁶"),
            ("position:relative;top:-.4em;font-size:.6em", "10⁶"),
            ("vertical-align:-.3em", "10₆"),
            ("vertical-align:baseline", "106"),
            ("vertical-align:top", "106"),
        )
    ),
)
ENDLESS = ("<style>", "a{", "/*", "@x{", "@media screen{", "}", "a,")  # which take no time


def test_what_is_seen_is_read():
    formulas = [(f"<p>about <math>{one}</math> m", f"about {text} m") for one, text in FORMULAS]
    styles = [(f"<p>a</p><style>{piece * 20_000}", "a") for piece in ENDLESS]
    for html, text in (*READ, *formulas, *((html, "yes") for html in SEEN), *RAISED, *styles):
        assert text_of(html) == text, html[:200]
    sheets = (".x{display:none}", ".y{text-decoration:line-through}")  # beside the page
    page = "<link rel=stylesheet href=a.css><p class=x>no</p><p class=y>a</p>yes"
    assert text_of(page, *sheets) == "~~a~~\n\nyes"


def test_a_formula_and_its_copy_are_read_once():
    power = "<math><msup><mn>10</mn><mn>6</mn></msup></math>"
    katex = "<style>.katex-mathml{clip:rect(1px,1px,1px,1px)}</style><i class=katex-mathml>"
    copy = "aria-hidden=true>10<b>6</b>"
    alt = "class=mwe-math-fallback-image-inline alt='10^{6}'>"
    for html, text in (
        (f"{katex}{power}</i><i class=katex-html {copy}</i> l", "10⁶ l"),
        (f"<i class=katex-html {copy}</i> l", "106 l"),
        (f"<mjx-math {copy}</mjx-math><mjx-assistive-mml>{power}</mjx-assistive-mml> l", "10⁶ l"),
        (f"<nobr {copy}</nobr><i class=MJX_Assistive_MathML>{power}</i> l", "10⁶ l"),
        (f"<i class=mwe-math-mathml-a11y style='display:none'>{power}</i><img {alt} l", "10⁶ l"),
        (f"<img {alt} l", "10^{6} l"),
        ("12<img alt='a picture'>34", "12 34"),
    ):
        page = read_page(html)
        assert ([part.text for part in page.parts], page.unseen) == ([text], 0)


HIDDEN = (
    "<dialog>no</dialog>",
    "<p style='visibility:hidden'>no<b style='visibility:collapse'>no</b></p>",
    "<p style='font-size:0'>no<b>no</b><b style='font-size:80%'>no</b></p>",
    "<p style='opacity:0'>no</p>",
    "<p style='color:rgb(255, 255, 255);background:#FFF'>no</p>",
    "<svg><text visibility=hidden>no</text><text display=none>no</text></svg>",
    "<p style='color:transparent'>no</p>",
    "<div style='max-height:0;overflow:hidden'>no<p>no</p></div>",
    "<p style='position:absolute;left:-9999px'>no</p>",
    "<input style='display:none' value=no>",
    "<style>.x{display:none}</style><p class='a x'>no</p>",
    "<style>@media screen{#x{display:none}}</style><p id=x>no</p>",
    "<style>/* a */ div .x > b, i{display:none}</style><div><p class=x><b>no</b></p></div>",
    "<style>.x{display:none!important}</style><p class=x style='display:block'>no</p>",
    "<style>.sr{clip:rect(0,0,0,0)}</style><p class=sr>no</p>",
)


def test_what_is_hidden_is_not_read_and_its_amount_is_told():
    for html in HIDDEN:
        count = 2 * html.count(">no") + 2 * html.count("</b>no")
        told = (f"Hidden text: {count} characters.",) if count else ()
        assert seen(read_html(f"{html}<p>yes".encode())) == (["yes"], told), html


def test_headings_begin_parts():
    html = "<title> A  page </title>x<h2>a</h2><h1>b <i>c</i></h1>y<h3>d</h3><h2>e</h2><h2></h2>z"
    page = read_page(html)
    assert page.title == "A page"
    assert page.parts == (
        Part((), "x"),
        Part(("a",), "a"),
        Part(("b c",), "b c\n\ny"),
        Part(("b c", "d"), "d"),
        Part(("b c", "e"), "e\n\nz"),
    )
    assert [section.label for section in read_html(html.encode()).sections] == [
        "A page", "a", "b c", "b c > d", "b c > e",
    ]  # fmt: skip
    (section,) = read_html(f"<h1>{'a' * 5000}</h1>".encode()).sections
    assert (len(section.text), len(section.label)) == (5000, 100)


def test_encodings():
    for data, text in (
        ("é".encode(), "é"),
        ("é".encode("utf-16"), "é"),
        (b'<meta charset="iso-8859-1">\x80', '<meta charset="iso-8859-1">€'),
        (
            b"<?xml version='1.0' encoding='koi8-r'?>\xd6",
            "<?xml version='1.0' encoding='koi8-r'?>ж",
        ),
        (b"<meta charset=utf-8>\xff", "<meta charset=utf-8>\ufffd"),
        (b"<meta charset=utf-16>\xc3\xa9", "<meta charset=utf-16>é"),
    ):
        assert decoded(data).text == text


# Books beyond the samples: where text before a heading belongs, styles, and locks


LOCKED = """<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"
xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData>
<enc:EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/>
</enc:EncryptedData></encryption>"""


def test_text_before_a_heading_belongs_to_the_page_before_or_to_its_title():
    chapters = {
        "a.xhtml": page("<h2>Chapter VI</h2><p>begins</p>"),
        "b.xhtml": page(
            "<p>ends</p><h2>Chapter VII</h2><p>starts</p><h3>At sea</h3><p>goes on</p>"
        ),
        "c.xhtml": page("<p>No heading.</p>"),
        "d.xhtml": page("<img>"),
    }
    contents = (
        "<ncx><navMap><navPoint><navLabel><text>Notes &amp; Thanks</text></navLabel>\n"
        '<content src="c.xhtml"/></navPoint></navMap></ncx>'
    )
    book = parts_of(epub(chapters))
    table = b'<item id="t" href="toc.ncx" media-type="application/x-dtbncx+xml"/></manifest>'
    book["OEBPS/book.opf"] = book["OEBPS/book.opf"].replace(b"</manifest>", table)
    sections = read_epub(zipped({**book, "OEBPS/toc.ncx": contents})).sections
    assert [(each.number, each.place, each.text) for each in sections] == [
        (1, "Chapter VI", "Chapter VI\n\nbegins"),
        (2, "Chapter VI", "ends"),
        (2, "Chapter VII", "Chapter VII\n\nstarts"),
        (2, "Chapter VII > At sea", "At sea\n\ngoes on"),
        (3, "Notes & Thanks", "No heading."),
    ]


def test_the_books_own_styles_hide_and_cross_out_and_a_locked_one_is_said_to_be():
    with pytest.raises(Problem, match="DRM"):
        read_epub(epub({"a.xhtml": page("a")}, parts={"META-INF/encryption.xml": LOCKED}))
    body = "<p class='x'>no</p><p>10<sup>6</sup> <span class='y'>a</span> b</p>"
    styles = ".x { display: none } .y { text-decoration: line-through }"
    read = read_epub(epub({"a.xhtml": page(body)}, parts={"OEBPS/a.css": styles}))
    assert seen(read) == (["10⁶ ~~a~~ b"], ("Hidden text: 2 characters.",))
    # What is not a page is passed over.
    package = parts_of(epub({"a.xhtml": page("a"), "b.svg": "<svg/>"}))["OEBPS/book.opf"].decode()
    target = 'href="b.svg" media-type="'
    package = package.replace(f"{target}application/xhtml+xml", f"{target}image/svg+xml")
    read = read_epub(epub({"a.xhtml": page("a")}, parts={"OEBPS/book.opf": package}))
    assert seen(read) == (["a"], ())


# Messages and saved pages, as people see them


HEADERS = (
    "From: Zoë Müller <zoe@example.org>\nTo: Ada <ada@example.org>\n"
    "Date: Mon, 02 Mar 2026 09:30:00 +0100\nSubject: Größe des Büros"
)
PAGE = "<style>p {color: red}</style><h1>Plan</h1><table><tr><td>Café<td>3 m²</table>"


def only_text(data):
    (section,) = read_mail(data).sections
    return section.text


def test_a_message_is_who_wrote_what():
    data = eml("Es sind 30 m².\n\n> Wie groß?", attached={"Übersicht.pdf": b"%PDF-", "b.pdf": b""})
    read = read_mail(data)
    assert [(each.label, each.text) for each in read.sections] == [
        ("Größe des Büros", f"{HEADERS}\n\nEs sind 30 m².\n\n> Wie groß?")
    ]
    assert read.left_out == ("Attachments: Übersicht.pdf, b.pdf.",)
    assert only_text(eml("see the page", page=PAGE)) == f"{HEADERS}\n\nPlan\n\nCafé | 3 m²"
    outer, inner = EmailMessage(), EmailMessage()
    inner["Subject"] = "The old offer"
    inner.set_content("secret")
    outer["Subject"] = "Fwd"
    outer.set_content("See below.")
    outer.add_attachment(inner)
    read = read_mail(outer.as_bytes())
    assert seen(read) == (["Subject: Fwd\n\nSee below."], ("Attachments: The old offer.",))


def test_files_of_apples_mail_and_mailboxes():
    data = eml("one")
    apple = f"{len(data)}     \n".encode() + data + b"<?xml version='1.0'?><plist/>"
    assert only_text(apple) == f"{HEADERS}\n\none"
    box = b"From zoe@example.org Mon Mar  2 09:30:00 2026\n" + data + b"\n"
    sections = read_mail(box + box.replace(b"b25lCg==", b"dHdvCg==")).sections
    assert [(each.number, each.text[-3:]) for each in sections] == [(1, "one"), (2, "two")]
    # Lines of text that begin with From begin no message.
    text = b"From: a@b.c\n\nFrom Monday on it is closed.\nFrom 10:00, 28 Nov:\nopen\n\n"
    times = ("10:00:00 2026", "10:00 2026", "10:00:00 +0000 2026")
    for mark in (f"{name} Sat Nov  8 {time}" for name in ("a@b.c", "-") for time in times):
        box = f"From {mark}\n".encode() + text
        both = (box + box).replace(b"From 10", b">From 10")
        for data in (both, both.replace(b"\n", b"\r\n")):
            assert [each.text for each in read_mail(data).sections] == 2 * [text.decode().strip()]


CALENDAR = r"""BEGIN:VCALENDAR
BEGIN:VTIMEZONE
DTSTART:19701025T030000
END:VTIMEZONE
BEGIN:VEVENT
DTSTART;TZID="(UTC+01:00) Bern":20261203T140000
DTEND:20261203T140000Z
SUMMARY;LANGUAGE=de:Tag der
  Arbeit
BEGIN:VALARM
DESCRIPTION:REMINDER
END:VALARM
DESCRIPTION:Keys\, meter\nand more
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:20261204
DTEND;VALUE=DATE:20261206
STATUS:CANCELLED
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:20261204
DTEND;VALUE=DATE:20261204
END:VEVENT
END:VCALENDAR"""
EVENTS = """Event: Tag der Arbeit
Start: 2026-12-03 14:00 ((UTC+01:00) Bern)
End: 2026-12-03 14:00 (UTC)
Notes: Keys, meter
and more

Status: CANCELLED
Start: 2026-12-04
End: 2026-12-05

Start: 2026-12-04
End: 2026-12-04"""


def test_an_invitation_is_shown_beside_its_text():
    message = EmailMessage()
    message.set_content("The lift is broken.")
    for html, shown in (("", "The lift is broken."), ("<p>page", "page")):
        if html:
            message.add_alternative(html, subtype="html")
        message.add_alternative(CALENDAR, subtype="calendar")
        assert only_text(message.as_bytes()).startswith(f"{shown}\n\n{EVENTS}")
    assert only_text(f"Content-Type: text/calendar\n\n{CALENDAR}".encode()) == EVENTS


def test_odd_encodings():
    for kind, body in (
        ("text/plain; charset=no-such\nFrom: <<<", "Größe".encode()),
        ("text/plain", "Größe".encode()),
        ("text/plain; charset=gb2312", "镕€ Gr\u00f6\u00dfe".encode("gb18030")),
    ):
        assert only_text(f"Content-Type: {kind}\n\n".encode() + body).endswith("Größe")
    head = 'Subject: Größe\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n\ntext\n--b\n'
    name = (
        'Content-Disposition: attachment; filename="=?utf-8?q?Gr=C3=B6=C3=9Fe=2Epdf?="\n\n\n--b--'
    )
    for encoding in ("utf-8", "cp1252"):
        read = read_mail((head + name).encode(encoding))
        assert [each.label for each in read.sections] == ["Größe"]
        assert read.left_out == ("Attachments: Größe.pdf.",)


def test_a_message_and_a_saved_page_as_their_readers_see_them():
    page = "<del>900</del> 850 <p style=display:none>no</p>100 \x80 – \xff"
    head = b"Subject: =?gb2312?B?6UY=?= =?iso-8859-1?Q?_100_=80?=\nContent-Type: "
    read = read_mail(
        head + b"text/html; charset=iso-8859-1\n\n" + page.replace("–", "\x96").encode("latin-1")
    )
    text = "Subject: 镕 100 €\n\n~~900~~ 850 100 € – ÿ"
    assert seen(read) == ([text], ("Hidden text: 2 characters.",))
    read = read_mail(head + b"text/plain; charset=utf-8\n\na\xff")
    assert read.left_out == ("1 invalid character of utf-8, shown as \ufffd.",)
    styled = "<link rel=stylesheet href=a.css><p class=x>no</p>yes"
    assert read_bytes("page", webarchive(styled, css=".x{display:none}")).text == "yes"
