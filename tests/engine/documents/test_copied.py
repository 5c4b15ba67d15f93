"""What of an answer is copied, by hand-marked answers, by a slow finder, and by made-up noise."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.documents import Document, Section, copied
from engine.documents.copied import CopiedPlace, CopiedSpan, WordIndex, find_copied, in_words, share
from engine.documents.words import words
from tests.support.documents.marked_answers import ANSWERS, DOCUMENTS
from tests.support.documents.slow_finder import slowly_copied
from tests.support.mostly_slow import examples

_COUNTED = re.compile(r"[\u3040-\u9fff]|[^\W_\u3040-\u9fff]+")
_FEW = st.sampled_from(["a", "b", "c", "Bo", "7", "渡", "%", ".", "\n"])
_TEXT = st.lists(_FEW, max_size=40).map(" ".join)


def precision_and_recall():
    """Of the words of the marked answers; and where the finder and the reader differ."""
    indexes = {
        number: WordIndex(document.text, document.starts) for number, document in DOCUMENTS.items()
    }
    both = found_only = marked_only = 0
    differences = []
    for answer in ANSWERS:
        spans = [(span.start, span.end) for span in find_copied(answer.text, indexes)]
        counted = [match.span() for match in _COUNTED.finditer(answer.text)]
        found, marked = _within(counted, spans), _within(counted, answer.spans)
        both += len(found & marked)
        found_only += len(found - marked)
        marked_only += len(marked - found)
        for name, some in (("too many", found - marked), ("missed", marked - found)):
            if some:
                said = [answer.text[start:end] for start, end in sorted(some)]
                differences.append(f"{answer.kind}: {name}: {said}")
    return both / (both + found_only or 1), both / (both + marked_only), differences


def _within(counted, spans):
    return {one for one in counted if any(s <= one[0] and one[1] <= e for s, e in spans)}


def test_the_finder_marks_what_a_reader_marked():
    precision, recall, differences = precision_and_recall()
    said = "\n".join((f"precision {precision:.3f}, recall {recall:.3f}", *differences))
    assert len(ANSWERS) == 30
    assert precision == recall == 1, said


@settings(max_examples=examples(200))
@given(_TEXT, st.lists(_TEXT, min_size=1, max_size=3))
def test_it_finds_what_trying_everything_finds(answer, documents):
    texts = dict(enumerate(documents, start=1))
    found = find_copied(answer, {number: WordIndex(text) for number, text in texts.items()})
    assert [
        (span.start, span.end, {place.document for place in span.places}) for span in found
    ] == slowly_copied(answer, texts)


@given(_TEXT, _TEXT)
def test_in_all_places_and_no_others_stand_the_same_words(answer, text):
    index, said = WordIndex(text), [word.form for word in words(text)]
    for span in find_copied(answer, {1: index}):
        wanted = [word.form for word in words(answer) if span.start <= word.start < span.end]
        for place in span.places:
            inside = [w.form for w in words(text) if place.start <= w.start < place.end]
            assert inside == wanted
        everywhere = [n for n in range(len(said)) if said[n : n + len(wanted)] == wanted]
        assert len(span.places) == min(20, len(everywhere))
        assert list(span.places) == sorted(span.places, key=lambda place: place.start)


def test_no_run_crosses_from_a_page_to_the_next():
    one, other = "a1 a2 a3 a4 a5", "b1 b2 b3 b4 b5"
    pages = tuple(Section("page", n, text) for n, text in enumerate(("", one, other, ""), start=1))
    document = Document("a.pdf", "pdf", "", pages)
    index = {1: WordIndex(document.text, document.starts)}
    spans = find_copied(f"{one} {other}", index)
    assert [document.text[s.places[0].start : s.places[0].end] for s in spans] == [one, other]
    found = share(f"{one} {other}", spans, {1: document})
    assert (found.part, found.sections) == (1, {1: (1, 2)})


def test_of_a_document_that_has_the_text_everywhere_twenty_places_are_named():
    text = "this is at the foot of every page"
    (span,) = find_copied(text, {1: WordIndex("\n1\n".join([text] * 50))})
    assert [place.start for place in span.places] == [n * (len(text) + 3) for n in range(20)]


def test_texts_with_next_to_no_words():
    for text in ("", " \n", "one", "—"):
        assert find_copied(text, {1: WordIndex(text)}) == ()
        assert share(text, (), {}).part == 0


def test_in_columns_of_one_number_few_places_are_looked_at(monkeypatch):
    monkeypatch.setattr(copied, "_MOST_IN_ALL", 1_000)
    column = ("0.00 " * 50 + "x ") * 200
    found = find_copied("0.00 | " * 100, {1: WordIndex(column)})
    assert [span.end - span.start for span in found] == [50 * len("0.00 | ") - 3] * 2


# The line beneath an answer


def of(text):
    indexes = {
        number: WordIndex(document.text, document.starts) for number, document in DOCUMENTS.items()
    }
    found = share(text, find_copied(text, indexes), DOCUMENTS)
    return found.part, dict(found.sections), in_words(found, DOCUMENTS)


def test_the_share_is_of_the_words_of_the_answer():
    part, sections, _ = of("Both say: this agreement is governed by the laws of England and Wales.")
    assert part == pytest.approx(11 / 13)
    assert sections == {1: (2,), 3: (3,)}
    assert of("Nothing of that.") == (0, {}, "")
    part, _, said = of(
        "The Seller warrants the pumps for 36 months from acceptance. The Buyer inspects each lot "
        "within ten working days. Heights are rounded to the nearest centimetre, they say."
    )
    places = "contract.pdf p. 2, 3; manual.md Configuration"
    assert said == f"{int(100 * part)} % word for word: {places}"


def test_of_places_in_one_document_that_one_is_named_that_is_named_anyway():
    pages = tuple(
        Section("page", n, f"every page says the same thing here {own}".strip())
        for n, own in enumerate(("", "p1 p2 p3 p4 p5 p6", ""), start=1)
    )
    document = Document("a.pdf", "pdf", "", pages)
    index = {1: WordIndex(document.text)}
    for text, sections in (
        ("Every page says the same thing here.", (0,)),
        ("Every page says the same thing here. Then p2 p3 p4 p5 p6.", (1,)),
    ):
        assert share(text, find_copied(text, index), {1: document}).sections == {1: sections}


def test_a_line_stays_short_and_names_other_places():
    pages = tuple(Section("page", n, f"page number {n} of the book") for n in range(1, 20))
    book = Document("book.pdf", "pdf", "", pages)
    text = " or ".join(page.text for page in pages)
    spans = find_copied(text, {1: WordIndex(book.text)})
    assert in_words(share(text, spans, {1: book}), {1: book}).endswith(
        "book.pdf p. 1, 2, 3, 4, 5, 6 and 13 more"
    )
    sheets = (Section("sheet", 1, "the first price is 12", "Prices"), Section("sheet", 2, "", "B"))
    book = Document("a.xlsx", "xlsx", "", sheets)
    span = CopiedSpan(0, 21, (CopiedPlace(1, 0, 21),))
    said = in_words(share(sheets[0].text, [span], {1: book}), {1: book})
    assert said == "100 % word for word: a.xlsx sheet Prices"
