"""Each construct of Markdown as the lines, styles and places, and as the HTML that it becomes;
words are found in the shown text, wherever the Markdown has them."""

import re
from ast import literal_eval
from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from app.conversations.think_tags import stretches_in
from app.markdown.blocks import BlockReader
from app.markdown.page import Table, TextLine, all_runs
from app.markdown.searching import SearchedText, TextMark, pattern_of, pattern_of_any
from app.markdown.streaming import StreamingMarkdown, StreamingPlainText
from app.markdown.web import html_of
from tests.support.app.kept import kept
from tests.support.app.markdown_texts import cut_places, markdown, split

MARK = "@@@ "


def read(text):
    blocks = BlockReader().read(text, base=0, after=None)
    return [item for block in blocks for item in block.items]


def words(item):
    return "".join(run.text for run in item.runs)


def own(value, *but):
    """What a block or a style has that others do not."""
    pairs = ((field, getattr(value, field.name)) for field in fields(value))
    said = (f"{f.name}={v!a}" for f, v in pairs if v != f.default and f.name not in but)
    return " ".join(said)


def look(text):
    """Each line's block, without its distances, and its runs: text, source and style."""
    for item in read(text):
        rows = [[item]] if isinstance(item, TextLine) else item.rows
        for row in rows:
            for cell in row:
                kind = "cell" if isinstance(item, Table) else "line"
                yield f"{kind} {own(cell.block, 'above')}".rstrip()
                for run in cell.runs:
                    source = text[run.source : run.end]
                    written = "" if source == run.text else f" <- {source!a}"
                    yield f"    {run.text!a}{written} {own(run.style)}".rstrip()


def test_what_models_write_becomes_these_lines():
    texts = [line for line in kept("markdown_blocks.txt").splitlines() if line.startswith(MARK)]
    found = "".join(
        "\n".join((text, *look(literal_eval(text.removeprefix(MARK))))) + "\n" for text in texts
    )
    assert found == kept("markdown_blocks.txt", found)


def test_an_address_of_another_kind_is_text():
    for address in ("file:///etc/passwd", "/etc/passwd", "javascript:x", "data:x,y", "ftp://a"):
        for text in (f"[a]({address})", f"![a]({address})"):
            assert words(read(text)[0]) == text
        assert words(read(f"<a href='{address}'>b</a>")[0]).startswith("<a href")
    for text in ("xhttp://a.b", "http://", "ftp://a.bc", "a: //b", "`http://a.b`"):
        assert not [run for run in all_runs(read(text)) if run.style.href], text


def test_deep_nesting_is_shown_as_it_is():
    for deep in ("- " * 10_000 + "x", ">" * 10_000 + "x", "1. " * 99 + "*x*"):
        items = read(deep)
        assert {item.block.shape for item in items} == {"plain"}
        assert "".join(words(item) for item in items if isinstance(item, TextLine)) == deep


def test_what_models_write_becomes_html_that_loads_and_runs_nothing():
    texts = [line for line in kept("markdown_web.txt").splitlines() if line.startswith(MARK)]
    pages = [html_of(literal_eval(text.removeprefix(MARK))) for text in texts]
    found = "".join(f"{text}\n{page.rstrip()}\n" for text, page in zip(texts, pages, strict=True))
    assert found == kept("markdown_web.txt", found)
    coloured = html_of("```html\n<script src='x'></script>\n```")
    assert "<span style=" in coloured
    for page in (*pages, coloured):
        assert not re.findall(r"<(img|script|source)|style=.back|href=.javascript", page.lower())


def searched(text, *, plain=False):
    made = SearchedText(StreamingPlainText() if plain else StreamingMarkdown())
    made.grow(text, () if plain else stretches_in(text))
    while made.step():
        pass
    return made


def found(text, words, *, plain=False):
    """The given text at each place."""
    wanted = pattern_of(words)
    return [text[f.start : f.end] for f in searched(text, plain=plain).find(wanted)]


def test_what_is_shown_is_found():
    rows = [literal_eval(line)[:2] for line in kept("markdown_searches.txt").splitlines()]
    result = "".join(f"{(text, words, found(text, words))!r}\n" for text, words in rows)
    assert result == kept("markdown_searches.txt", result)
    assert found("a **bo**ld word", "bo**ld", plain=True) == ["bo**ld"]
    assert pattern_of("  ") is pattern_of_any("") is None


def test_any_word_where_one_begins():
    wanted = pattern_of_any("two thr")
    text = "one TWO three and athree"
    places = searched(text).find(wanted)
    assert [text[f.start : f.end] for f in places] == ["TWO", "thr"]
    for text, words in (("จ่ายค่าเช่า", "ค่าเช่า"), ("בַּדִּירָה", "דירה"), ("每月租金", "租金")):
        wanted = pattern_of_any(words)
        assert len(searched(text).find(wanted)) == 1


@given(text=markdown, cuts=cut_places, words=st.sampled_from(["a", "b", "1", "code", "e"]))
def test_a_growing_text_is_searched_as_at_once(text, cuts, words):
    wanted = pattern_of(words)
    growing, so_far = SearchedText(StreamingMarkdown()), ""
    for piece in split(text, cuts):
        so_far += piece
        growing.grow(so_far)
        while growing.step():
            pass
        growing.find(wanted)
    places = growing.find(wanted)
    assert places == searched(text).find(wanted)
    assert all(0 <= f.start < f.end <= len(text) for f in places)
    assert places == tuple(sorted(places, key=lambda f: (f.start, f.end)))
    assert TextMark(0, 0) not in places
