"""A conversation is exported as one web page or PDF, whole and without anything from outside."""

from datetime import UTC, datetime
from html.parser import HTMLParser

import pypdfium2
import pytest
from pypdfium2.raw import FPDF_PAGEOBJ_PATH

from app.chat.web_page import page_of, write_pdf
from app.conversations.records import Entry, ExportedChat
from models.errors import Problem

ANSWER = (
    "<think>Let me see.</think>The **table**:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    "```python\ndef f(x):\n    return x  # " + "a long remark " * 12 + "\n```\n"
    "![p](https://example.org/p.png) <img src='https://example.org/p.png'>\n"
    "\n<table><tr><td><img src='https://example.org/p.png'></td></tr></table>\n\n</details>\n\n"
    "It is $\\frac{a}{b}$ or ==more==, not $\\nope{c}$:\n\n$$\n\\sum_k k\n$$\n"
)
CHAT = ExportedChat(
    "A <b>title</b>",
    (
        Entry(None, "user", "What is <this>?\n  And that?"),
        Entry(0, "assistant", "Not shown."),
        Entry(0, "assistant", ANSWER, "length", "Qwen3", created=datetime(2026, 5, 9, tzinfo=UTC)),
        Entry(2, "user", "More."),
        Entry(3, "assistant", "Mine.", target="Qwen3", edited=True),
    ),
    leaf=4,
    system_prompt="Be <brief>.",
)


class Tags(HTMLParser):
    """All tags and attributes, and the visible text."""

    def __init__(self, page):
        super().__init__()
        self.names = set()
        self.attributes = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.text += data


def test_a_page_has_the_shown_branch_and_loads_nothing():
    tags = Tags(page_of(CHAT))
    for part in ("A <b>title</b>", "Be <brief>.", "What is <this>?\n  And that?", "Let me see."):
        assert part in tags.text
    for part in ("Thinking", "Qwen3", "Stopped at the token limit", "More.", "Qwen3, edited"):
        assert part in tags.text
    assert "Not shown." not in tags.text
    assert "<think>" not in tags.text
    assert "svg" in tags.names
    assert "mark" in tags.names
    assert "frac" not in tags.text
    assert "$\\nope{c}$" in tags.text  # a malformed one
    assert not tags.names & {"img", "script", "link", "iframe", "object"}
    assert not tags.attributes & {"src", "onload", "onclick", "background"}
    assert "url(" not in page_of(CHAT)
    assert "default-src 'none'" in page_of(CHAT)


def test_a_pdf_has_everything_within_its_pages(qapp, tmp_path):
    path = tmp_path / "chat.pdf"
    write_pdf(CHAT, path)
    document = pypdfium2.PdfDocument(path)
    page = document[0].get_textpage()
    text = " ".join(page.get_text_bounded().split())
    for part in ("A <b>title</b>", "What is <this>?", "def f(x)", "The table", "Mine."):
        assert part in text
    assert "$\\nope{c}$" in text
    assert "frac" not in text
    assert text.count("a long remark") == 12, "a long line of code is wrapped"
    width = document[0].get_width()
    outside = [n for n in range(page.count_chars()) if page.get_charbox(n)[2] > width]
    assert not "".join(page.get_text_range(n, 1) for n in outside).strip()
    long = ExportedChat("Long", (Entry(None, "assistant", "word " * 2000),), leaf=0)
    write_pdf(long, path)
    assert len(pypdfium2.PdfDocument(path)) > 1
    write_pdf(ExportedChat("One", (Entry(None, "assistant", "$x$"),), leaf=0), path)
    kinds = [drawn.type for drawn in pypdfium2.PdfDocument(path)[0].get_objects()]
    assert kinds.count(FPDF_PAGEOBJ_PATH) == 1
    with pytest.raises(Problem, match="cannot be written"):
        write_pdf(long, tmp_path / "missing" / "chat.pdf")
