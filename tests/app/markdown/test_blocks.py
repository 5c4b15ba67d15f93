"""Each construct of Markdown as the lines, styles and places that it becomes."""

from ast import literal_eval
from dataclasses import fields

from app.markdown.blocks import BlockReader
from app.markdown.page import Table, TextLine, all_runs
from tests.support.app.kept import kept

MARK = "@@@ "


def read(text):
    blocks = BlockReader().read(text, base=0, after=None)
    return [item for block in blocks for item in block.items]


def words(item):
    return "".join(run.text for run in item.runs)


def own(value, *but):
    """What a block or a style has that others do not."""
    pairs = ((field, getattr(value, field.name)) for field in fields(value))
    said = (f"{f.name}={v!a}" for f, v in pairs if v != f.default and f.name not in but)
    return " ".join(said)


def look(text):
    """Each line's block, without its distances, and its runs: text, source and style."""
    for item in read(text):
        rows = [[item]] if isinstance(item, TextLine) else item.rows
        for row in rows:
            for cell in row:
                kind = "cell" if isinstance(item, Table) else "line"
                yield f"{kind} {own(cell.block, 'above')}".rstrip()
                for run in cell.runs:
                    source = text[run.source : run.end]
                    written = "" if source == run.text else f" <- {source!a}"
                    yield f"    {run.text!a}{written} {own(run.style)}".rstrip()


def test_what_models_write_becomes_these_lines():
    texts = [line for line in kept("markdown_blocks.txt").splitlines() if line.startswith(MARK)]
    found = "".join(
        "\n".join((text, *look(literal_eval(text.removeprefix(MARK))))) + "\n" for text in texts
    )
    assert found == kept("markdown_blocks.txt", found)


def test_an_address_of_another_kind_is_text():
    for address in ("file:///etc/passwd", "/etc/passwd", "javascript:x", "data:x,y", "ftp://a"):
        for text in (f"[a]({address})", f"![a]({address})"):
            assert words(read(text)[0]) == text
        assert words(read(f"<a href='{address}'>b</a>")[0]).startswith("<a href")
    for text in ("xhttp://a.b", "http://", "ftp://a.bc", "a: //b", "`http://a.b`"):
        assert not [run for run in all_runs(read(text)) if run.style.href], text


def test_deep_nesting_is_shown_as_it_is():
    for deep in ("- " * 10_000 + "x", ">" * 10_000 + "x", "1. " * 99 + "*x*"):
        items = read(deep)
        assert {item.block.shape for item in items} == {"plain"}
        assert "".join(words(item) for item in items if isinstance(item, TextLine)) == deep


def formulas(text):
    """The source of each formula, as it is laid out and where the text has it."""
    runs = [run for run in all_runs(read(text)) if run.style.formula]
    assert all(text[run.source : run.end].strip() == run.style.formula for run in runs)
    return [run.style.formula for run in runs]


def test_formulas_in_a_paragraph():
    for formula in (
        "$x$",
        "$x_1 * y_2 * z$",
        "$$x$$",
        r"\(a_b\)",
        r"\[a_b\]",
        r"$\$5$",
        r"$a \\ b$",
        r"\(\left(a\right)\)",
        "$a\nb$",
    ):
        assert formulas(f"so {formula}, then") == [formula]
        assert formulas(f"**so {formula}**") == [formula]


def test_what_is_no_formula():
    texts = (
        "It costs $5 and $10.",
        "Between $5-$10 or ($5/$6), US$7.",
        "$ x $ and $x $ and $ x$",
        r"\$x\$ \\(x\\)",
        "`$x$` `\\(x\\)`",
        "$",
        "$$",
        "$$$$",
        "$x",
        "\\(x",
        "$a\n\nb$",
        "$$\na\n\nb\n$$",
        "$\u202ex$",
        "PATH=$HOME/bin:$PATH, $USER@$HOST and ${A}/b:${C}",
    )
    assert {text: seen for text in texts if (seen := formulas(text))} == {}
