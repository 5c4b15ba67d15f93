"""Three tables: English orders and German prices as CSV, a Spanish sheet of 680 rows."""

from collections.abc import Sequence
from random import Random

from openpyxl import Workbook

from tests.lab.retrieval.case import Case, Question
from tests.support.documents import office

# English

_CUSTOMERS = ("Baker Ltd", "Nguyen & Sons", "Okafor Group", "Lindqvist AB", "Moreau SA", "Tan Pte")
_CITIES = ("Leeds", "Oslo", "Lyon", "Porto", "Turin", "Ghent", "Bergen", "Cork")
_ARTICLES = ("bolt M8", "washer 12 mm", "hinge left", "drill bit 6 mm", "sandpaper P120", "lamp")
_ORDERS = {
    138: "O-1138,2025-02-11,Fitzgerald Marine,Galway,anchor chain,3,1840.00,19,2189.60",
    350: "O-1350,2025-03-02,Baker Ltd,Cork,hinge left,70,631.05,19,750.95",
    417: "O-1417,2025-03-19,Moreau SA,Reykjavik,lamp,12,88.20,19,104.96",
    580: "O-1580,2025-05-06,Tan Pte,Porto,bolt M8,900,404.11,19,480.89",
    702: "O-1702,2025-06-13,Nguyen & Sons,Ghent,welding helmets,8,720.40,19,857.28",
    803: "O-1803,2025-07-09,Okafor Group,Lyon,drill bit 6 mm,41,225871.00,19,268786.49",
    951: "O-1951,2025-08-30,Szymanski i Corka,Oslo,washer 12 mm,500,61.77,19,73.51",
    1040: "O-2040,2025-09-17,Lindqvist AB,Turin,scaffolding tower,1,5302.16,19,6309.57",
    1203: "O-2203,2025-11-02,Baker Ltd,Leeds,sandpaper P120,33,49.18,19,58.52",
    1388: "O-2388,2025-12-24,Moreau SA,Bergen,lamp,6,44.10,19,52.48",
}
_QUESTIONS = (
    Question("words", "What is the gross amount of order O-1350?", "750.95"),
    Question("words", "Which customer bought the anchor chain?", "Fitzgerald Marine"),
    Question("words", "Which order went to Reykjavik?", "O-1417"),
    Question("words", "How much did Szymanski i Corka pay net?", "61.77"),
    Question("forms", "Who ordered a welding helmet?", "O-1702"),
    Question("forms", "On which date were scaffolding towers bought?", "O-2040,2025-09-17"),
    Question("place", "What is in row 581?", "O-1580"),
    Question("place", "Show me line 1204 of the file.", "O-2203"),
    Question("number", "Which order has a net amount of 225,871?", "O-1803"),
    Question("other words", "Did anybody order on Christmas Eve, 2025-12-24?", "O-2388"),
)


def _english() -> Case:
    chance = Random(6)
    header = "order,date,customer,city,article,quantity,net,tax,gross"
    rows = [header]
    for number in range(1, 1601):
        quantity, price = chance.randint(1, 400), chance.randint(11, 900) / 100
        net = quantity * price
        date = f"2025-{1 + number * 12 // 1601:02}-{chance.randint(1, 23):02}"
        made = (
            f"O-{1000 + number},{date},{chance.choice(_CUSTOMERS)},{chance.choice(_CITIES)},"
            f"{chance.choice(_ARTICLES)},{quantity},{net:.2f},19,{net * 1.19:.2f}"
        )
        rows.append(_ORDERS.get(number, made))
    data = "\n".join(rows).encode()
    return Case("orders.csv", "table", "English", data, _QUESTIONS, header)


# German

_WAREN = ("Holzschraube", "Dübel", "Winkel", "Scharnier", "Pinsel", "Schleifpapier", "Kleber")
_GRUPPEN = ("Eisenwaren", "Farben", "Werkzeug", "Garten", "Sanitär")
_PREISE = {
    25: "10025;Dampfreiniger;Reinigung;Stück;1.299,00;6",
    61: "10061;Rasenmähermesser;Garten;Satz;38,45;14",
    88: "10088;Fliesenschneider;Werkzeug;Stück;217,30;3",
    119: "10119;Winkel 119;Eisenwaren;Stück;4,71;802",
    150: "10150;Brandmeldekabel;Elektro;Rolle;96,15;21",
    177: "10177;Malerkrepp;Farben;Rolle;3,05;977",
    203: "10203;Wasserhähne, verchromt;Sanitär;Karton;412,80;2",
    240: "10240;Dübel 240;Eisenwaren;Beutel;1,93;655",
    271: "10271;Arbeitshandschuhe;Werkzeug;Paar;7,66;431",
    290: "10290;Gartenschläuche 25 m;Garten;Stück;54,20;38",
}
_FRAGEN = (
    Question("words", "Was kostet der Fliesenschneider?", "217,30"),
    Question("words", "Wie viel Malerkrepp ist auf Lager?", "977"),
    Question("words", "Zu welcher Gruppe gehört Artikel 10150?", "Elektro"),
    Question("words", "Welchen Preis hat das Rasenmähermesser?", "38,45"),
    Question("forms", "Was kostet ein Gartenschlauch?", "54,20;38"),
    Question("forms", "Gibt es einen Wasserhahn?", "412,80"),
    Question("forms", "Was kosten Handschuhe für die Arbeit, etwa ein Arbeitshandschuh?", "7,66"),
    Question("place", "Was steht in Zeile 120?", "802"),
    Question("place", "Lies mir Zeile 241 vor.", "655"),
    Question("number", "Welcher Artikel kostet 1299 Euro?", "Dampfreiniger"),
)


def _german() -> Case:
    chance = Random(7)
    header = "Nummer;Bezeichnung;Gruppe;Einheit;Preis;Bestand"
    rows = [header]
    for number in range(1, 301):
        price = f"{chance.randint(50, 9900) / 100:.2f}".replace(".", ",")
        made = (
            f"{10000 + number};{chance.choice(_WAREN)} {number};{chance.choice(_GRUPPEN)};"
            f"{chance.choice(['Stück', 'Beutel', 'Rolle'])};{price};{chance.randint(1, 600)}"
        )
        rows.append(_PREISE.get(number, made))
    data = "\n".join(rows).encode()
    return Case("preise.csv", "table", "German", data, _FRAGEN, header)


# Spanish

_OBRAS = ("Puente", "Túnel", "Escuela", "Depósito", "Carretera", "Mercado")
_PROVINCIAS = ("Soria", "Huesca", "Cádiz", "Lugo", "Murcia", "Teruel", "Jaén")
_ESTADOS = ("en curso", "terminada", "licitada")
_FILAS = {
    44: ("X-0044", "Faro de poniente", "Melilla", "Ibarra", 88120, "terminada"),
    102: ("X-0102", "Piscinas cubiertas", "Lugo", "Quiroga", 412300, "en curso"),
    190: ("X-0190", "Mercado 190", "Jaén", "Etxeberria", 71455, "licitada"),
    255: ("X-0255", "Hospital comarcal", "Soria", "Valls", 9740000, "terminada"),
    301: ("X-0301", "Túnel 301", "Murcia", "Soler", 51022, "paralizada"),
    388: ("X-0388", "Alcantarillados nuevos", "Cádiz", "Rey", 133700, "en curso"),
    450: ("X-0450", "Puente 450", "Huesca", "Peris", 60981, "licitada"),
    512: ("X-0512", "Carretera 512", "Teruel", "Nadal", 48266, "terminada"),
    580: ("X-0580", "Depósito 580", "Lugo", "Mena", 23417, "en curso"),
    644: ("X-0644", "Invernaderos escolares", "Jaén", "Tello", 37550, "licitada"),
}
_PREGUNTAS = (
    Question("words", "¿Quién dirige el Faro de poniente?", "Ibarra"),
    Question("words", "¿Qué presupuesto tiene el expediente X-0190?", "71455"),
    Question("words", "¿Qué obra está paralizada?", "X-0301"),
    Question("words", "¿En qué provincia está el Hospital comarcal?", "9740000"),
    Question("forms", "¿Cuánto cuesta la piscina cubierta?", "412300"),
    Question("forms", "¿Dónde hay un alcantarillado nuevo?", "133700"),
    Question("forms", "¿En qué estado está el invernadero escolar?", "37550"),
    Question("place", "¿Qué pone en la fila 581?", "23417"),
    Question("place", "Dime el contenido de la fila 513.", "48266"),
    Question("number", "¿Qué obra tiene 60.981 euros?", "X-0450"),
)


def _spanish() -> Case:
    header = ("Expediente", "Obra", "Provincia", "Responsable", "Presupuesto", "Estado")

    def fill(workbook: Workbook) -> None:
        chance = Random(8)
        sheet = workbook.active
        assert sheet is not None
        sheet.title = "Obras"
        sheet.append(header)
        for number in range(1, 680):
            made = (
                f"X-{number:04}",
                f"{chance.choice(_OBRAS)} {number}",
                chance.choice(_PROVINCIAS),
                chance.choice(("Garrido", "Lozano", "Pardo", "Vidal")),
                chance.randint(9000, 900000),
                chance.choice(_ESTADOS),
            )
            sheet.append(_FILAS.get(number, made))

    data = office.xlsx(fill)
    return Case("obras.xlsx", "table", "Spanish", data, _PREGUNTAS, " | ".join(header))


def tables() -> Sequence[Case]:
    return _english(), _german(), _spanish()
