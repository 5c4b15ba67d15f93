"""Two books with chapters: a German novel as EPUB, a Spanish one as EPUB."""

from collections.abc import Mapping, Sequence
from random import Random

from tests.lab.retrieval.case import Case, Language, Question, paragraph
from tests.support.documents import office

# German

_SAETZE = (
    "{wer} ging langsam durch {wo} und dachte an {was}, ohne ein Wort zu sagen.",
    "Es war ein Abend, an dem {wer} in {wo} sitzen blieb und {was} betrachtete.",
    "»Das wird sich finden«, sagte {wer} und stellte {was} auf den Tisch.",
    "Draußen fiel Regen auf {wo}, und {wer} zählte bis {n}.",
    "Niemand in {wo} wusste, warum {wer} an {was} so hing.",
    "Noch lange danach sprach {wer} von {was} und von {wo} im Winter.",
    "Wenn {wer} lachte, klang es durch {wo} wie früher.",
)
_WOERTER = {
    "wer": ("Leonhard", "Frau Wendt", "der alte Kapitän", "Ottilie", "der Doktor"),
    "wo": ("die Gasse", "das Haus am Deich", "die Küche", "den Garten", "die Schule"),
    "was": ("den Brief", "die Uhr", "das Bild", "die Reise", "den Hund"),
}
_SZENEN = {
    1: "Im Regal standen drei Flaschen Rhabarberwein, die niemand öffnen durfte.",
    3: "Ottilie verkaufte die Perlenkette beim Pfandleiher in Husum.",
    5: "Der Doktor gestand, dass er die Bienenstöcke angezündet hatte.",
    7: "Frau Wendt vermachte das Ruderboot dem Küster.",
    9: "Leonhard lernte das Cembalospiel von einem blinden Lehrer aus Riga.",
    11: "Der Leuchtturmwärter hatte zwei Töchter, die beide Hedwig hießen.",
    14: "Am Ende des Kapitels brannte nur noch die grüne Laterne.",
    16: "Die Apfelbäume wurden in jener Nacht gefällt, alle zwölf.",
    19: "Der Kapitän starb an einem Dienstag, die Pfeife in der Hand.",
    22: "Zuletzt kaufte Ottilie die Mühle zurück und ließ sie rot streichen.",
}
_FRAGEN = (
    Question("words", "Wer bekam das Ruderboot?", "dem Küster"),
    Question("words", "Wie hießen die Töchter vom Leuchtturmwärter?", "beide Hedwig"),
    Question("words", "Wo verkaufte Ottilie die Perlenkette?", "in Husum"),
    Question("forms", "Wer hat den Bienenstock angezündet?", "Der Doktor gestand"),
    Question("forms", "Was geschah mit dem Apfelbaum?", "alle zwölf"),
    Question("forms", "Wer spielte Cembalo?", "blinden Lehrer aus Riga"),
    Question("place", "Was passiert in Kapitel 14?", "die grüne Laterne"),
    Question("place", "Fasse das zweiundzwanzigste Kapitel (22) zusammen.", "rot streichen"),
    Question("other words", "Wie kam der Kapitän ums Leben, wann starb er?", "an einem Dienstag"),
    Question("other words", "Welcher Wein aus Rhabarber stand da?", "drei Flaschen"),
)

# Spanish

_FRASES = (
    "{quien} caminó despacio por {donde} y pensó en {que}, sin decir palabra.",
    "Aquella tarde {quien} se quedó en {donde} mirando {que}.",
    "—Ya se verá —dijo {quien}, y dejó {que} sobre la mesa.",
    "La lluvia caía sobre {donde}, y {quien} contó hasta {n}.",
    "Nadie en {donde} sabía por qué {quien} quería tanto {que}.",
    "Mucho después {quien} hablaba aún de {que} y de {donde} en invierno.",
)
_PALABRAS = {
    "quien": ("Don Anselmo", "la viuda", "el cartero", "Remedios", "el maestro"),
    "donde": ("la plaza", "el molino", "la cocina", "el huerto", "la estación"),
    "que": ("la carta", "el reloj", "el retrato", "el viaje", "el perro"),
}
_ESCENAS = {
    2: "Remedios escondió las monedas de plata dentro del acordeón.",
    4: "El cartero perdió la pierna en la batalla de los Arapiles.",
    6: "Las golondrinas anidaron en el confesionario de la ermita.",
    8: "Don Anselmo apostó la yegua blanca contra un violín.",
    10: "La viuda envenenó los higos destinados al notario.",
    12: "El tren descarriló junto al olivar de los Mendizábal.",
    15: "Todos bailaron descalzos hasta que se apagó el gramófono.",
    17: "Los relojeros de la comarca acudieron a reparar la torre.",
    20: "El maestro confesó que nunca había aprendido a nadar.",
    24: "Quemaron los diarios en el patio, salvo el cuaderno azul.",
}
_PREGUNTAS = (
    Question("words", "¿Qué apostó Don Anselmo?", "la yegua blanca"),
    Question("words", "¿Dónde descarriló el tren?", "olivar de los Mendizábal"),
    Question("words", "¿Qué había dentro del acordeón?", "las monedas de plata"),
    Question("forms", "¿Dónde anidó la golondrina?", "confesionario de la ermita"),
    Question("forms", "¿Quién envenenaba un higo?", "destinados al notario"),
    Question("forms", "¿Qué reparó el relojero?", "reparar la torre"),
    Question("place", "¿Qué pasa en el capítulo 15?", "se apagó el gramófono"),
    Question("place", "Resume el capítulo 20.", "aprendido a nadar"),
    Question("other words", "¿Cómo se quedó cojo el cartero, qué pasó con su pierna?", "Arapiles"),
    Question("other words", "¿Qué no ardió cuando quemaron los papeles?", "el cuaderno azul"),
)


def _made(
    name: str,
    language: Language,
    count: int,
    chapter: str,
    facts: Mapping[int, str],
    sentences: Sequence[str],
    words: Mapping[str, Sequence[str]],
    questions: Sequence[Question],
) -> Case:
    chance = Random(count)
    chapters = {}
    for number in range(1, count + 1):
        parts = [paragraph(chance, sentences, words, count=9) for _ in range(11)]
        parts[-1] = paragraph(chance, sentences, words, count=9, fact=facts.get(number, ""))
        body = f"<h1>{chapter} {number}</h1>" + "".join(f"<p>{part}</p>" for part in parts)
        chapters[f"c{number}.xhtml"] = office.page(body)
    return Case(name, "novel", language, office.epub(chapters), questions)


def novels() -> Sequence[Case]:
    return (
        _made("deich.epub", "German", 24, "Kapitel", _SZENEN, _SAETZE, _WOERTER, _FRAGEN),
        _made("molino.epub", "Spanish", 26, "Capítulo", _ESCENAS, _FRASES, _PALABRAS, _PREGUNTAS),
    )
