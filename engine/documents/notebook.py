"""Reads a Jupyter notebook: its cells and their outputs, as far as these are text."""

import json
import re
from collections.abc import Iterator
from typing import Any

from engine.documents import Section
from engine.documents.decoding import decode
from engine.documents.read import Read
from models.errors import Problem

OUTPUT_CHARACTERS = 4_000
"""Of a cell's outputs; the rest is left out."""

_ESCAPES = re.compile("\x1b\\[[0-9;?]*[A-Za-z]")  # colours


def read_notebook(data: bytes) -> Read:
    decoded = decode(data)
    sections, shortened, without_text = [], 0, 0
    for number, cell in enumerate(_cells(decoded.text), start=1):
        source = _text(cell.get("source", cell.get("input")))
        outputs = _objects(cell.get("outputs"))
        printed = [text for output in outputs if (text := _printed(output))]
        without_text += len(outputs) - len(printed)
        text = "\n".join(printed)
        shortened += len(text) > OUTPUT_CHARACTERS
        parts = [source.strip("\n")]
        if text:
            parts.append(f"Output:\n{text[:OUTPUT_CHARACTERS]}")
        if whole := "\n\n".join(part for part in parts if part.strip()):
            sections.append(Section("cell", number, whole))
    left_out = [*decoded.remarks]
    if shortened:
        left_out.append(
            f"Of the outputs of {shortened} cells all but {OUTPUT_CHARACTERS:,} characters."
        )
    if without_text:
        left_out.append(f"Outputs without text: {without_text}.")
    return Read(tuple(sections), left_out=tuple(left_out))


def _cells(text: str) -> list[dict[str, Any]]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Problem(
            "The notebook is damaged: it is not JSON.", "Open it in Jupyter, and save it again."
        ) from error
    notebook = value if isinstance(value, dict) else {}
    older = _objects(notebook.get("worksheets"))  # up to version 3
    return [cell for sheet in older or [notebook] for cell in _objects(sheet.get("cells"))]


def _printed(output: dict[str, Any]) -> str:
    """The text of an output; empty for pictures and the like."""
    if output.get("output_type") in ("error", "pyerr"):
        return f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}".strip()
    data = output.get("data")
    shown = data.get("text/plain") if isinstance(data, dict) else output.get("text")
    return _ESCAPES.sub("", _text(shown)).strip("\n")


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    """A text that is a string, or a list of lines."""
    return "".join(_strings(value))


def _strings(value: Any) -> Iterator[str]:
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str):
            yield each
