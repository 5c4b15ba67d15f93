"""What a question is read as: its distinctive words, and whether it is about all of a document."""

from engine.documents.question import asks_about_all, looked_for, terms


def test_words_that_every_question_has_are_left_out() -> None:
    for question, kept in (
        ("What is the Notice period, and what is a notice?", ("Notice", "period")),
        ("What's this about? Summarize it!", ()),
        ("Welche Kündigungsfrist gilt für die Garage?", ("Kündigungsfrist", "Garage")),
        ("¿Qué dice el contrato de la fianza?", ("contrato", "fianza")),
        ("Quel est le loyer de l'appartement ?", ("loyer", "appartement")),
        ("Who was in the war?", ("war",)),
        ("Wer war im Krieg?", ("Krieg",)),
        ("价格是多少", ("价格是多少",)),
        ("किराया ४५ दिन?", ("किराया", "45", "दिन")),
        ("הַדִּירָה?", ("הדירה",)),
        ("ค่าเช่า", ("ค่าเช่า",)),
        ("Quelle e\u0301cole, l’eau ?", ("école", "eau")),
    ):
        assert terms(question) == kept, question


def test_a_short_question_that_refers_to_the_one_before_is_looked_for_with_it() -> None:
    assert "rent" in looked_for("And who pays it?", "How high is the rent?")
    assert looked_for("Who pays the deposit and the heating?", "rent?").count("rent") == 0


def test_questions_about_all_of_a_document_are_noticed() -> None:
    for question in (
        "Sum up the report",
        "What's the average age of the patients?",
        "Which supplier is the most expensive?",
        "How many invoices are overdue?",
        "What is the grand total?",
        "What are the main findings?",
        "What is the article about?",
        "Extract all names.",
        "Rank the offers by price",
        "Welche Filiale hat den größten Umsatz?",
        "Wie viele Mitarbeiter sind krank?",
        "Kannst du den Bericht zusammenfassen?",
        "Wovon handelt das Buch?",
        "¿Cuántas facturas están pendientes?",
        "¿De qué va la novela?",
        "Haz un resumen del informe",
        "Combien de factures sont en retard ?",
        "Fais la synthèse de ce rapport",
        "Quante fatture sono scadute?",
        "Quantas faturas estão em atraso?",
        "Hoeveel facturen staan open?",
        "请概括这篇文章",
        "この記事の要約をお願いします",
    ):
        assert asks_about_all(question), question


def test_others_are_not() -> None:
    for question in (
        "How many days do I have to pay?",
        "Wie viele Tage Urlaub habe ich?",
        "Combien de jours dure le préavis ?",
        "At most how much may he spend?",
        "Where does the caretaker live?",
        "What is on page 3?",
        "Summarize page 3",
        "List all the duties in § 12",
        "Fasse Kapitel 4 zusammen.",
        "¿Quién paga la fianza?",
        "Qui paie le loyer ?",
        "",
    ):
        assert not asks_about_all(question), question
