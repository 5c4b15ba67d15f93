"""Which places a question names, and where they are in a document."""

from engine.documents import Document, Section
from engine.documents.named_places import named_places, ranges_of


def document(*texts, kind="part", first=1, label=""):
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
    ("the 88th page", [("page", "88", "88")]),
    ("Was steht auf Seite 12 bis 14?", [("page", "12", "14")]),
    ("What is in row 581?", [("row", "581", "581")]),
    ("¿Qué pone en la línea 7?", [("row", "7", "7")]),
    ("page 3 of 10", [("page", "3", "3")]),
    ("Who signed on the last page?", [("page", "last", "last")]),
    ("Was steht auf der ersten Seite?", [("page", "1", "1")]),
    ("Summarize Chapter VII", [("chapter", "VII", "VII")]),
    ("§ 23 und §§ 30-32", [("clause", "23", "23"), ("clause", "30", "32")]),
    ("cláusula 7.6 o artículo 3", [("clause", "7.6", "7.6"), ("clause", "3", "3")]),
    ("第88页有什么?", [("page", "88", "88")]),
    ("chapter seven", [("chapter", "7", "7")]),
    ("the twenty-third chapter", [("chapter", "23", "23")]),
    ("im siebten Kapitel", [("chapter", "7", "7")]),
    ("Kapitel einundzwanzig bis dreißig", [("chapter", "21", "30")]),
    ("capítulo treinta y uno", [("chapter", "31", "31")]),
    ("chapitres un et dix-sept", [("chapter", "1", "1"), ("chapter", "17", "17")]),
    ("capitolo ventitré", [("chapter", "23", "23")]),
    ("o capítulo dezesseis", [("chapter", "16", "16")]),
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


THREE = document("first", "second", "third", kind="page")
SHEET = Document(
    *("a.xlsx", "xlsx", "00"),
    (Section("sheet", 1, "head\nb\nc", "One"), Section("sheet", 51, "y\nz", "One")),
)
BOOK = document("Chapter VI\nthe sea", "Chapter VII\nthe land", kind="chapter")
LABELS = enumerate(("i", "ii", "1", "2", "A-1", "1"), start=1)
PRINTED = Document(
    *("a", "pdf", "00"),
    tuple(Section("page", n, f"p{n}", f"a > printed {each}") for n, each in LABELS),
)
LAW = document("\n".join(f"Section {n}: Title\nsee\nsection 4 of it." for n in range(1, 20)))
CONTRACT = document(
    "4. Insurance\n4.1 Fire\nThe supplier.\n4.2 Hail\n30 days later:\n1. roof\n2. walls\n"
    "4.2.1 Of cars\nNobody.\n4.3 Flood\nThe customer.\n5. Delivery"
)
FOUND = (
    ("page 2", THREE, ["second"]),
    ("pages 2-9", THREE, ["second\n\nthird"]),
    ("page 4", THREE, []),
    ("the last page", THREE, ["third"]),
    ("slide 2", THREE, ["second"]),
    ("the last page", document("no", "pages"), []),
    ("page 2", document("first", "second", kind="slide"), ["second"]),
    ("row 2", SHEET, ["b"]),
    ("row 52", SHEET, ["z"]),
    ("rows 2 to 51", SHEET, ["b\nc", "y"]),
    ("row 53", SHEET, []),
    ("line 42", document("a\nb\nc", kind="lines", first=41), ["b"]),
    ("chapter 7", BOOK, ["Chapter VII\nthe land"]),
    ("chapter 2", BOOK, ["Chapter VII\nthe land"]),  # the second of the book's parts
    ("Chapter IX", BOOK, []),
    ("chapter 7", document("# 6. Sea\nblue", "# 7. Land\ngreen"), ["# 7. Land\ngreen"]),
    # Printed numbers of pages.
    ("page 2", PRINTED, ["p4"]),
    ("page II", PRINTED, ["p2"]),
    ("page 1", PRINTED, ["p3", "p6"]),
    ("pages 1-2", PRINTED, ["p3\n\np4", "p6"]),
    ("page 5", PRINTED, ["p5"]),
    ("the last page", PRINTED, ["p6"]),
    # Clauses.
    (
        "What does § 3 say?",
        document("§ 2 Rent\nIt is high, see\n§ 4.\n§ 3 Pets\nNone."),
        ["§ 3 Pets\nNone."],
    ),
    ("section 4", LAW, ["Section 4: Title\nsee"]),
    ("sections 4-5", LAW, ["Section 4: Title\nsee", "Section 5: Title\nsee"]),
    ("clause 4.4", CONTRACT, []),
    ("item 1", document("1. milk\n2. bread\n\n" * 20), []),  # which stands everywhere
)
WRITTEN = (
    ("CHAPTER SIX|CHAPTER SEVEN|CHAPTER EIGHT", "chapter 7", "CHAPTER SEVEN"),
    ("Chapter Nine|Chapter Eighteen", "chapter 9", "Chapter Nine"),
    ("Appendix H|Appendix I", "What does Appendix I say?", "Appendix I"),
    ("Chapter Twenty|Chapter Twenty-One", "the 21st chapter", "Chapter Twenty-One"),
    ("Sechstes Kapitel|Siebtes Kapitel", "Kapitel sieben", "Siebtes Kapitel"),
    ("Capítulo sexto|Capítulo séptimo", "capítulo siete", "Capítulo séptimo"),
    ("CHAPITRE PREMIER|CHAPITRE II", "premier chapitre", "CHAPITRE PREMIER"),
    ("第六章 海|第七章 陆|第十二章 天", "第12章", "第十二章 天"),
    ("Anhang A – Preise|Anhang B", "Anhang A", "Anhang A – Preise"),
    ("Schedule 1|Schedule A: Rent", "schedule A", "Schedule A: Rent"),
)


def test_a_place_is_found_by_its_number_however_it_is_written():
    for question, one, texts in FOUND:
        assert at(question, one) == texts, question
    for headings, question, found in WRITTEN:
        one = document("".join(f"{each}\nIt says so.\n" for each in headings.split("|")))
        assert at(question, one) == [f"{found}\nIt says so."], question
    for question, begin, end in (
        ("clause 4.2", "4.2 Hail", "Nobody."),
        ("section 4", "4. Insurance", "The customer."),
        ("clauses 4.1 to 4.2", "4.1 Fire", "Nobody."),
    ):
        (text,) = at(question, CONTRACT)
        assert (text[: len(begin)], text[-len(end) :]) == (begin, end), question
