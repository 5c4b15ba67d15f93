"""A conversation is exported as one web page or PDF, whole and without anything from outside."""

from datetime import UTC, datetime

import pypdfium2
import pytest
from pypdfium2.raw import FPDF_PAGEOBJ_PATH

from app.chat.web_page import page_of, write_pdf
from app.conversations.records import Entry, ExportedChat
from models.errors import Problem
from tests.support.app.html_page import Page

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


def test_a_page_has_the_shown_branch_and_loads_nothing():
    page = Page(page_of(CHAT))
    text = "".join(page.texts.values())
    said = ("A <b>title</b>", "Be <brief>.", "What is <this>?\n  And that?", "Let me see.", "More.")
    for part in (*said, "Thinking", "Qwen3", "Stopped at the token limit", "Qwen3, edited"):
        assert part in text
    assert "Not shown." not in text
    assert "<think>" not in text
    assert {"svg", "mark"} <= set(page.tags)
    assert "frac" not in text
    assert "$\\nope{c}$" in text  # a malformed one
    assert not set(page.tags) & {"img", "script", "link", "iframe", "object"}
    assert not dict(page.attributes).keys() & {"src", "onload", "onclick", "background"}
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
