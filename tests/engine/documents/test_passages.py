"""Where documents are cut, and which passages a question finds."""

from collections.abc import Mapping
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.documents import BETWEEN, Document, Section, SectionKind
from engine.documents.passages import (
    FEWEST_WORDS,
    MOST_WORDS,
    Key,
    PassageIndex,
    choose,
    cut,
    terms,
)

PIECES = st.sampled_from(
    [
        "word ",
        "End. ",
        "x" * 60,
        "\n",
        "\n\n",
        "# Head\n",
        "3.2 Notice\n",
        "合同在三十天内终止。",
        "\t",
        "",
    ]
)
TEXTS = st.lists(PIECES, max_size=30).map(lambda pieces: "".join(pieces) * 12)
KINDS: list[SectionKind] = ["page", "sheet", "slide", "chapter", "part", "cell", "lines"]


def document(*texts: str, kind: SectionKind = "page") -> Document:
    sections = tuple(Section(kind, i, text) for i, text in enumerate(texts, start=1))
    return Document("a", "pdf", "00", sections)


def words(count: int, word: str = "word") -> str:
    return " ".join([word] * count)


def cuts(one: Document) -> list[str]:
    return [one.text[passage.start : passage.end] for passage in cut(one)]


# Cutting


@given(st.lists(TEXTS, max_size=4), st.sampled_from(KINDS))
def test_passages_hold_all_the_text_and_do_not_overlap(texts: list[str], kind: SectionKind) -> None:
    one = document(*texts, kind=kind)
    passages = cut(one)
    assert all(before.end <= after.start for before, after in pairwise(passages))
    assert "".join("".join(text.split()) for text in cuts(one)) == "".join(one.text.split())
    for text in cuts(one):
        assert text == text.strip() != ""
        assert len(text.split()) <= MOST_WORDS


def test_passages_have_about_as_many_words() -> None:
    lengths = [len(text.split()) for text in cuts(document(words(2000)))]
    assert all(FEWEST_WORDS <= length <= MOST_WORDS for length in lengths[:-1])
    assert sum(lengths) == 2000


def test_a_document_is_cut_at_its_strongest_border() -> None:
    for kind, before, after in (
        ("page", words(160), BETWEEN + words(10) + "\n\n" + words(200)),
        ("page", words(160), "\n# Notice\n" + words(10) + "\n\n" + words(200)),
        ("page", words(160), "\n7.2 Notice\n" + words(10) + "\n\n" + words(200)),
        ("page", words(160), "\nNOTICE PERIODS\n" + words(10) + "\n\n" + words(200)),
        ("page", words(160), "\nNotice\n------\n" + words(10) + "\n\n" + words(200)),
        ("page", words(160), "\n\n" + words(10) + ". " + words(200)),
        ("page", words(160) + ".", " " + words(10) + "\n" + words(200)),
        ("lines", words(160), "\n" + words(10) + ". " + words(200)),
        ("lines", words(160), "\ndef found(one):\n" + words(10) + "\n\n  " + words(200)),
    ):
        texts = (
            [before, after.removeprefix(BETWEEN)] if after.startswith(BETWEEN) else [before + after]
        )
        assert cuts(document(*texts, kind=kind))[0] == before


def test_text_without_spaces_is_cut_too() -> None:
    lengths = [len(text) for text in cuts(document("合同在三十天内终止。" * 300))]
    assert max(lengths) <= 2 * MOST_WORDS
    assert sum(lengths) == 3000


# Finding

CONTRACT = document(
    "1. Parties\n" + words(170, "party"),
    "2. Termination\nEither side may terminate with a notice period of 30 days. " + words(170, "a"),
    "3. Payment\nThe price is 12,400 EUR (see ACME-7/b). " + words(170, "pay"),
    "4. 价格\n合同的价格是一万元。" + words(170, "b"),
)


def best(question: str, one: Document = CONTRACT) -> int | None:
    """The section of the passage that stands first; None where nothing is found."""
    with PassageIndex() as index:
        passages = index.passages(1, one)
        scores = index.find(question, [1]).scores
    key = max(scores, key=lambda key: scores[key], default=None)
    return None if key is None else one.section_at(passages[key[1]].start)


def test_a_question_finds_its_passage() -> None:
    for question, section in (
        ("How long is the notice period?", 1),
        ("When is it terminated?", 1),
        ("What does ACME-7/b cost?", 2),
        ("how much: 12,400", 2),
        ("价格是多少", 3),
        ("zebras", None),
        ("What is this about?", None),
        ("", None),
    ):
        assert best(question) == section


def test_words_that_stand_together_count_more() -> None:
    one = document(
        words(160, "filler") + " period of the moon, and a notice on the door",
        words(160, "filler") + " a notice period holds for all, of the moon and the door",
    )
    assert best("Which notice period?", one) == 1
    assert best('Who wrote "a notice on the door"?', one) == 0


def test_names_of_sections_are_found() -> None:
    sections = (
        Section("sheet", 1, words(170, "12"), "Prices"),
        Section("sheet", 2, words(170, "12"), "Costs"),
    )
    assert best("costs?", Document("a", "xlsx", "00", sections)) == 1


def test_only_the_documents_that_are_asked_for_are_looked_through() -> None:
    with PassageIndex() as index:
        for number in (1, 2):
            index.passages(number, CONTRACT)
        assert {number for number, _ in index.find("notice", [2]).scores} == {2}
        assert index.find("notice", []).scores == {}


def test_words_that_every_question_has_are_left_out() -> None:
    assert terms("What is the Notice period, and what is a notice?") == ("Notice", "period")
    assert terms("What's this about? Summarize it!") == ()


@given(st.text() | st.text('"*^():+-{}ANDORNEAR 合é\x00', max_size=30))
def test_no_question_is_an_error(question: str) -> None:
    with PassageIndex() as index:
        index.passages(1, CONTRACT)
        index.find(question, [1])


@given(st.text())
def test_no_text_is_an_error(text: str) -> None:
    with PassageIndex() as index:
        passages = index.passages(1, document(text))
        assert bool(passages) == bool(text.strip())


# Choosing

SCORES = st.dictionaries(
    st.tuples(st.integers(1, 3), st.integers(0, 9)), st.floats(0.1, 9), max_size=20
)
LAST = {1: 9, 2: 9, 3: 9}


@given(SCORES, st.integers(0, 40), st.sets(st.tuples(st.integers(1, 3), st.integers(0, 9))))
def test_what_is_chosen_fits_and_is_in_order(
    scores: Mapping[Key, float], room: int, without: set[Key]
) -> None:
    def cost(key: Key) -> int:
        return 1 + key[1] % 5

    chosen = choose(scores, cost, room=room, last=LAST, without=without)
    assert sum(map(cost, chosen)) <= room
    assert list(chosen) == sorted(set(chosen))
    assert not without & set(chosen)
    if len(chosen) < len(set(scores) - without):  # something was left out, since it has no room
        assert sum(map(cost, chosen)) > room - 5


def test_a_good_passage_takes_its_neighbours_along() -> None:
    scores = {(1, 4): 9.0, (1, 8): 3.0, (2, 0): 2.0}
    chosen = choose(scores, lambda key: 1, room=4, last=LAST)
    assert chosen == ((1, 3), (1, 4), (1, 5), (1, 8))
    assert choose(scores, lambda key: 1, room=2, last=LAST, first=[(2, 0)]) == ((1, 4), (2, 0))
