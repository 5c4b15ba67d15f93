"""Which numbers and quotations of an answer stand in no document."""

from hypothesis import given
from hypothesis import strategies as st

from engine.documents.copied import WordIndex
from engine.documents.not_found import known_words, not_found
from tests.support.documents.marked_answers import ANSWERS, DOCUMENTS

TEXTS = [WordIndex(document.text) for document in DOCUMENTS.values()]
NOTED = known_words(DOCUMENTS.values(), ["Does Berta owe us 77 pounds?"])


def of(answer, *texts):
    """What is not found in these texts, or in the three documents, and of what kind it is."""
    indexes = [WordIndex(text) for text in texts] or TEXTS
    return [(answer[found.start : found.end], found.kind) for found in not_found(answer, indexes)]


def test_what_the_documents_say_is_found():
    for answer in [answer.text for answer in ANSWERS]:
        missing = {said for said, _ in of(answer)}
        assert missing <= {"24"}  # an answer that is wrong by a number


def test_an_invented_word_of_each_kind_is_named():
    answer = (
        "On 12 March 2027 **Maria Keller** and Peter Stern agreed on EUR 1,285,000.00 for the "
        "HP-221: “The Seller shall … never deliver”."
    )
    assert of(answer) == [
        ("2027", "number"),
        ("1,285,000.00", "number"),
        ("never deliver", "quotation"),
    ]


FOUND = (
    *((written, "1284000 2.5") for written in ("1284000", "1,284,000", "1.284.000,00", "2,5")),
    ("1284000", "it is 1 284 000"),
    ("1 284 000", "it is 1284000"),
    ("12", "on the 12th"),
    ("3rd", "in 3 days"),
    ("5", "at -5 °C"),
    ("20", "10,20,30"),
    ("007", "agent 7"),
    ("1 000", "between 1 and 000"),
)
MISSING = (("1,284", "1,285 and 284"), ("10.5", "105"), ("1 285 000", "1 284 000"), ("2", "12"))


def test_numbers_are_found_however_they_are_written():
    for written, text in FOUND:
        assert of(f"That is {written} in all.", text) == [], written
    for written, text in MISSING:
        assert of(f"That is {written} in all.", text) == [(written, "number")], written


def test_quotations_stand_as_they_are_written():
    for quoted in ("“{}”", '"{}"', "„{}“", "«{}»", "\u2018{}\u2019", "「{}」"):
        said = "free of defects and fit for continuous operation"
        assert of(f"They are {quoted.format(said)}, it says.") == []
        other = "free of faults and fit for operation"
        assert of(f"They are {quoted.format(other)}, it says.") == [(other, "quotation")]
    for quoted in ("“{}”", "„{}“", "«{}»", "「{}」"):
        other = "never delivered\nin lots of any size"
        assert of(f"They are {quoted.format(other)}, it says.") == [(other, "quotation")]
    assert of("They are “never\n\ndelivered” so.") == []
    assert of("It says “The pumps shall be new, [...] fit for … operation”.") == []


def test_code_markers_and_citations_say_nothing():
    answer = 'Run this:\n\n```python\nx = 999  # "quite new"\n```\n\nand `port 998` too.'
    assert of(answer) == []
    assert of("7. First [99]\n8. second\n\n## 6. Third\n\n[the notes](https://a.example/55)") == []


def test_what_the_person_said_and_names_of_files_need_not_stand_there():
    for answer in (
        "It is on page 3 of contract.pdf.",
        "As you say, Berta owes 77 pounds to Berta’s firm.",
    ):
        assert of(answer, "nothing")
        assert not_found(answer, [WordIndex("nothing"), NOTED]) == ()


@given(st.text(alphabet='aBc1 .,-/“”"`*[]\n«»年', max_size=60), st.text(max_size=20))
def test_what_is_named_is_in_the_answer_and_apart(answer, text):
    end = 0
    for found in not_found(answer, [WordIndex(text)]):
        assert end <= found.start < found.end <= len(answer)
        end = found.end


@given(st.text(alphabet='aBc1 .,-/“”"\n', max_size=60))
def test_a_text_has_all_that_it_says(text):
    assert not_found(text, [WordIndex(text)]) == ()
