"""Three contracts with numbered clauses: English as PDF, German as text, Spanish as Word file."""

from collections.abc import Sequence
from random import Random
from textwrap import wrap

from tests.lab.retrieval.case import WIDE, Case, Question, paragraph
from tests.support.documents import office, pdfs

# English

_SUBJECTS = {
    1: "Definitions", 2: "Scope of supply", 3: "Prices and payment", 4: "Insurance",
    5: "Delivery", 6: "Acceptance", 7: "Warranty", 8: "Intellectual property",
    9: "Confidentiality", 10: "Liability", 11: "Term and termination", 12: "Subcontractors",
    13: "Force majeure", 14: "Final provisions",
}  # fmt: skip
_SENTENCES = (
    "The {party} shall notify the {other} in writing within {n} days of any change to the {thing}.",
    "Unless otherwise agreed, the {thing} remains with the {party} until the {other} has paid.",
    "The {party} bears the costs of the {thing}, and the {other} those of the {matter}.",
    "A delay of the {matter} does not entitle the {other} to withhold the {thing}.",
    "The {other} may inspect the {thing} during business hours, with a notice of {n} days.",
    "Any {matter} that concerns the {thing} requires the written consent of the {party}.",
    "The {party} keeps records of the {matter} for {n} months after the end of the year.",
    "Where the {matter} fails, the {party} repairs or replaces the {thing} at its choice.",
)
_WORDS = {
    "party": ("Supplier", "Customer", "Contractor"),
    "other": ("Customer", "Supplier", "other party"),
    "thing": ("equipment", "tooling", "documentation", "delivery", "software", "spare parts"),
    "matter": ("insurance", "payment", "inspection", "termination", "warranty", "transport"),
}
_CLAUSES = {
    "3.2": "An early payment discount of two percent is granted on invoices paid within ten days.",
    "4.2": "Machines on the Customer's premises are covered against fire by the Customer alone.",
    "4.5": "The sum insured for product damage is 2,250,000 euros for each event.",
    "5.3": "Consignments are handed over at the freight terminal in Gdansk, ramp nine.",
    "7.1": "Defects of the gearbox may be claimed for thirty-six months after commissioning.",
    "8.4": "The licensed drawings may be archived by one patent attorney of each side.",
    "9.6": "Employees who have left are bound to secrecy for five further years.",
    "11.3": "Ending the agreement early costs the Customer a fee of 48000 euros.",
    "12.1": "Welding work is entrusted to no firm without the certificate EN 1090-2.",
    "14.6": "Disputes are decided by three arbitrators, who sit in Geneva and write in French.",
}
_QUESTIONS = (
    Question("words", "Where are consignments handed over?", "ramp nine"),
    Question("words", "What is the sum insured for product damage?", "2,250,000 euros"),
    Question("words", "Which early payment discount is granted?", "two percent"),
    Question("forms", "For how long can a defective gearbox be claimed?", "thirty-six months"),
    Question("forms", "Who is entrusting welders with work, and which certificates?", "EN 1090-2"),
    Question("place", "What does clause 4.2 say?", "by the Customer alone"),
    Question("place", "Explain section 8.4 to me.", "one patent attorney"),
    Question("number", "What costs 48,000 euros?", "a fee of 48000 euros"),
    Question("other words", "Which city hosts the tribunal when we quarrel?", "sit in Geneva"),
    Question("other words", "Must former staff keep quiet?", "five further years"),
)


def _english() -> Case:
    chance = Random(1)
    lines: list[str] = []
    for article, subject in _SUBJECTS.items():
        lines += [f"{article}. {subject}", ""]
        for part in range(1, 7):
            number = f"{article}.{part}"
            text = paragraph(chance, _SENTENCES, _WORDS, count=7, fact=_CLAUSES.get(number, ""))
            lines += [*wrap(f"{number} {text}", 90), ""]
    pages = [lines[i : i + 38] for i in range(0, len(lines), 38)]
    made = (pdfs.Page(pdfs.lines(page, top=280, apart=7), WIDE) for page in pages)
    return Case("supply.pdf", "contract", "English", pdfs.pdf(*made), _QUESTIONS)


# German

_SAETZE = (
    "Der {partei} hat dem {gegner} jede Änderung der {sache} binnen {n} Tagen anzuzeigen.",
    "Soweit nichts anderes vereinbart ist, trägt der {partei} die Kosten der {sache}.",
    "Die {sache} ist in dem Zustand zu erhalten, in dem sie dem {partei} übergeben wurde.",
    "Der {gegner} kann die {sache} nach einer Ankündigung von {n} Tagen besichtigen.",
    "Ansprüche wegen der {sache} verjähren nach {n} Monaten, wenn der {partei} sie nicht rügt.",
    "Ergänzungen zu der {sache} bedürfen der Schriftform und der Zustimmung beider Seiten.",
    "Bei der Abrechnung der {sache} ist der {gegner} an die Belege gebunden.",
)
_WOERTER = {
    "partei": ("Mieter", "Vermieter", "Eigentümer"),
    "gegner": ("Vermieter", "Mieter", "Verwalter"),
    "sache": ("Heizung", "Wohnung", "Garage", "Einrichtung", "Reinigung", "Nebenkosten"),
}
_PARAGRAFEN = {
    6: "Die Kündigungsfristen betragen für beide Seiten vier Monate zum Quartalsende.",
    11: "Die Sicherheitsleistung beläuft sich auf 3.480 Euro und wird getrennt angelegt.",
    17: "Hunde und Katzen sind erlaubt, Schlangen und Echsen nur mit Genehmigung des Hauswarts.",
    23: "Streichen muss die Wände, wer weniger als zwei Jahre dort gewohnt hat.",
    29: "Fahrräder werden im Keller hinter der Waschküche abgestellt, nicht im Treppenhaus.",
    34: "Schornsteinfegergebühren werden nach Wohnfläche umgelegt.",
    41: "Die Gartenpflege übernimmt im Wechsel das Erdgeschoss und der zweite Stock.",
    47: "Untervermietungen an Feriengäste ziehen eine Abmahnung nach sich.",
    52: "Rohre im Bad sind bei Frost durch laufendes Wasser vor dem Einfrieren zu schützen.",
    58: "Wer seinen Briefkastenschlüssel verliert, zahlt 135,50 Euro für das neue Schloss.",
}
_FRAGEN = (
    Question("words", "Wo werden Fahrräder abgestellt?", "hinter der Waschküche"),
    Question("words", "Wer übernimmt die Gartenpflege?", "das Erdgeschoss und der zweite Stock"),
    Question("words", "Wie hoch ist die Sicherheitsleistung?", "3.480 Euro"),
    Question("forms", "Welche Kündigungsfrist gilt?", "vier Monate zum Quartalsende"),
    Question("forms", "Ist eine Untervermietung an Feriengästen erlaubt?", "eine Abmahnung"),
    Question("forms", "Wie wird die Schornsteinfegergebühr verteilt?", "nach Wohnfläche umgelegt"),
    Question("place", "Was steht in § 23?", "weniger als zwei Jahre"),
    Question("place", "Worum geht es in Paragraf 52?", "durch laufendes Wasser"),
    Question("number", "Wofür sind 3480 Euro zu zahlen?", "3.480 Euro"),
    Question("other words", "Darf ich ein Reptil wie eine Echse halten?", "Genehmigung des Hausw"),
)


def _german() -> Case:
    chance = Random(2)
    parts: list[str] = []
    for number in range(1, 61):
        fact = _PARAGRAFEN.get(number, "")
        text = paragraph(chance, _SAETZE, _WOERTER, count=9, fact=fact)
        title = chance.choice(["Pflichten", "Nutzung", "Kosten", "Allgemeines"])
        parts.append(f"§ {number} {title}\n{text}")
    data = "\n\n".join(parts).encode()
    return Case("mietvertrag.txt", "contract", "German", data, _FRAGEN)


# Spanish

_FRASES = (
    "La {parte} comunicará a la {otra} cualquier cambio de {cosa} en un plazo de {n} días.",
    "Salvo pacto en contrario, los gastos de {cosa} corren a cargo de la {parte}.",
    "La {otra} podrá revisar {cosa} en horario laboral, con un aviso previo de {n} días.",
    "Las modificaciones relativas a {cosa} requieren el consentimiento escrito de la {parte}.",
    "El incumplimiento en materia de {cosa} faculta a la {otra} para suspender los pagos.",
    "La {parte} conservará la documentación sobre {cosa} durante {n} meses.",
)
_PALABRAS = {
    "parte": ("Prestadora", "Clienta", "Arrendadora"),
    "otra": ("Clienta", "Prestadora", "otra parte"),
    "cosa": ("los servicios", "las facturas", "los equipos", "la garantía", "los locales"),
}
_CLAUSULAS = {
    "1.3": "Los entregables se depositan en la plataforma compartida cada segundo viernes.",
    "2.4": "Las penalizaciones por retraso ascienden al 1,5 % del importe por semana.",
    "3.2": "El anticipo será de 12.750 euros, pagaderos a la firma.",
    "4.1": "Los vehículos averiados se sustituirán en menos de cuarenta y ocho horas.",
    "5.5": "La formación de operarios comprende seis jornadas en Zaragoza.",
    "6.2": "El servicio de guardia atiende los festivos mediante un teléfono de emergencia.",
    "7.6": "Los datos personales se borran a los noventa días de finalizar el encargo.",
    "8.3": "Las obras de insonorización exigen licencia municipal.",
    "9.1": "La renovación es automática si nadie la rechaza antes de noviembre.",
    "10.4": "Los litigios se someten a los juzgados de Valencia.",
}
_PREGUNTAS = (
    Question("words", "¿Dónde se depositan los entregables?", "la plataforma compartida"),
    Question("words", "¿Qué exigen las obras de insonorización?", "licencia municipal"),
    Question("words", "¿De cuánto es el anticipo?", "12.750 euros"),
    Question("forms", "¿Cuál es la penalización si hay retrasos?", "1,5 % del importe"),
    Question("forms", "¿Cuándo se sustituye un vehículo averiado?", "cuarenta y ocho horas"),
    Question("forms", "¿Se renueva automáticamente el contrato?", "antes de noviembre"),
    Question("place", "¿Qué dice la cláusula 7.6?", "noventa días"),
    Question("place", "Resume el apartado 10.4.", "juzgados de Valencia"),
    Question("number", "¿Qué se paga con 12750 euros?", "12.750 euros"),
    Question("other words", "¿A quién llamo un día festivo?", "un teléfono de emergencia"),
)


def _spanish() -> Case:
    chance = Random(3)
    body: list[str] = []
    for article in range(1, 13):
        body.append(office.paragraph(office.run(f"{article}. Disposiciones"), style="H1"))
        for part in range(1, 8):
            number = f"{article}.{part}"
            fact = _CLAUSULAS.get(number, "")
            text = paragraph(chance, _FRASES, _PALABRAS, count=6, fact=fact)
            body.append(office.paragraph(office.run(f"{number} {text}")))
    data = office.docx("".join(body))
    return Case("servicios.docx", "contract", "Spanish", data, _PREGUNTAS)


def contracts() -> Sequence[Case]:
    return _english(), _german(), _spanish()
