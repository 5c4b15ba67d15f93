"""Notebooks: the cells, and what they printed."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from engine.documents import Section
from engine.documents.notebook import OUTPUT_CHARACTERS, read_notebook

PLOT = {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo="}}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["cells", "source", "outputs", "text", "data", "text/plain", "worksheets"]
            ),
            inner,
            max_size=4,
        )
    ),
)


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


@example({"cells": [{"cell_type": "code", "source": "a"}]})
@given(VALUES)
def test_any_json_is_read(value):
    for section in read_notebook(json.dumps(value).encode()).sections:
        assert section.text.strip()
