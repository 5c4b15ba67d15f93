"""Three documents, and thirty answers about them in which a reader marked the copied words.

What stands word for word in a document is between ⟦ and ⟧, from six words on, or four with a number
or a name in them; two characters are a word where there are no spaces. The marks were made by
reading, before there was a finder.
"""

from dataclasses import dataclass

from engine.documents import Document, Section

CONTRACT = Document(
    "contract.pdf",
    "pdf",
    "01",
    (
        Section(
            "page",
            1,
            "SUPPLY AGREEMENT\n\n"
            "This agreement is made on 12 March 2024 between Halden Pumps GmbH, Ufer-\n"
            "straße 14, Bremen (“the Seller”), and Orford Water Ltd, 3 Quay Street, Ips-\n"
            "wich (“the Buyer”).\n\n"
            "1. Subject\n"
            "The Seller shall deliver to the Buyer 48 centrifugal pumps of type HP-220 with\n"
            "the accessories listed in Annex A. The pumps shall be new, free of defects and\n"
            "fit for continuous operation at temperatures from -5 to 40 °C.\n\n"
            "2. Price\n"
            "The total price is EUR 1,284,000.00, exclusive of value added tax. It is fixed\n"
            "until 31 December 2025; thereafter it rises by 2.5 % each year.",
        ),
        Section(
            "page",
            2,
            "3. Delivery\n"
            "The pumps are delivered in four lots of twelve, the first within 90 days of the\n"
            "signing of this agreement. Delivery is “DAP Ipswich” as defined by Incoterms 2020.\n"
            "If a lot is late, the Seller pays liquidated damages of 0.5 % of the price of\n"
            "that lot for each full week of delay, but not more than 5 % in total.\n\n"
            "4. Acceptance\n"
            "The Buyer inspects each lot within ten working days of its arrival. A lot is deemed\n"
            "accepted where no defect has been notified in writing within that period. The buyer’s\n"
            "right to claim for hidden defects remains un\u00adaffected.",
        ),
        Section(
            "page",
            3,
            "5. Warranty\n"
            "The Seller warrants the pumps for 36 months from acceptance. Seals and bearings are\n"
            "wear parts—they are covered for twelve months only.\n\n"
            "6. Termination\n"
            "Either party may terminate this agreement for good cause with immediate effect. Good\n"
            "cause exists in particular where the other party fails to cure a material breach\n"
            "within thirty days of a written notice, or becomes insolvent.\n\n"
            "7. Governing law\n"
            "This agreement is governed by the laws of England and Wales. Disputes are settled by\n"
            "the courts of London. Signed by Maria Keller for the Seller and by Tom Ashdown for the\n"
            "Buyer.",
        ),
    ),
)

MANUAL = Document(
    "manual.md",
    "markdown",
    "02",
    (
        Section(
            "part",
            1,
            "# Tideline\n\n"
            "Tideline is a small program that predicts **high and low water** for any harbour from\n"
            "its harmonic constants. It needs no network connection and stores nothing outside the\n"
            "folder in which it was started.\n\n"
            "## Installation\n\n"
            "1. Unpack the archive into a folder of your choice.\n"
            "2. Run `tideline --check` to see whether all tables are complete.\n"
            "3. Copy the file `harbours.toml` next to the program and restart it.\n\n"
            "On Windows the first start can take up to a minute because the tables are compiled.\n",
            "Installation",
        ),
        Section(
            "part",
            2,
            "## Configuration\n\n"
            "| Key | Default | Meaning |\n"
            "|---|---|---|\n"
            "| harbour | none | the name of the harbour as it stands in the table |\n"
            "| step_minutes | 10 | how far apart two predicted heights are |\n"
            "| datum | LAT | the level from which all heights are measured |\n\n"
            "```python\n"
            "def predict(harbour, start, hours=24):\n"
            "    for minute in range(0, hours * 60, STEP):\n"
            "        height = sum(c.amplitude * cos(c.speed * minute + c.phase) for c in harbour)\n"
            "        if height > harbour.limit:\n"
            "            yield start + minute, height\n"
            "```\n\n"
            "Heights are rounded to the nearest centimetre. See the [notes](https://tide.example/n)\n"
            "on accuracy: predictions do not take account of the weather, and a strong wind can\n"
            "change the level by more than half a metre.",
            "Configuration",
        ),
    ),
)

REPORT = Document(
    "report.docx",
    "docx",
    "03",
    (
        Section(
            "part",
            1,
            "Der Ausschuss hat am 4. Juni 2023 beschlossen, die Brücke über die Weser bis Ende\n"
            "2026 für den Schwerverkehr zu sperren. Die Kosten der Sanierung werden auf rund\n"
            "18,6 Millionen Euro geschätzt, von denen das Land zwei Drittel übernimmt.",
            "Beschluss",
        ),
        Section(
            "part",
            2,
            "Le comité constate que les travaux ont pris du retard en raison d’une crue exceptionnelle\n"
            "de la Weser. L’entreprise s’engage à reprendre le chantier avant le 15 septembre 2024\n"
            "et à ne pas dépasser le budget prévu.",
            "Avis",
        ),
        Section(
            "part",
            3,
            "委员会决定在桥梁修复期间为行人和自行车提供临时渡轮服务,每二十分钟一班。"
            "渡轮的运营费用由市政府承担,乘客无需购票。",
            "渡轮",
        ),
        Section(
            "part",
            4,
            "Комитет просит подрядчика ежемесячно сообщать о ходе работ и заблаговременно\n"
            "предупреждать жителей о ночных сменах.\n\n"
            "この報告書は二〇二三年の調査に基づいて作成されたものであり、今後の交通量の変化に応じて見直される予定である。\n\n"
            "This agreement is governed by the laws of England and Wales.",
            "Прочее",
        ),
    ),
)

DOCUMENTS = {1: CONTRACT, 2: MANUAL, 3: REPORT}


@dataclass(frozen=True, slots=True)
class MarkedAnswer:
    """An answer with its marks; `kind` says what is hard about it."""

    kind: str
    marked: str

    @property
    def text(self) -> str:
        return self.marked.replace("⟦", "").replace("⟧", "")

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """From where to where in the text it is marked."""
        found, start, place = [], 0, 0
        for character in self.marked:
            match character:
                case "⟦":
                    start = place
                case "⟧":
                    found.append((start, place))
                case _:
                    place += 1
        return tuple(found)


_MARKED = {
    "a quotation": (
        "Clause 5 says: “⟦The Seller warrants the pumps for 36 months from acceptance⟧.” Wear parts "
        "have a shorter period."
    ),
    "a paraphrase": (
        "You may end the contract at once if the other side has broken it badly and does not mend "
        "that in a month after you wrote to them, or if it goes bankrupt."
    ),
    "an edited word in the middle": (
        "⟦Good cause exists in particular where the other party fails to⟧ remedy ⟦a material breach "
        "within thirty days of a written notice⟧."
    ),
    "hyphenation at the end of a line": (
        "The parties are ⟦Halden Pumps GmbH, Uferstraße 14, Bremen⟧, "
        "⟦and Orford Water Ltd, 3 Quay Street, Ipswich⟧."
    ),
    "a soft hyphen": (
        "Note that ⟦the buyer's right to claim for hidden defects remains unaffected⟧ by this."
    ),
    "emphasis within": (
        "⟦The **total price** is *EUR 1,284,000.00*, exclusive of value added tax⟧, so taxes come on top."
    ),
    "a list made of sentences": (
        "The duties are:\n\n"
        "- ⟦The Buyer inspects each lot within ten working days of its arrival⟧.\n"
        "- He tells the other side about faults.\n"
        "- After that, ⟦a lot is deemed accepted where no defect has been notified in writing⟧.\n"
    ),
    "a numbered list copied as one": (
        "Do this:\n\n"
        "1. ⟦Unpack the archive into a folder of your choice.\n"
        "2. Run `tideline --check` to see whether all tables are complete.\n"
        "3. Copy the file `harbours.toml` next to the program and restart it⟧.\n"
    ),
    "bullets for numbers": (
        "* ⟦Unpack the archive into a folder of your choice⟧\n"
        "* Then check it.\n"
        "* ⟦Copy the file harbours.toml next to the program and restart it⟧\n"
    ),
    "lines broken elsewhere": (
        "⟦If a lot is late, the Seller pays\nliquidated damages of 0.5 % of the price of that\nlot for "
        "each full week of delay, but not more than 5 % in total⟧.\n"
    ),
    "four words with a number": (
        "The deadline for the first lot is short: ⟦within 90 days of⟧ your signature."
    ),
    "four words with a name": (
        "It was ⟦signed by Maria Keller for⟧ one side, whose name is on the last page."
    ),
    "five words without either": ("Such parts are, as it says there, covered for twelve months only."),
    "common words alone": (
        "In the case of the second one it is not clear to whom the right belongs, and this is what "
        "the courts would have to say in the end."
    ),
    "another number": (
        "⟦The Seller warrants the pumps for⟧ 24 ⟦months from acceptance. Seals and bearings are wear "
        "parts⟧, which matters here."
    ),
    "a sign that differs": (
        "They are ⟦free of defects and fit for continuous operation at temperatures from⟧ 5 to 40 "
        "degrees."
    ),
    "dashes and quotes": (
        "⟦Seals and bearings are wear parts - they are covered for twelve months only⟧. ⟦Delivery is "
        '"DAP Ipswich" as defined by Incoterms 2020⟧.'
    ),
    "a table's rows": (
        "| Key | What it does |\n"
        "|---|---|\n"
        "| harbour | ⟦the name of the harbour as it stands in the table⟧ |\n"
        "| datum | ⟦the level from which all heights are measured⟧ |\n"
    ),
    "a whole row with its number": (
        "The row in question:\n\n"
        "| ⟦step_minutes | 10 | how far apart two predicted heights are⟧ |\n"
    ),
    "code as it stands": (
        "The loop is this:\n\n"
        "```python\n"
        "⟦for minute in range(0, hours * 60, STEP):\n"
        "    height = sum(c.amplitude * cos(c.speed * minute + c.phase) for c in harbour)⟧\n"
        "```\n\n"
        "Everything else is checking."
    ),
    "code with another operator": (
        "```python\n"
        "⟦height = sum(c.amplitude * cos(c.speed * minute + c.phase) for c in harbour)\n"
        "if height⟧ < ⟦harbour.limit:\n"
        "    yield start + minute, height⟧\n"
        "```\n"
    ),
    "a link in the sentence": (
        "⟦See the [notes](https://elsewhere.example/other/page) on accuracy: predictions do not take "
        "account of the weather⟧, which I would underline."
    ),
    "a citation in the sentence": (
        "⟦On Windows the first start can take up to a minute⟧ [2], since ⟦a strong wind can change the "
        "level [2] by more than half a metre⟧ is unrelated."
    ),
    "two documents joined": (
        "⟦Heights are rounded to the nearest centimetre⟧, and ⟦either party may terminate this "
        "agreement for good cause with immediate effect⟧."
    ),
    "the same text in two documents": (
        "Both say that ⟦this agreement is governed by the laws of England and Wales⟧, and nothing more."
    ),
    "german": (
        "Kurz gesagt: ⟦Die Kosten der Sanierung werden auf rund 18,6 Millionen Euro geschätzt⟧; den "
        "größten Teil zahlt das Land. Bis dahin ist ⟦die Brücke über die Weser bis Ende 2026 für den "
        "Schwerverkehr⟧ nicht mehr frei."
    ),
    "french with its own quotes": (
        "Le texte précise : « ⟦L'entreprise s'engage à reprendre le chantier avant le 15 septembre "
        "2024⟧ ». Le budget, lui, ne change pas."
    ),
    "chinese": "根据报告,⟦为行人和自行车提供临时渡轮服务,每二十分钟一班⟧。费用方面,乘客无需购票。",
    "russian and japanese": (
        "Первое: ⟦Комитет просит подрядчика ежемесячно сообщать о ходе работ и⟧ смен. 次に、"
        "⟦今後の交通量の変化に応じて見直される予定である⟧とのことです。"
    ),
    "nothing of it": (
        "The documents say nothing about insurance. I would ask both sides which policy they hold, "
        "and until when it runs."
    ),
}

ANSWERS = tuple(MarkedAnswer(kind, marked) for kind, marked in _MARKED.items())
