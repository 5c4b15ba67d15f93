"""Books beyond the samples: where text before a heading belongs, styles, and locks."""

import pytest

from engine.documents.books import read_epub
from models.errors import Problem
from tests.support.documents.office import epub, page, parts_of, zipped
from tests.support.documents.samples import seen

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
