"""Two presentations of 60 and 45 slides with notes: English and Spanish."""

from collections.abc import Mapping, Sequence
from random import Random

from tests.lab.retrieval.case import Case, Language, Question, prose
from tests.support.documents import office

# English

_SENTENCES = (
    "{who} grew by {n} percent in {where}, driven by {what}",
    "Margin of {what} fell {n} basis points in {where}",
    "{who} will move {what} to {where} next quarter",
    "Churn in {where}: {n} accounts, mostly {what}",
    "Hiring freeze for {who} in {where} until {what} recover",
    "Pipeline of {who} covers {n} percent of the target for {what}",
)
_WORDS = {
    "who": ("Sales", "Marketing", "Support", "Logistics"),
    "where": ("Benelux", "Iberia", "the Nordics", "DACH", "the Baltics"),
    "what": ("subscriptions", "services", "spare parts", "renewals"),
}
_SLIDES = {
    4: "The supervisory board meets in Ljubljana on 9 April",
    12: "Customer council: chaired by Ms. Abernathy from May",
    18: "Warehouses in Tallinn are consolidated into one",
    23: "Bonus pool: 1,875,000 euros, paid in two instalments",
    31: "Carbon footprint: certificates for 640 tonnes were retired",
    37: "Trainees rotate through four departments in ten weeks",
    42: "Rebranding: the heron replaces the kingfisher in the logo",
    49: "Patent litigation with Voltaik AG was settled in March",
    53: "Password managers become compulsory for contractors",
    58: "Next strategy day: boathouse, Friday, no laptops",
}
_QUESTIONS = (
    Question("words", "Where does the supervisory board meet?", "Ljubljana"),
    Question("words", "How was the patent litigation with Voltaik settled?", "settled in March"),
    Question("words", "Who chairs the customer council?", "Ms. Abernathy"),
    Question("forms", "What happens to the warehouse in Tallinn?", "consolidated into one"),
    Question("forms", "How does a trainee rotate?", "four departments"),
    Question("forms", "Is a password manager compulsory?", "compulsory for contractors"),
    Question("place", "What does slide 31 say?", "640 tonnes"),
    Question("place", "Give me the message of slide 58.", "no laptops"),
    Question("number", "Who gets 1875000 euros?", "paid in two instalments"),
    Question("other words", "Which bird will be in our logo?", "the heron"),
)

# Spanish

_FRASES = (
    "{quien} creció un {n} por ciento en {donde} gracias a {que}",
    "El margen de {que} bajó {n} puntos en {donde}",
    "{quien} trasladará {que} a {donde} el próximo trimestre",
    "Bajas en {donde}: {n} cuentas, sobre todo de {que}",
    "Objetivo de {quien}: duplicar {que} en {donde}",
)
_PALABRAS = {
    "quien": ("Ventas", "Compras", "Soporte", "Logística"),
    "donde": ("Galicia", "Aragón", "Chile", "Uruguay", "Canarias"),
    "que": ("las suscripciones", "los servicios", "los repuestos", "las renovaciones"),
}
_DIAPOSITIVAS = {
    3: "La junta se celebra en el auditorio de Oviedo",
    7: "Reciclaje: los palés rotos se trituran en Lugo",
    13: "Comedores: menú vegetariano los miércoles",
    19: "Inversión prevista: 3.600.000 euros en robots",
    22: "Teletrabajo: máximo tres jornadas por semana",
    27: "Becarias y becarios cobran desde el primer mes",
    33: "Nuevos proveedores: Hilaturas Arteaga y Corchos Benítez",
    36: "Se vendieron las furgonetas diésel antiguas",
    41: "Auditorías internas a cargo de la señora Urrutia",
    44: "Cierre: brindis en la azotea a las ocho",
}
_PREGUNTAS = (
    Question("words", "¿Dónde se celebra la junta?", "auditorio de Oviedo"),
    Question("words", "¿Quiénes son los nuevos proveedores?", "Hilaturas Arteaga"),
    Question("words", "¿Cuántas jornadas de teletrabajo se permiten?", "tres jornadas"),
    Question("forms", "¿Qué se hace con un palé roto?", "se trituran en Lugo"),
    Question("forms", "¿Quién lleva la auditoría interna?", "señora Urrutia"),
    Question("forms", "¿Se vendió la furgoneta diésel?", "furgonetas diésel antiguas"),
    Question("place", "¿Qué aparece en la diapositiva 13?", "menú vegetariano"),
    Question("place", "Resume la diapositiva 44.", "brindis en la azotea"),
    Question("number", "¿En qué se invierten 3600000 euros?", "en robots"),
    Question("other words", "¿Pagamos a quienes están de prácticas, los becarios?", "cobran desde"),
)


def _made(
    name: str,
    language: Language,
    count: int,
    facts: Mapping[int, str],
    sentences: Sequence[str],
    words: Mapping[str, Sequence[str]],
    questions: Sequence[Question],
) -> Case:
    chance = Random(count)
    slides, notes = [], {}
    for number in range(1, count + 1):
        points = [prose(chance, sentences, words) for _ in range(7)]
        if number in facts:
            points.insert(3, facts[number])
        title = prose(chance, sentences, words).split(" ")[0]
        slides.append(office.slide(office.shape(title, kind="title"), office.shape(*points)))
        said = " ".join(f"{prose(chance, sentences, words)}." for _ in range(6))
        notes[number] = office.slide(office.shape(said, kind="body"))
    return Case(name, "slides", language, office.pptx(slides, notes=notes), questions)


def presentations() -> Sequence[Case]:
    return (
        _made("strategy.pptx", "English", 60, _SLIDES, _SENTENCES, _WORDS, _QUESTIONS),
        _made("resultados.pptx", "Spanish", 45, _DIAPOSITIVAS, _FRASES, _PALABRAS, _PREGUNTAS),
    )
