"""What is in small files of all kinds, and where; of office files, books and pages exactly."""

from dataclasses import replace

from engine.documents.child import read_bytes
from engine.documents.hidden import without_hidden
from tests.support.documents.messages import eml, webarchive
from tests.support.documents.office import epub, page
from tests.support.documents.samples import OFFICE_SAMPLES, SAMPLES


def test_what_a_file_says_stands_where_it_should():
    for sample in SAMPLES:
        document = read_bytes(sample.name, sample.data)
        assert (document.name, document.format) == (sample.name, sample.format)
        for text, place in sample.said:
            assert place in [each.place for each in document.sections if text in each.text]


def test_what_a_page_names_is_not_fetched(monkeypatch):
    html = (
        "<link rel=stylesheet href=http://localhost/a.css><style>@import 'http://localhost/b.css';"
        "p{background:url(http://localhost/c.png)}</style><p>a<img src=http://localhost/d.png>"
        "<iframe src=http://localhost/e></iframe><object data=file:///etc/hostname></object>"
    )
    for name in ("socket.socket", "socket.getaddrinfo", "builtins.open"):
        monkeypatch.setattr(name, None)
    book = epub({"a.xhtml": page(html)})
    for data in (html.encode(), eml("a", page=html), webarchive(html), book):
        assert read_bytes("a.html", data).text.endswith("a")


def test_what_is_read_of_office_files():
    for name, sample in OFFICE_SAMPLES.items():
        document = read_bytes(name, sample.data)
        assert document.sections == tuple(
            replace(each, text=without_hidden(each.text)[0]) for each in sample.read.sections
        )
        assert document.format == name.rpartition(".")[2]
        assert document.without_text == sample.read.without_text
        assert document.left_out == sample.read.left_out
        assert document.hidden == sample.hidden
