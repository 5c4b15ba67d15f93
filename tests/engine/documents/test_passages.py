"""Where documents are cut, which words of a question count, which places it names, and which
passages it finds.
"""

# ruff: noqa: RUF001

import json
from base64 import b64encode
from itertools import pairwise
from unicodedata import normalize

from hypothesis import given
from hypothesis import strategies as st

from engine.documents import BETWEEN, Document, Section
from engine.documents.named_places import named_places, ranges_of
from engine.documents.passages import FEWEST_UNITS, MOST_UNITS, PassageIndex, choose, cut
from engine.documents.question import terms

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
    ]
)
TEXTS = st.lists(PIECES, max_size=30).map(lambda pieces: "".join(pieces) * 12)
KINDS = ["page", "sheet", "slide", "chapter", "part", "cell", "lines"]


def document(*texts, kind="page"):
    sections = tuple(Section(kind, i, text) for i, text in enumerate(texts, start=1))
    return Document("a", "pdf", "00", sections)


def words(count, word="word"):
    return " ".join([word] * count)


def cuts(one):
    return [one.text[passage.start : passage.end] for passage in cut(one)]


# Cutting


@given(st.lists(TEXTS, max_size=4), st.sampled_from(KINDS))
def test_passages_hold_all_the_text_and_do_not_overlap(texts, kind):
    one = document(*texts, kind=kind)
    passages = cut(one)
    assert all(before.end <= after.start for before, after in pairwise(passages))
    assert "".join("".join(text.split()) for text in cuts(one)) == "".join(one.text.split())
    for text in cuts(one):
        assert text == text.strip() != ""
        assert len(text.split()) <= MOST_UNITS


def test_a_document_is_cut_at_its_strongest_border():
    for kind, before, border, between in (
        ("page", words(210), BETWEEN, "\n\n"),
        ("page", words(210), "\n# Notice\n", "\n\n"),
        ("page", words(210), "\n7.2 Notice\n", "\n\n"),
        ("page", words(210), "\nNOTICE PERIODS\n", "\n\n"),
        ("page", words(210), "\nNotice\n------\n", "\n\n"),
        ("page", words(210), "\n\n", ". "),
        ("page", words(210) + ".", " ", "\n"),
        ("lines", words(210), "\n", ". "),
        ("lines", words(210), "\ndef found(one):\n", "\n\n  "),
    ):
        after = words(20) + between + words(250)
        texts = [before, after] if border == BETWEEN else [before + border + after]
        assert cuts(document(*texts, kind=kind))[0] == before, border


def test_passages_have_about_as_many_words_also_of_dense_text():
    lengths = [len(text.split()) for text in cuts(document(words(2000)))]
    assert all(FEWEST_UNITS <= length <= MOST_UNITS for length in lengths[:-1])
    assert max(len(text) for text in cuts(document("合同在三十天内终止。" * 300))) <= 2 * MOST_UNITS
    row = "O-1350,2025-03-02,Baker Ltd,Cork,hinge left,70,631.05,19,750.95"
    records = [{"id": n, "name": f"account {n}", "active": True} for n in range(300)]
    for text, ends in (
        ("\n".join([row] * 300), "750.95"),
        (json.dumps(records, separators=(",", ":")), ("},", "]")),
        (b64encode(bytes(range(256)) * 60).decode(), ""),
        (("Contents " + "." * 80 + " 5\n") * 200, ""),
    ):
        passages = cuts(document(text, kind="lines"))
        assert max(map(len, passages)) < 9 * MOST_UNITS
        assert all(passage.endswith(ends) for passage in passages)


# Finding

CONTRACT = document(
    "1. Parties\n" + words(230, "party"),
    "2. Termination\nEither side may terminate with a notice period of 30 days. " + words(230, "a"),
    "3. Payment\nThe price is 12,400 EUR (see ACME-7/b). " + words(230, "pay"),
    "4. 价格\n合同的价格是一万元。" + words(230, "b"),
)


def best(question, one=CONTRACT):
    """The section of the passage that stands first; None where nothing is found."""
    with PassageIndex() as index:
        passages = index.passages(1, one)
        scores = index.find(question, [1]).scores
    key = max(scores, key=lambda key: scores[key], default=None)
    return None if key is None else one.section_at(passages[key[1]].start)


TOGETHER = document(
    words(230, "filler") + " period of the moon, and a notice on the door",
    words(230, "filler") + " a notice period holds for all, of the moon and the door",
)
SHEETS = Document(
    *("a", "xlsx", "00"),
    tuple(Section("sheet", n, words(230, "12"), name) for n, name in ((1, "Prices"), (2, "Costs"))),
)


def test_a_question_finds_its_passage():
    for question, one, section in (
        ("How long is the notice period?", CONTRACT, 1),
        ("When is it terminated?", CONTRACT, 1),
        ("What does ACME-7/b cost?", CONTRACT, 2),
        ("价格是多少", CONTRACT, 3),
        ("Which politics?", CONTRACT, None),  # three letters of "notice" are not enough
        ("What is this about?", CONTRACT, None),
        ("Which notice period?", TOGETHER, 1),  # words that stand together count more
        ("Which no\u00adtice period?", TOGETHER, 1),  # also where one has a soft hyphen
        ('Who wrote "a notice on the door"?', TOGETHER, 0),
        ("costs?", SHEETS, 1),  # a section's name
    ):
        assert best(question, one) == section, question
    with PassageIndex() as index:  # only the documents that are asked for are looked through
        for number in (1, 2):
            index.passages(number, CONTRACT)
        assert {number for number, _ in index.find("notice", [2]).scores} == {2}
        assert index.find("notice", []).scores == {}


def test_words_are_found_in_other_forms():
    for function_words, pairs in (
        (
            "die der und ist mit von in zu",
            ("Zinssatz Zinssätze", "Prüfung geprüft", "Miete Nebenmieten"),
        ),
        ("la el y es con de en que", ("inquilino inquilinos", "reparacion reparación")),
        ("le la et est avec de en que", ("cheval chevaux", "bâtiment bâtiments")),
        ("", ("invoice invoicing", "Grundstücke Grundstück", "ключ ключи", "deposits deposit")),
    ):
        for pair in pairs:
            asked, written = pair.split()
            others = [f"{function_words} " * 30 + words(260, word) for word in ("ox", "elk", "hen")]
            one = document(others[0], others[1] + f" {written}.", others[2])
            assert best(f"{asked}?", one) == 1, pair


WRITTEN = (  # other spellings of a word: tests/engine/documents/test_copied.py
    ("किराया कब?", "किराया पाँच तारीख को", "मकान का उपयोग होगा"),
    ("45000 किसलिए?", "४५,००० रुपये", "मकान का उपयोग होगा"),
    ("1234567?", "₹ 12,34,567", "मकान का उपयोग होगा"),
    ("ค่าเช่า?", "จ่ายค่าเช่าทุกเดือน", "บ้านใช้อยู่อาศัย"),
    ("税?", "合同的税由买方承担", "房屋仅用于居住"),
    (normalize("NFD", "ペット"), "ペットは禁止", "住居としてのみ"),
    ("Who holds 225,871 shares?", "225871", "one word more"),
    ("Was kostet 1299 Euro?", "1.299,00", "one word more"),
    ("Qui paie 12500 euros ?", "12\u202f500", "one word more"),
    ("Qui paie 12500 euros ?", "5 12 500", "one word more"),
)


def test_words_and_numbers_are_found_however_they_are_written():
    for asked, written, others in WRITTEN:
        other = f"{others} " * 100
        assert best(asked, document(other, f"{other}{written} .", other)) == 1, asked


@given(st.text() | st.text('"*^():+-{}ANDORNEAR 合é\x00', max_size=30), st.text())
def test_no_question_and_no_text_is_an_error(question, text):
    with PassageIndex() as index:
        assert bool(index.passages(1, document(text))) == bool(text.strip())
        index.passages(2, CONTRACT)
        index.find(question, [1, 2])


# Choosing

LAST = {1: 9, 2: 9, 3: 9}


def test_a_good_passage_takes_its_neighbours_along():
    scores = {(1, 4): 9.0, (1, 8): 3.0, (2, 0): 2.0}
    chosen = choose(scores, lambda key: 1, room=4, last=LAST)
    assert chosen == ((1, 3), (1, 4), (1, 5), (1, 8))
    assert choose(scores, lambda key: 1, room=2, last=LAST, first=[(2, 0)]) == ((1, 4), (2, 0))
    assert choose(scores, lambda key: 1, room=1, last=LAST, first=[(3, 7)]) == ((3, 7),)


# The words of a question


def test_words_that_every_question_has_are_left_out():
    for question, kept in (
        ("What is the Notice period, and what is a notice?", ("Notice", "period")),
        ("Welche Kündigungsfrist gilt für die Garage?", ("Kündigungsfrist", "Garage")),
        ("Quel est le loyer de l'appartement ?", ("loyer", "appartement")),
        ("Kaution en la?", ("Kaution",)),
        ("Der Schlu\u0308ssel fu\u0308r u\u0308ber 5?", ("Schlüssel", "5")),
        ("价格是多少", ("价格是多少",)),
        ("किराया ४५ दिन?", ("किराया", "45", "दिन")),
        ("הַדִּירָה?", ("הדירה",)),
        ("ค่าเช่า", ("ค่าเช่า",)),
        ("Quelle e\u0301cole, l’eau ?", ("école", "eau")),
    ):
        assert terms(question) == kept, question


# Which places a question names, and where they are in a document


def of_parts(*texts, kind="part", first=1, label=""):
    sections = tuple(Section(kind, n, text, label) for n, text in enumerate(texts, start=first))
    return Document("a", "pdf", "00", sections)


def named(question):
    return [(place.kind, place.first, place.last) for place in named_places(question)]


def at(question, one):
    """The texts at the places that a question names."""
    return [
        one.text[start:end].strip()
        for place in named_places(question)
        for start, end in ranges_of(place, one)
    ]


NAMED = (
    ("What is on page 88?", [("page", "88", "88")]),
    ("Compare p. 3 and pp. 5-7", [("page", "3", "3"), ("page", "5", "7")]),
    ("pages 3, 5 and 8", [("page", "3", "3"), ("page", "5", "5"), ("page", "8", "8")]),
    ("Was steht auf Seite 12 bis 14?", [("page", "12", "14")]),
    ("page 3 of 10", [("page", "3", "3")]),
    ("Who signed on the last page?", [("page", "last", "last")]),
    ("Summarize Chapter VII", [("chapter", "VII", "VII")]),
    ("§ 23 und §§ 30-32", [("clause", "23", "23"), ("clause", "30", "32")]),
    ("cláusula 7.6 o artículo 3", [("clause", "7.6", "7.6"), ("clause", "3", "3")]),
    ("第88页有什么?", [("page", "88", "88")]),
    ("the twenty-third chapter", [("chapter", "23", "23")]),
    ("im siebten Kapitel", [("chapter", "7", "7")]),
    ("Kapitel einundzwanzig bis dreißig", [("chapter", "21", "30")]),
    ("capitolo ventitré", [("chapter", "23", "23")]),
    ("hoofdstuk drieëntwintig", [("chapter", "23", "23")]),
    ("第二十三章", [("chapter", "23", "23")]),
    ("page iv", [("page", "iv", "iv")]),
    ("Appendix C and Exhibits A to B", [("appendix", "C", "C"), ("appendix", "A", "B")]),
    ("§ ४३ में क्या है?", [("clause", "43", "43")]),
)


OTHER_NUMBERS = (
    "Summarize it in 5 pages",
    "Who pays 300 euros?",
    "On which page I find it?",
    "Is the homepage 3 years old?",
    "What is article about?",
    "rowing 3 miles",
    "What does page2.html show?",
    f"page {'9' * 5000}",
)


def test_places_are_named_in_many_ways_and_other_numbers_name_none():
    for question, places in (*NAMED, *((each, []) for each in OTHER_NUMBERS)):
        assert named(question) == places, question


THREE = of_parts("first", "second", "third", kind="page")
SHEET = Document(
    *("a.xlsx", "xlsx", "00"),
    (Section("sheet", 1, "head\nb\nc", "One"), Section("sheet", 51, "y\nz", "One")),
)
BOOK = of_parts("Chapter VI\nthe sea", "Chapter VII\nthe land", kind="chapter")
LABELS = enumerate(("i", "ii", "1", "2", "A-1", "1"), start=1)
PRINTED = Document(
    *("a", "pdf", "00"),
    tuple(Section("page", n, f"p{n}", f"a > printed {each}") for n, each in LABELS),
)
LAW = of_parts("\n".join(f"Section {n}: Title\nsee\nsection 4 of it." for n in range(1, 20)))
CLAUSES = of_parts(
    "4. Insurance\n4.1 Fire\nThe supplier.\n4.2 Hail\n30 days later:\n1. roof\n2. walls\n"
    "4.2.1 Of cars\nNobody.\n4.3 Flood\nThe customer.\n5. Delivery"
)
FOUND = (
    ("page 2", THREE, ["second"]),
    ("pages 2-9", THREE, ["second\n\nthird"]),
    ("the last page", THREE, ["third"]),
    ("the last page", of_parts("no", "pages"), []),
    ("page 2", of_parts("first", "second", kind="slide"), ["second"]),
    ("row 52", SHEET, ["z"]),
    ("rows 2 to 51", SHEET, ["b\nc", "y"]),
    ("row 53", SHEET, []),
    ("line 42", of_parts("a\nb\nc", kind="lines", first=41), ["b"]),
    ("chapter 7", BOOK, ["Chapter VII\nthe land"]),
    ("chapter 2", BOOK, ["Chapter VII\nthe land"]),  # the second of the book's parts
    ("chapter 7", of_parts("# 6. Sea\nblue", "# 7. Land\ngreen"), ["# 7. Land\ngreen"]),
    # Printed numbers of pages.
    ("page 2", PRINTED, ["p4"]),
    ("page II", PRINTED, ["p2"]),
    ("page 1", PRINTED, ["p3", "p6"]),
    ("pages 1-2", PRINTED, ["p3\n\np4", "p6"]),
    ("the last page", PRINTED, ["p6"]),
    # Clauses.
    (
        "What does § 3 say?",
        of_parts("§ 2 Rent\nIt is high, see\n§ 4.\n§ 3 Pets\nNone."),
        ["§ 3 Pets\nNone."],
    ),
    ("section 4", LAW, ["Section 4: Title\nsee"]),
    ("sections 4-5", LAW, ["Section 4: Title\nsee", "Section 5: Title\nsee"]),
    ("clause 4.4", CLAUSES, []),
    ("item 1", of_parts("1. milk\n2. bread\n\n" * 20), []),  # which stands everywhere
)
HEADINGS = (
    ("CHAPTER SIX|CHAPTER SEVEN|CHAPTER EIGHT", "chapter 7", "CHAPTER SEVEN"),
    ("Appendix H|Appendix I", "What does Appendix I say?", "Appendix I"),
    ("Chapter Twenty|Chapter Twenty-One", "the 21st chapter", "Chapter Twenty-One"),
    ("Sechstes Kapitel|Siebtes Kapitel", "Kapitel sieben", "Siebtes Kapitel"),
    ("CHAPITRE PREMIER|CHAPITRE II", "premier chapitre", "CHAPITRE PREMIER"),
    ("第六章 海|第七章 陆|第十二章 天", "第12章", "第十二章 天"),
    ("Schedule 1|Schedule A: Rent", "schedule A", "Schedule A: Rent"),
)


def test_a_place_is_found_by_its_number_however_it_is_written():
    for question, one, texts in FOUND:
        assert at(question, one) == texts, question
    for headings, question, found in HEADINGS:
        one = of_parts("".join(f"{each}\nIt says so.\n" for each in headings.split("|")))
        assert at(question, one) == [f"{found}\nIt says so."], question
    for question, begin, end in (
        ("clause 4.2", "4.2 Hail", "Nobody."),
        ("section 4", "4. Insurance", "The customer."),
        ("clauses 4.1 to 4.2", "4.1 Fire", "Nobody."),
    ):
        (text,) = at(question, CLAUSES)
        assert (text[: len(begin)], text[-len(end) :]) == (begin, end), question
