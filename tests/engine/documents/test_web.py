"""HTML as the text that a browser shows: blocks, headings, lists, tables, and nothing hidden."""

from hypothesis import example, given
from hypothesis import strategies as st

from engine.documents.web import Part, decoded, read_html, read_page

TAGS = """a b br div dl h1 h2 h6 hr i img li ol p pre q rt ruby span sub sup table tbody td text th
thead tr ul dd"""
FRAGMENTS = st.lists(
    st.one_of(
        st.sampled_from([f"<{tag}>" for tag in TAGS.split()]),
        st.sampled_from([f"</{tag}>" for tag in TAGS.split()]),
        st.sampled_from(
            ["<td colspan=3>", "<th rowspan=2>", "<ol start=7>", "<br/>", "<!-- x -->"]
        ),
        st.just("word"),
        st.just("\n"),
    ),
    max_size=40,
)


def text_of(html):
    return "\n\n".join(part.text for part in read_page(html).parts)


SHOWN = (
    ("one\n  two<p>three <b>fo</b>ur<div>five</div>six", "one two\n\nthree four\n\nfive\nsix"),
    ("a<br>b<br><br>c<br/>d", "a\nb\n\nc\nd"),
    ("a &lt;b&gt; &amp; &eacute;&nbsp;&#233;", "a <b> & é é"),
    ("<ul><li>a<li>b<ul><li>c</ul></ul>d", "- a\n- b\n  - c\n\nd"),
    ("<ol start=3><li>a<li value=7>b<li>c</ol>", "3. a\n7. b\n8. c"),
    ("<ul><li><img></ul>a", "a"),
    ("<ol type=a><li>x<li>y<ol type=I start=4><li>z</ol></ol>", "a. x\nb. y\n  IV. z"),
    ("<ol reversed><li>x<li>y<ol reversed start=9><li>z</ol></ol>", "2. x\n1. y\n  9. z"),
    ("<style>.l{list-style:inside upper-alpha}</style><ol class=l><li>x</ol>", "A. x"),
    ("<ol style='list-style-type:none'><li>(a) x</ol>", "(a) x"),
    ("<pre>\n a\n\n  b <i>c</i>\n</pre>d", " a\n\n  b c\n\nd"),
    ("<pre>a<br>b</pre>", "a\nb"),
    ("<pre><div>a</div><div>b\n</div>c</pre>", "a\nb\nc"),
    ("10<sup>6</sup>, 4<sup>th</sup>, x<sup>[1]</sup>", "10⁶, 4th, x[1]"),
    ("<ruby>漢<rt>kan</rt></ruby>字", "漢(kan)字"),
    ('<math alttext="x^2"><mi>x</mi><mn>2</mn></math>', "x^2"),
    ("a<![CDATA[b > c]]>d<![if !x]>e<![endif]>f<![odd]>g", "ab > cdefg"),
    ("<select><option>a</select><textarea>b</textarea>", "a b"),
    ("1<q>2</q>3", "1“2”3"),
    # Tables.
    ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a | b\n1 | 2"),
    ("<table><tr><td>a<td><p>b</p><p>c</p><td>d</table>", "a | b c | d"),
    ("<table><tr><td colspan=2>a<td>b</table>", "a |  | b"),
    ("<table><tr><td rowspan=2>a<td>b<tr><td>c</table>", "a | b\na | c"),
    ("<table><tr><td>a<td rowspan=2>b<td>c<tr><td>d<td>e</table>", "a | b | c\nd | b | e"),
    ("<table><tr><td>a<td><td><tr><td><td></table>b", "a\n\nb"),
    ("<table><tr><td>a<td><h1>b</h1></table>", "a | b"),
    ("<table><tr><td>a<br>b<td>c</table>", "a b | c"),
    ("<table><tr><td>a<td><ul><li>b<li>c</ul></table>", "a | b c"),
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
    ("<p><button>Save</button><button>Open</button>", "Save Open"),
    (
        "<input value=12><input value=3><input type=range value=4><textarea>5</textarea>",
        "12 3 5",
    ),
    ("Land <select><option>Spain<option selected>Portugal</select>.", "Land Portugal ."),
    ("<select><option disabled>Choose<option>red<option>blue</select>", "red"),
    ("<select multiple><option selected>a<option>b<option selected label=c></select>", "a, c"),
    ("<select><optgroup label=x><option>a<option selected>b</optgroup></select>", "b"),
)
UNSEEN = (
    "<div hidden><div>no</div>no</div>yes",
    "<script>if (a < b) { no('</p>') }</script>yes",
    "<style>p { no }</style><template><p>no</p></template><noscript>no</noscript>yes",
    "<!-- no --><title>no</title>yes<iframe>no</iframe>",
    "<math hidden alttext='no'><mi>no</mi></math>yes",
)


def test_what_is_seen_is_read():
    for html, text in (*SHOWN, *((html, "yes") for html in UNSEEN)):
        assert text_of(html) == text, html


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
        ("é".encode("cp1252"), "é"),
        ("\ufeffé".encode(), "é"),
        ("é".encode("utf-16"), "é"),
        (b'<meta charset="iso-8859-1">\x80', '<meta charset="iso-8859-1">€'),
        (
            b"<?xml version='1.0' encoding='koi8-r'?>\xd6",
            "<?xml version='1.0' encoding='koi8-r'?>ж",
        ),
        (b"<meta charset=utf-8>\xff", "<meta charset=utf-8>\ufffd"),
        (b"<meta charset=utf-16>\xc3\xa9", "<meta charset=utf-16>é"),
        (b"<form accept-charset=koi8-r>\xc3\xa9", "<form accept-charset=koi8-r>é"),
    ):
        assert decoded(data).text == text


@given(FRAGMENTS)
def test_every_word_stays_and_no_tag(fragments):
    text = text_of("".join(f"{each} " if each == "word" else each for each in fragments))
    assert text.count("word") == fragments.count("word")
    assert "<" not in text


@given(st.one_of(st.text(), st.text("<>!/[]-=\"' adhilprt&;#", max_size=60)))
@example("<![")
@example("<!x")
@example("</")
@example("&#xd800;&#0;&#99999999;")
def test_it_never_fails(html):
    read_page(html)


def test_depth_is_no_matter():
    assert text_of("<div>" * 5_000 + "a") == "a"
    assert text_of("<ul><li>" * 500 + "a").endswith("- a")
