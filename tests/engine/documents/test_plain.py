"""Texts, Markdown, tables and notebooks: cut where a place says something, and changed nowhere."""

import json

from hypothesis import given
from hypothesis import strategies as st

from engine.documents import Section
from engine.documents.notebook import OUTPUT_CHARACTERS, read_notebook
from engine.documents.plain import LINES, read_csv, read_markdown, read_text

ROWS = st.lists(st.text("ab #-`\t\"',", max_size=6), max_size=3 * LINES)


def labelled(read):
    return [(section.label, section.text) for section in read.sections]


@given(ROWS)
def test_every_line_stands_where_its_section_says(rows):
    for read in (read_text, read_csv):
        sections = read("\n".join(rows).encode()).sections
        seen = {
            section.number + i: line
            for section in sections
            for i, line in enumerate(section.text.split("\n"))
        }
        for number, line in enumerate(rows, start=1):
            assert seen.get(number, "").rstrip() == line.rstrip()
        assert read is read_csv or all(each.text.count("\n") < LINES for each in sections)
        assert all(each.text.strip() and each.kind == "lines" for each in sections)
    sections = read_markdown("\n".join(rows).encode()).sections
    shown = [line for section in sections for line in section.text.split("\n")]
    assert [line for line in shown if line.strip()] == [line for line in rows if line.strip()]


def test_of_files_in_a_text_only_the_kinds_stay():
    for head in ("image/png", "image/svg+xml;charset=utf-8", "font/woff2"):
        text = f"![x](data:{head};base64,{{}}) and\nmore"
        for read in (read_text, read_markdown, read_csv):
            made = read(text.format("QUJD" * 90).encode())
            assert (made.sections[0].text, len(made.left_out)) == (text.format("…"), 1)
            assert read(text.format("QUJD").encode()).sections[0].text == text.format("QUJD")


MARKDOWN = """Before.

# Install
All of it.
## On a *Mac* ##
```sh
~~~
# no heading
```
## On `Linux`
### [Debian](https://example.org)
apt
Use
===
It is used.
Details
---
- a list
---
#hashtag"""


def test_markdown_has_a_section_for_each_heading_with_the_path_to_it():
    assert labelled(read_markdown(MARKDOWN.encode())) == [
        ("", "Before."),
        ("Install", "# Install\nAll of it."),
        ("Install > On a Mac", "## On a *Mac* ##\n```sh\n~~~\n# no heading\n```"),
        ("Install > On Linux", "## On `Linux`"),
        ("Install > On Linux > Debian", "### [Debian](https://example.org)\napt"),
        ("Use", "Use\n===\nIt is used."),
        ("Use > Details", "Details\n---\n- a list\n---\n#hashtag"),
    ]
    for heading, title in (
        ("# One", "One"),
        ("# #", ""),
        ("# One ##  ", "One"),
        ("# C#", "C#"),
        ("#\tOne \\#", "One \\#"),
        ("   ### snake_case and _this_", "snake_case and this"),
    ):
        assert labelled(read_markdown(f"{heading}\ntext".encode())) == [(title, f"{heading}\ntext")]
    read = read_markdown(b"---\ntitle: Notes\n---\n\n# One\ntext")
    assert labelled(read) == [("", "---\ntitle: Notes\n---"), ("One", "# One\ntext")]
    other = read_markdown(b"---\nNotes\n===\n# One")
    assert [label for label, _ in labelled(other)] == ["", "Notes", "One"]


def test_a_text_is_cut_at_a_blank_line_that_is_near_and_a_table_only_between_rows():
    sections = read_text("\n".join([*["one"] * 35, "", *["two"] * 20]).encode()).sections
    assert [(each.number, each.text[:3]) for each in sections] == [(1, "one"), (37, "two")]
    row = 'name;"a text\nin several\nlines";3'
    text = "\n".join([row] * 50)
    sections = read_csv(text.encode()).sections
    assert len(sections) > 2
    assert all(section.text.startswith("name;") for section in sections)
    assert "\n".join(section.text for section in sections) == text

    for row in ('a,"never closed', '"' + "x" * 200_000):  # which costs nothing but the rows
        text = "\n".join([row, *["b,c"] * 100])
        sections = read_csv(text.encode()).sections
        assert "\n".join(section.text for section in sections) == text
        assert len(sections) > 2


def test_a_line_that_is_made_to_take_long_does_not():
    for line in ("# " + " " * 10**6 + "x", "# " + "[" * 10**6, "#" * 10**6):
        assert read_markdown(line.encode()).sections[0].text == line


# Notebooks: the cells, and what they printed


PLOT = {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo="}}


def notebook(*cells):
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}).encode()


def code(source, *outputs):
    return {"cell_type": "code", "source": source, "outputs": [*outputs]}


def test_cells_with_their_outputs():
    error = {"ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": ["\x1b[31m-"]}
    read = read_notebook(
        notebook(
            {"cell_type": "markdown", "source": ["# Prices\n", "of all things"]},
            code(""),
            code(
                "1 + 1",
                {"output_type": "stream", "text": ["so\n", "far\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "2"}},
                PLOT,
            ),
            code("1 / 0", {"output_type": "error", **error}),
            code("red", {"output_type": "stream", "text": "\x1b[1;31mred\x1b[0m"}),
        )
    )
    assert read.sections == (
        Section("cell", 1, "# Prices\nof all things"),
        Section("cell", 3, "1 + 1\n\nOutput:\nso\nfar\n2"),
        Section("cell", 4, "1 / 0\n\nOutput:\nZeroDivisionError: division by zero"),
        Section("cell", 5, "red\n\nOutput:\nred"),
    )
    assert len(read.left_out) == 1
    cell = {"cell_type": "code", "input": "1", "outputs": [{"output_type": "pyout", "text": "2"}]}
    older = {"nbformat": 3, "worksheets": [{"cells": [cell]}]}
    read = read_notebook(json.dumps(older).encode())
    assert read.sections == (Section("cell", 1, "1\n\nOutput:\n2"),)
    long = code("a", {"output_type": "stream", "text": "x" * 2 * OUTPUT_CHARACTERS})
    read = read_notebook(notebook(long))
    assert read.sections[0].text.count("x") == OUTPUT_CHARACTERS
    assert len(read.left_out) == 1
