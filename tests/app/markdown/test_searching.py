"""Words are found in the shown text, wherever the Markdown has them."""

from hypothesis import given
from hypothesis import strategies as st

from app.conversations.think_tags import stretches_in
from app.markdown.searching import SearchedText, TextMark, pattern_of, pattern_of_any
from app.markdown.streaming import StreamingMarkdown, StreamingPlainText
from tests.support.app.markdown_texts import cut_places, markdown, split


def read(text, *, plain=False):
    made = SearchedText(StreamingPlainText() if plain else StreamingMarkdown())
    made.grow(text, () if plain else stretches_in(text))
    while made.step():
        pass
    return made


def found(text, words, *, plain=False):
    """The given text at each place."""
    wanted = pattern_of(words)
    return [text[f.start : f.end] for f in read(text, plain=plain).find(wanted)]


def test_what_is_shown_is_found():
    table = [
        ("a **bo**ld word", "bold", ["bo**ld"]),
        ("Straße, STRASSE", "strasse", ["Straße", "STRASSE"]),
        ("Caf\u00e9 cafe\u0301", "cafe", ["Caf\u00e9", "cafe"]),
        ("one\ntwo  three", "one two three", ["one\ntwo  three"]),
        ("```py\nx = needle\n```\n", "x = needle", ["x = needle"]),
        ("|a|b|\n|-|-|\n|needle|2|\n", "needle", ["needle"]),
        ("- one needle\n  1. `needle`\n", "needle", ["needle", "needle"]),
        ("a &amp; b", "a & b", ["a &amp; b"]),
        ("so $x + y$ is", "x + y", ["x + y"]),
        ("<think>needle</think>\nneedle", "needle", ["needle", "needle"]),
        ("a\r\nneedle\r\n", "needle", ["needle"]),
        ("\U0001f600 needle \U0001f600", "needle \U0001f600", ["needle \U0001f600"]),
        ("[needle](https://a.b/needle)", "needle", ["needle"]),
        ("aaa", "aa", ["aa"]),
        ("काम, कम", "काम", ["काम"]),
        ("הַ**דִּי**רָה", "הדירה", ["הַ**דִּי**רָה"]),
        ("४५ und Gar\u00adten", "45 und garten", ["४५ und Gar\u00adten"]),
        ("(a*b) [c]", "(a", ["(a"]),
        ("so $x_1 + y$ is", "x_1 +", ["x_1 +"]),
        ("<think>a needle</think>\n\nno", "needle", ["needle"]),
        ("a needle\n</think>\n\n**nee**dle", "needle", ["needle", "nee**dle"]),
        ("# Head\ntext", "head text", []),  # two lines
    ]
    assert [(text, words, found(text, words)) for text, words, _ in table] == table
    assert found("a **bo**ld word", "bo**ld", plain=True) == ["bo**ld"]
    assert pattern_of("  ") is pattern_of_any("") is None


def test_any_word_where_one_begins():
    wanted = pattern_of_any("two thr")
    text = "one TWO three and athree"
    places = read(text).find(wanted)
    assert [text[f.start : f.end] for f in places] == ["TWO", "thr"]
    for text, words in (("จ่ายค่าเช่า", "ค่าเช่า"), ("בַּדִּירָה", "דירה"), ("每月租金", "租金")):
        wanted = pattern_of_any(words)
        assert len(read(text).find(wanted)) == 1


@given(text=markdown, cuts=cut_places, words=st.sampled_from(["a", "b", "1", "code", "e"]))
def test_growing_as_at_once(text, cuts, words):
    wanted = pattern_of(words)
    growing, so_far = SearchedText(StreamingMarkdown()), ""
    for piece in split(text, cuts):
        so_far += piece
        growing.grow(so_far)
        while growing.step():
            pass
        growing.find(wanted)
    places = growing.find(wanted)
    assert places == read(text).find(wanted)
    assert all(0 <= f.start < f.end <= len(text) for f in places)
    assert places == tuple(sorted(places, key=lambda f: (f.start, f.end)))
    assert TextMark(0, 0) not in places
