"""Markdown as models write it, by name: what tests read and pictures show."""

from pathlib import Path

_FILE = Path(__file__).parents[2] / "app" / "data" / "markdown_samples.txt"
_MARK = "@@@ "


def samples():
    """Return the samples of the file, and four that are too long to be written by hand."""
    parts = _FILE.read_text(encoding="utf-8").split(_MARK)[1:]
    found = {name: text for name, _, text in (part.partition("\n") for part in parts)}
    rows = (
        f"| {n} | Item *{n}* | `code-{n}` | {n * 17 % 101} | a remark about item {n} |\n"
        for n in range(1, 121)
    )
    found["huge table"] = (
        "All items:\n\n| No. | Name | Code | Count | Remark |\n|--:|---|---|:-:|---|\n"
        + "".join(rows)
        + "\nThat is all.\n"
    )
    line = "> " + "quoted words " * 8 + "\n"
    found["one quoted paragraph"] = f"> [!TIP]\n{line * 110}\nThe end.\n"
    found["long quotation"] = (
        "They wrote:\n\n"
        + "".join(
            f"> Paragraph **{n}** of the letter, which goes on and on, as letters did.\n>\n"
            for n in range(1, 131)
        )
        + "> The end.\n\nThat is all.\n"
    )
    found["long list"] = "".join(f"{n}. **Entry {n}:** its text\n" for n in range(1, 121))
    return found
