"""Two handbooks: an English one as PDF of 120 pages, a German one as Markdown with chapters."""

from collections.abc import Sequence
from random import Random
from textwrap import wrap

from tests.lab.retrieval.case import WIDE, Case, Question, paragraph
from tests.support.documents import pdfs

# English

_SENTENCES = (
    "Before work on the {unit} begins, the {part} must be cleaned and the {fluid} drained.",
    "Turn the {part} clockwise until the {unit} stops, and wait for {n} seconds.",
    "If the {fluid} is below the mark, refill it at the {part} behind the {unit}.",
    "The {unit} is checked every {n} hours of operation by trained staff.",
    "Tighten the screws of the {part} crosswise with {n} newton metres.",
    "A worn {part} is recognized by noise at the {unit} and by traces of {fluid}.",
    "Never open the {unit} while the {part} is under pressure or the {fluid} is hot.",
    "Record the state of the {part} in the log of the {unit}, with date and name.",
)
_WORDS = {
    "unit": ("pump", "compressor", "conveyor", "press", "heat exchanger", "gear unit"),
    "part": ("valve", "filter", "bearing", "seal", "coupling", "belt"),
    "fluid": ("oil", "coolant", "water", "grease"),
}
_PAGES = {
    9: "The night crew parks forklifts under the eastern canopy.",
    17: "Error 4711 means that the light barrier was interrupted during homing.",
    29: "Hydraulic hoses are exchanged after six years, even if they look sound.",
    38: "The maximum operating pressure of the accumulator is 12,500 kilopascals.",
    52: "Grinding dust is disposed of in the yellow containers near dock three.",
    66: "Lifting lugs carry two tonnes each; shackles of grade eight are mandatory.",
    74: "The calibration of torque wrenches is outsourced to a laboratory in Leeds.",
    88: "Visitors wear green vests and are accompanied to the muster point by the receptionist.",
    103: "Spare fuses are kept in the drawer below the terminal strip.",
    111: "The hotline of the manufacturer is staffed on Sundays from eight until noon.",
}
_QUESTIONS = (
    Question("words", "What does error 4711 mean?", "the light barrier was interrupted"),
    Question("words", "Where are spare fuses kept?", "below the terminal strip"),
    Question("words", "What is the maximum operating pressure of the accumulator?", "kilopascals"),
    Question("forms", "When should I be exchanging a hydraulic hose?", "after six years"),
    Question("forms", "Who calibrates the torque wrench?", "laboratory in Leeds"),
    Question("place", "What is on page 88?", "by the receptionist"),
    Question("place", "Summarize page 9 in two sentences.", "under the eastern canopy"),
    Question("place", "Please translate p. 66 into German.", "shackles of grade eight"),
    Question("number", "What has 12500 kilopascals?", "12,500"),
    Question("other words", "Where do I throw away dust from grinding?", "yellow containers"),
)


def _english() -> Case:
    chance = Random(4)
    pages = []
    for number in range(1, 121):
        fact = _PAGES.get(number, "")
        text = paragraph(chance, _SENTENCES, _WORDS, count=20, fact=fact)
        title = f"Maintenance of the {chance.choice(_WORDS['unit'])}"
        lines = [title, "", *wrap(text, 90)]
        pages.append(pdfs.Page(pdfs.lines(lines, top=280, apart=8), WIDE))
    return Case("handbook.pdf", "handbook", "English", pdfs.pdf(*pages), _QUESTIONS)


# German

_SAETZE = (
    "Für {antrag} ist das Formular der {stelle} auszufüllen und binnen {n} Tagen abzugeben.",
    "Die {stelle} prüft {antrag} und teilt das Ergebnis den Beschäftigten schriftlich mit.",
    "Rückfragen zu {antrag} beantwortet die {stelle} während der Sprechzeiten.",
    "Vorgesetzte sorgen dafür, dass {antrag} rechtzeitig bei der {stelle} vorliegt.",
    "Unterlagen über {antrag} werden {n} Monate lang in der {stelle} aufbewahrt.",
    "In begründeten Ausnahmen entscheidet die {stelle} über {antrag} ohne weitere Prüfung.",
)
_WOERTER = {
    "antrag": ("den Urlaub", "die Dienstreise", "die Fortbildung", "die Arbeitszeit",
               "die Krankmeldung", "den Dienstwagen"),
    "stelle": ("Personalabteilung", "Buchhaltung", "Geschäftsleitung", "Zentrale"),
}  # fmt: skip
_KAPITEL = (
    "Einleitung", "Arbeitszeit", "Urlaub", "Reisen", "Fortbildung", "Gesundheit", "Sicherheit",
    "Fahrzeuge", "Kommunikation", "Datenschutz", "Vergütung", "Austritt",
)  # fmt: skip
_ABSCHNITTE = {
    (2, 3): "Überstunden verfallen, wenn sie nicht bis Ende März abgebaut werden.",
    (3, 2): "Sonderurlaube bei Umzügen dauern einen Tag, bei Hochzeiten zwei.",
    (4, 5): "Bahnfahrten in der ersten Klasse genehmigt nur die Vorständin.",
    (5, 1): "Sprachkurse werden bis zu 1.250 Euro im Kalenderjahr bezuschusst.",
    (6, 4): "Grippeimpfungen gibt es im Oktober beim Betriebsarzt im Nordflügel.",
    (7, 2): "Im Brandfall sammeln sich alle auf dem Parkplatz gegenüber der Kantine.",
    (8, 6): "Ladekarten für Elektroautos händigt der Pförtner gegen Unterschrift aus.",
    (9, 3): "Pressesprecherin ist Frau Okonkwo, ihre Vertretung hat Herr Brüggemann.",
    (10, 5): "Besucherlisten werden nach achtundvierzig Stunden geschreddert.",
    (12, 1): "Abfindungen richten sich nach einem halben Monatsgehalt je Dienstjahr.",
}
_FRAGEN = (
    Question("words", "Wann verfallen Überstunden?", "bis Ende März"),
    Question("words", "Wer ist Pressesprecherin?", "Frau Okonkwo"),
    Question("words", "Wo sammeln sich alle im Brandfall?", "gegenüber der Kantine"),
    Question("forms", "Wo bekomme ich eine Grippeimpfung?", "im Nordflügel"),
    Question("forms", "Wie lange dauert Sonderurlaub bei einem Umzug?", "einen Tag"),
    Question("forms", "Wie hoch ist die Abfindung?", "halben Monatsgehalt"),
    Question("place", "Was steht in Kapitel 8, Abschnitt 6?", "händigt der Pförtner"),
    Question("place", "Was sagt Abschnitt 10.5?", "achtundvierzig Stunden"),
    Question("number", "Was wird mit 1250 Euro bezuschusst?", "1.250 Euro"),
    Question("other words", "Darf ich erster Klasse Zug fahren?", "nur die Vorständin"),
)


def _german() -> Case:
    chance = Random(5)
    parts = ["# Handbuch für Beschäftigte\n"]
    for number, chapter in enumerate(_KAPITEL, start=1):
        parts.append(f"## Kapitel {number}: {chapter}\n")
        for part in range(1, 8):
            title = chance.choice(["Regelung", "Ablauf", "Fristen"])
            parts.append(f"### {number}.{part} {title}\n")
            fact = _ABSCHNITTE.get((number, part), "")
            parts.append(paragraph(chance, _SAETZE, _WOERTER, count=8, fact=fact) + "\n")
            parts.append(paragraph(chance, _SAETZE, _WOERTER, count=8) + "\n")
    data = "\n".join(parts).encode()
    return Case("personalhandbuch.md", "handbook", "German", data, _FRAGEN)


def handbooks() -> Sequence[Case]:
    return _english(), _german()
