"""Which words of a question are distinctive."""

from engine.documents.question import looked_for, terms


def test_words_that_every_question_has_are_left_out():
    for question, kept in (
        ("What is the Notice period, and what is a notice?", ("Notice", "period")),
        ("What's this about? Summarize it!", ()),
        ("Welche Kündigungsfrist gilt für die Garage?", ("Kündigungsfrist", "Garage")),
        ("¿Qué dice el contrato de la fianza?", ("contrato", "fianza")),
        ("Quel est le loyer de l'appartement ?", ("loyer", "appartement")),
        ("Who was in the war?", ("war",)),
        ("Wer war im Krieg?", ("Krieg",)),
        ("Kaution en la?", ("Kaution",)),
        ("The Kaution?", ("Kaution",)),
        ("Der Schlu\u0308ssel fu\u0308r u\u0308ber 5?", ("Schlüssel", "5")),
        ("价格是多少", ("价格是多少",)),
        ("किराया ४५ दिन?", ("किराया", "45", "दिन")),
        ("הַדִּירָה?", ("הדירה",)),
        ("ค่าเช่า", ("ค่าเช่า",)),
        ("Quelle e\u0301cole, l’eau ?", ("école", "eau")),
    ):
        assert terms(question) == kept, question


def test_a_short_question_that_refers_to_the_one_before_is_looked_for_with_it():
    assert "rent" in looked_for("And who pays it?", "How high is the rent?")
    assert looked_for("Who pays the deposit and the heating?", "rent?").count("rent") == 0
