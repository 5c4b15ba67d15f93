"""What of an answer is copied, by hand-marked answers, by a slow finder, and by made-up noise;
which words are the same, and what stands in no document."""

# ruff: noqa: RUF001

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.documents import Document, Section, copied
from engine.documents.copied import WordIndex, find_copied, in_words, share
from engine.documents.not_found import known_words, not_found
from engine.documents.words import names, words
from tests.support.documents.marked_answers import ANSWERS, DOCUMENTS
from tests.support.mostly_slow import examples

_COUNTED = re.compile(r"[\u3040-\u9fff]|[^\W_\u3040-\u9fff]+")
_FEW = st.sampled_from(["a", "b", "c", "Bo", "7", "渡", "%", ".", "\n"])
_TEXT = st.lists(_FEW, max_size=40).map(" ".join)


INDEXES = {
    number: WordIndex(document.text, document.starts) for number, document in DOCUMENTS.items()
}


def test_the_finder_marks_what_a_reader_marked():
    assert len(ANSWERS) == 30
    for answer in ANSWERS:
        spans = [(span.start, span.end) for span in find_copied(answer.text, INDEXES)]
        counted = [match.span() for match in _COUNTED.finditer(answer.text)]
        found, marked = _within(counted, spans), _within(counted, answer.spans)
        many, missed = (
            [answer.text[start:end] for start, end in sorted(some)]
            for some in (found - marked, marked - found)
        )
        assert (many, missed) == ([], []), answer.kind


def _within(counted, spans):
    return {one for one in counted if any(s <= one[0] and one[1] <= e for s, e in spans)}


def slowly_copied(answer, documents):
    """Where an answer is copied, and from which documents, by trying everything."""
    found = words(answer)
    named = set(names(answer, found))
    others = {number: [w.form for w in words(text)] for number, text in documents.items()}
    taken = set()
    kept = []
    while True:
        runs = [
            (first, last)
            for first in range(len(found))
            for last in range(first + 4, len(found) + 1)
            if taken.isdisjoint(range(first, last))
            and _counts(found, named, first, last)
            and any(_holds(other, found[first:last]) for other in others.values())
        ]
        if not runs:
            return sorted(kept)
        first, last = max(runs, key=lambda run: (run[1] - run[0], -run[0]))
        taken |= set(range(first, last))
        where = {n for n, other in others.items() if _holds(other, found[first:last])}
        kept.append((found[first].start, found[last - 1].end, where))


def _counts(found, named, first, last):
    special = any(n in named or any(map(str.isdigit, found[n].form)) for n in range(first, last))
    return sum(word.halves for word in found[first:last]) >= (8 if special else 12)


def _holds(other, run):
    wanted = [word.form for word in run]
    return any(other[at : at + len(wanted)] == wanted for at in range(len(other) - len(wanted) + 1))


@settings(max_examples=examples(200))
@given(_TEXT, st.lists(_TEXT, min_size=1, max_size=3))
def test_it_finds_what_trying_everything_finds(answer, documents):
    texts = dict(enumerate(documents, start=1))
    found = find_copied(answer, {number: WordIndex(text) for number, text in texts.items()})
    assert [
        (span.start, span.end, {place.document for place in span.places}) for span in found
    ] == slowly_copied(answer, texts)
    for span in found:
        said = forms(answer[span.start : span.end])
        starts = [(place.document, place.start) for place in span.places]
        assert starts == sorted(starts)
        for place in span.places:
            assert forms(texts[place.document][place.start : place.end]) == said


def test_no_run_crosses_from_a_page_to_the_next():
    one, other = "a1 a2 a3 a4 a5", "b1 b2 b3 b4 b5"
    pages = tuple(Section("page", n, text) for n, text in enumerate(("", one, other, ""), start=1))
    document = Document("a.pdf", "pdf", "", pages)
    index = {1: WordIndex(document.text, document.starts)}
    spans = find_copied(f"{one} {other}", index)
    assert [document.text[s.places[0].start : s.places[0].end] for s in spans] == [one, other]
    found = share(f"{one} {other}", spans, {1: document})
    assert (found.part, found.sections) == (1, {1: (1, 2)})


def test_few_places_are_looked_at_where_all_is_alike(monkeypatch):
    for text in ("", " \n", "one", "—"):
        assert find_copied(text, {1: WordIndex(text)}) == ()
        assert share(text, (), {}).part == 0
    foot = "this is at the foot of every page"
    (span,) = find_copied(foot, {1: WordIndex("\n1\n".join([foot] * 50))})
    assert len(span.places) == 20
    monkeypatch.setattr(copied, "_MOST_IN_ALL", 1_000)
    column = ("0.00 " * 50 + "x ") * 200
    found = find_copied("0.00 | " * 100, {1: WordIndex(column)})
    assert [span.end - span.start for span in found] == [50 * len("0.00 | ") - 3] * 2


# The line beneath an answer


def of(text):
    found = share(text, find_copied(text, INDEXES), DOCUMENTS)
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


def test_a_line_stays_short():
    pages = tuple(Section("page", n, f"page number {n} of the book") for n in range(1, 20))
    book = Document("book.pdf", "pdf", "", pages)
    text = " or ".join(page.text for page in pages)
    spans = find_copied(text, {1: WordIndex(book.text)})
    assert in_words(share(text, spans, {1: book}), {1: book}).endswith(
        "book.pdf p. 1, 2, 3, 4, 5, 6 and 13 more"
    )


# Words: in which form they are compared, and where they stand

SAME = (
    ("The SELLER’s office", "the seller's office"),
    ("an agree-\n  ment of well-\nknown Jean-Paul", "an agreement of well-known jean-paul"),
    ("un\u00adaffected, co\u00ad\noperate", "unaffected cooperate"),
    ("Ufer\ufffe\nstraße", "uferstrasse"),
    ("across a page-\n\nbreak", "across a pagebreak"),
    ("the ﬁrst, cafe\u0301, \uff21\uff14", "the first café a4"),
    ("“quoted” «so» 'too'", "quoted so too"),
    ("10–15 and 2024/03/12", "10-15 and 2024-03-12"),
    ("1. First\n2) Second\n> - Third\n  **4.** Fourth", "First Second Third Fourth"),
    ("see [the notes](https://a.example/b) [3], [^4]", "see the notes"),
    ("| a | b<br>c |\n|---|---|", "a b c"),
    ("```python\nx = 1\n```", "x = 1"),
    ("हिन्दी में", "हिन्दी में"),
    ("ज़मानत ४५,०००", "जमानत 45,000"),
    ("שְׂכַר הַדִּירָה", "שכר הדירה"),
    ("يَدْفَعُ الإيـــجَارَ ٥٫٥ ٪", "يدفع الإيجار 5.5 %"),
    ("വാടകക്കാരന്\u200d", "വാടകക്കാരൻ"),
    ("می\u200cخواهم", "میخواهم"),
    ("za\u0301 за\u0301мок", "zá замок"),
    ("мʼята ג׳ירפה", "м'ята ג'ירפה"),
    ("រាល់ខែ។", "រាល់ខែ"),
)
OTHER = (
    ("1,284,000.00", "1,284,000.01"),
    ("10.5", "105"),
    ("10-15", "1015"),
    ("at -5 degrees", "at 5 degrees"),
    ("a < b", "a > b"),
    ("$5", "€5"),
    ("x += 1", "x -= 1"),
    ("agree-\nment", "agree ment"),
    ("in 1998. Then", "in Then"),
    ("か", "が"),
)


def forms(text):
    return [word.form for word in words(text)]


def test_texts_have_the_same_words_or_others():
    for text, same in SAME:
        assert forms(text) == forms(same), text
    for text, other in OTHER:
        assert forms(text) != forms(other), text
    found = words("提供HP-220渡轮 ไป ที่")  # a word for each character of scripts without spaces
    assert [word.form for word in found] == ["提", "供", "hp220", "渡", "轮", "ไ", "ป", "ที่"]
    assert [word.halves for word in found] == [1, 1, 2, 1, 1, 1, 1, 1]


def test_names_are_told_by_capitals_inside_sentences():
    for text, found in (
        ("It was signed by Maria Keller, of Bremen.", ["Maria", "Keller", "Bremen"]),
        ("They left. Then I'm told: The door\nWas open.", []),
        ("said the GDPR and I agreed", ["GDPR"]),
        ("Das Haus ist mit dem Auto und der Bahn von Bremen aus zu erreichen", []),
    ):
        said = words(text)
        assert [text[said[n].start : said[n].end] for n in names(text, said)] == found


# Which numbers and quotations stand in no document

NOTED = known_words(DOCUMENTS.values(), ["Does Berta owe us 77 pounds?"])


def missing(answer, *texts):
    """What is not found in these texts, or in the three documents, and of what kind it is."""
    indexes = [WordIndex(text) for text in texts] or [*INDEXES.values()]
    return [(answer[found.start : found.end], found.kind) for found in not_found(answer, indexes)]


FOUND = (
    *((written, "1284000 2.5") for written in ("1284000", "1,284,000", "1.284.000,00", "2,5")),
    ("1284000", "it is 1 284 000"),
    ("1 284 000", "it is 1284000"),
    ("12", "on the 12th"),
    ("20", "10,20,30"),
    ("007", "agent 7"),
    ("1 000", "between 1 and 000"),
)
MISSING = (("1,284", "1,285 and 284"), ("10.5", "105"), ("1 285 000", "1 284 000"), ("2", "12"))


def test_numbers_are_found_however_they_are_written():
    for written, text in FOUND:
        assert missing(f"That is {written} in all.", text) == [], written
    for written, text in MISSING:
        assert missing(f"That is {written} in all.", text) == [(written, "number")], written


QUOTED = "They are {}, it says.".format
STANDS = "free of defects and fit for continuous operation"
FREE, LOTS = "free of faults and fit for operation", "never delivered\nin lots of any size"
MARKS = ("“{}”", '"{}"', "„{}“", "«{}»", "\u2018{}\u2019", "「{}」")
ANSWERED = (
    *((QUOTED(each.format(STANDS)), []) for each in MARKS),
    *((QUOTED(each.format(FREE)), [(FREE, "quotation")]) for each in MARKS),
    *(
        (QUOTED(each.format(LOTS)), [(LOTS, "quotation")])
        for each in ("“{}”", "„{}“", "«{}»", "「{}」")
    ),
    ("They are “never\n\ndelivered” so.", []),
    ("It says “The pumps shall be new, [...] fit for … operation”.", []),
    # An invented word of each kind.
    (
        "On 12 March 2027 **Maria Keller** and Peter Stern agreed on EUR 1,285,000.00 for the "
        "HP-221: “The Seller shall … never deliver”.",
        [("2027", "number"), ("1,285,000.00", "number"), ("never deliver", "quotation")],
    ),
    # Code, markers and citations say nothing.
    ('Run this:\n\n```python\nx = 999  # "quite new"\n```\n\nand `port 998` too.', []),
    ("7. First [99]\n8. second\n\n## 6. Third\n\n[the notes](https://a.example/55)", []),
)


def test_what_an_answer_says_and_no_document_is_named():
    for answer, named in ANSWERED:
        assert missing(answer) == named, answer
    for answer in ANSWERS:
        assert {said for said, _ in missing(answer.text)} <= {"24"}  # one is wrong by a number
    for answer in (
        "It is on page 3 of contract.pdf.",
        "As you say, Berta owes 77 pounds to Berta’s firm.",
    ):  # what the user said and the names of files need not stand there
        assert missing(answer, "nothing"), answer
        assert not_found(answer, [WordIndex("nothing"), NOTED]) == (), answer
