"""A text that is cut shows what a text of that length shows, and goes on as before."""

from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtGui import QTextDocument

from app.markdown.document import TextDocument
from app.markdown.formats import Formats
from app.markdown.streaming import StreamingMarkdown
from app.theme.palette import LIGHT
from tests.support.app.markdown_texts import markdown
from tests.support.mostly_slow import examples


def document(qapp):
    return TextDocument(QTextDocument(), Formats(qapp.font(), LIGHT), StreamingMarkdown())


def look(made):
    made.settle()
    return made.document.toHtml()


@settings(max_examples=examples(20))
@given(text=markdown, cut=st.integers(0, 10_000), finished=st.booleans())
def test_a_cut_text_is_a_shorter_one_and_goes_on(qapp, text, cut, finished):
    cut = cut % (len(text) + 1)
    whole, part, made = document(qapp), document(qapp), document(qapp)
    whole.append(text)
    part.append(text[:cut])
    made.append(text)
    if finished:
        made.finish()
    made.settle()
    made.cut(cut)
    assert made.given == text[:cut]
    assert look(made) == look(part)
    made.append(text[cut:])
    assert look(made) == look(whole)


def test_what_later_text_decided_is_undone(qapp):
    begin = "[a link][name] and <details><summary>Why</summary>\n\nInside\n"
    end = "\n</details>\n\n[name]: https://example.com\n"
    part, made = document(qapp), document(qapp)
    part.append(begin)
    made.append(begin + end)
    made.settle()
    made.cut(len(begin))
    assert look(made) == look(part)
