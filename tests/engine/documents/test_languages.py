"""In which language a text is, and what its words have in common with their other forms."""

from engine.documents.languages import language_of, languages_of, stemmed


def test_the_language_of_a_text_is_told_by_its_function_words() -> None:
    for text, language in (
        ("The tenant pays the rent in advance, and it is due on the first of a month.", "english"),
        (
            "Der Mieter zahlt die Miete im Voraus, und sie ist am Ersten fällig.",
            "german",
        ),
        ("Der Schlu\u0308ssel fu\u0308r u\u0308ber 5 Ra\u0308ume.", "german"),
        ("El inquilino paga la renta por adelantado, y es debida el primero de mes.", "spanish"),
        ("Le locataire paie le loyer à l'avance, et il est dû le premier du mois.", "french"),
        ("Арендатор платит за квартиру вперёд, первого числа месяца.", "russian"),
        ("10025;Dampfreiniger;Reinigung;Stück;1.299,00;6", None),
        ("12 13 14", None),
        ("", None),
    ):
        assert language_of(text) == language, text


def test_a_question_may_be_in_several_languages_or_in_none() -> None:
    assert languages_of("Welche Frist gilt?") == ("german",)
    assert set(languages_of("en la")) >= {"spanish", "french"}
    assert languages_of("Kaution?") == ()


def test_forms_of_a_word_have_one_stem() -> None:
    for language, forms in (
        ("english", "terminate terminated terminating"),
        ("german", "Apfelbaum Apfelbäume Apfelbäumen"),
        ("spanish", "reparación reparaciones"),
        ("russian", "договор договора договору"),
        ("hindi", "जानवर जानवरों"),
    ):
        assert len(set(stemmed(forms, language).split())) == 1, forms
    assert stemmed("12,400 EUR: pays!", "english") == "12,400 eur: pay!"
