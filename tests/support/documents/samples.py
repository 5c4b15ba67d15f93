"""Small files of nine kinds, each with something of its own, and what stands where."""

import json
from dataclasses import dataclass
from typing import Any

from engine.documents import Format
from tests.support.documents.messages import eml, webarchive
from tests.support.documents.pdfs import Page, line, lines, pdf, unicode_line


@dataclass(frozen=True, slots=True)
class Sample:
    """`said`: some of its text, and the place where it stands."""

    format: Format
    name: str
    data: bytes
    said: tuple[tuple[str, str], ...]


_CODE = "\n".join(
    f'def price_{number}(amount: int) -> str:\n    """The price, in words."""\n'
    f'    return f"{{amount}} of {number}"\n\n'
    for number in range(30)
)
_PROSE = "Müller’s “Straße” – ein Gedicht für alle, die älter werden.\r\nZweite Zeile.\r\n"
_README = """# Clock

Shows the time.

## Install

```sh
# with pip
pip install clock
```

### On a Mac

| step | command |
|------|---------|
| one  | `brew`  |

## Use

1. Look at it.
2. Know the time.
"""


_PAGE = "<html><h1>Plan</h1><table><tr><td>Café<td>3 m²</table><p hidden>unseen</html>"


def _notebook(*cells: dict[str, Any]) -> bytes:
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def _code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": list(outputs)}


SAMPLES = (
    Sample(
        "pdf",
        "contract.pdf",
        pdf(
            lines(["The tenant pays on the first day", "of each month, and not later."]),
            lines(["Notice is given in writ-", "ing, three months ahead."])
            + line("Both have signed.", y=120),
        ),
        (
            ("The tenant pays on the first day\nof each month", "page 1"),
            ("in writ-\ning", "page 2"),
            ("ahead.\n\nBoth", "page 2"),
        ),
    ),
    Sample(
        "pdf",
        "form.pdf",
        pdf(
            Page(line("Name:"), notes=[line("Ada Lovelace", x=120)], more="/Rotate 90"),
            Page(
                line("Filled in by hand:"), notes=["0 0 1 RG 20 20 m 200 90 l S", line("yes", y=9)]
            ),
        ),
        (("Ada Lovelace", "page 1"), ("yes", "page 2")),
    ),
    Sample(
        "pdf",
        "languages.pdf",
        pdf(
            unicode_line("Договор аренды") + unicode_line("賃貸借契約書", y=200),
            unicode_line("חוזה"),
        ),
        (("Договор аренды", "page 1"), ("賃貸借契約書", "page 1")),
    ),
    Sample(
        "pdf",
        "scanned.pdf",
        pdf(
            "q 400 0 0 300 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \xff EI Q",
            "",
            line("Typed behind it.") + line("ignore all of this", before="1 g", y=90),
            Page(line("beside", x=900) + line("tiny", size=1), more="/CropBox [0 0 300 280]"),
        ),
        (("Typed behind it.", "page 3"), ("tiny", "page 4")),
    ),
    Sample(
        "pdf",
        "ticked.pdf",
        pdf(
            Page(
                lines(["Name:", "Smoker"], x=40) + line("white", before="1 g", y=20),
                notes=[line("Ada", x=90, y=270)],
                ticks=[(20, 255, True), (200, 255, False)],
            )
        ),
        (("Name: Ada\n☒ Smoker ☐", "page 1"),),
    ),
    Sample(
        "text",
        "prices.py",
        _CODE.encode(),
        (("def price_0(", "line 1"), ("def price_29(", "line 131")),
    ),
    Sample("text", "gedicht.txt", _PROSE.encode("cp1252"), (("ein Gedicht für", "line 1"),)),
    Sample(
        "text", "windows.txt", "Ein Wort\r\nund noch eins".encode("utf-16"), (("noch", "line 1"),)
    ),
    Sample(
        "text",
        "日記.txt",
        ("今日はとても寒かった。\n" * 60).encode("shift_jis"),
        (("今日はとても寒かった。", "line 1"), ("寒かった", "line 41")),
    ),
    Sample(
        "markdown",
        "README.md",
        _README.encode(),
        (("# with pip", "Clock > Install"), ("brew", "Clock > Install > On a Mac")),
    ),
    Sample(
        "markdown",
        "notes.markdown",
        b"---\ntitle: Notes\n---\n\nMonday\n===\n\nIt rained.\n\nTuesday\n---\nIt did not.\n",
        (("It rained.", "Monday"), ("It did not.", "Monday > Tuesday")),
    ),
    Sample(
        "markdown",
        "手引き.md",
        "# 手引き\n\n## 設定\n\n値を選びます。\n".encode(),
        (("値を選びます。", "手引き > 設定"),),
    ),
    Sample(
        "markdown", "plain.md", b"Only a text, *with* some marks.\n", (("Only a text", "part 1"),)
    ),
    Sample(
        "csv",
        "orders.csv",
        "\n".join(f'{number},"Smith, Ann",{number * 7}' for number in range(1, 101)).encode(),
        (('1,"Smith, Ann",7', "line 1"), ('100,"Smith, Ann",700', "line 81")),
    ),
    Sample(
        "csv",
        "preise.csv",
        "Größe;Preis\nüber 3;4,50\n".encode("cp1252"),
        (("über 3;4,50", "line 1"),),
    ),
    Sample("csv", "genes.tsv", b"gene\tcount\nBRCA1\t12\n", (("BRCA1\t12", "line 1"),)),
    Sample(
        "csv",
        "notes.csv",
        '\ufeffname,note\nAnn,"two\nlines"\n'.encode(),
        (('Ann,"two\nlines"', "line 1"),),
    ),
    Sample(
        "notebook",
        "analysis.ipynb",
        _notebook(
            {"cell_type": "markdown", "metadata": {}, "source": ["# Prices\n", "By month."]},
            _code("mean(x)", {"output_type": "execute_result", "data": {"text/plain": ["3.5"]}}),
            _code("plot(x)", {"output_type": "display_data", "data": {"image/png": "iVBORw0="}}),
        ),
        (("By month.", "cell 1"), ("3.5", "cell 2"), ("plot(x)", "cell 3")),
    ),
    Sample(
        "notebook",
        "errors.ipynb",
        _notebook(
            _code(
                "1 / 0", {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "by zero"}
            ),
            _code("print(1)", {"output_type": "stream", "text": "\x1b[31m1\x1b[0m\n" * 3000}),
        ),
        (("ZeroDivisionError: by zero", "cell 1"), ("Output:\n1\n1", "cell 2")),
    ),
    Sample(
        "notebook",
        "old.ipynb",
        json.dumps(
            {
                "nbformat": 3,
                "worksheets": [{"cells": [{"cell_type": "code", "input": ["a\n", "b"]}]}],
            }
        ).encode(),
        (("a\nb", "cell 1"),),
    ),
    Sample(
        "notebook",
        "exported.json",
        _notebook({"cell_type": "raw", "metadata": {}, "source": "Überschrift\u200b"}),
        (("Überschrift", "cell 1"),),
    ),
    Sample(
        "eml",
        "offer.eml",
        eml("30 m²", page=_PAGE, attached={"plan.pdf": b"%PDF-1.7"}),
        (("To: Ada <ada@example.org>", "Größe des Büros"), ("Café | 3 m²", "Größe des Büros")),
    ),
    Sample(
        "eml",
        "archive.mbox",
        b"From a\n" + eml("first") + b"\nFrom b\n" + eml("second", headers={"Cc": "Ben"}),
        (("first", "Größe des Büros"), ("Cc: Ben", "Größe des Büros")),
    ),
    Sample("webarchive", "saved.webarchive", webarchive(_PAGE), (("Café | 3 m²", "Plan"),)),
    Sample("webarchive", "older.webarchive", webarchive(_PAGE, binary=False), (("Café", "Plan"),)),
)
