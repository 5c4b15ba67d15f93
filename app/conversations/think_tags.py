"""An answer as one text, its reasoning between <think> and </think>: to edit, to export, to import.

Answers that were imported or edited are stored so, or with the marks of their models.
"""

import json
import re
from collections.abc import Sequence

from app.conversations.stored_json import read_or
from engine.stretches import Kind, Stretch, joined, said

_MARKS = {"<think>": "</think>", "<thinking>": "</thinking>", "[THINK]": "[/THINK]"}
_OPENING = re.compile(rf"\s*({'|'.join(map(re.escape, _MARKS))})\s*")
_Pairs = tuple[tuple[Kind, int], ...]
_LONE_END = re.compile(r"^</think>[ \t]*$", re.MULTILINE)


def with_think_tags(reasoning: str, answer: str) -> str:
    """Return an answer with its reasoning before it."""
    reasoning = reasoning.strip()
    return f"<think>\n{reasoning}\n</think>\n\n{answer}" if reasoning else answer


def tagged(text: str, stretches: Sequence[Stretch]) -> str:
    """Return the text so that `stretches_in` finds its reasoning: the text itself, if it does."""
    if stretches_in(text) == tuple(stretches):
        return text
    return with_think_tags(said(text, stretches, "reasoning"), said(text, stretches))


def stretches_in(text: str) -> tuple[Stretch, ...]:
    """Return the stretches of a text in which only its marks show the reasoning, which is at its
    beginning. Without the first mark, a line with </think> alone shows it."""
    opening = _OPENING.match(text)
    if opening is None:
        found = _LONE_END.search(text)
        if found is None or "<think>" in text[: found.start()]:
            return ()
        start, end, closing = 0, found.start(), "</think>"
    else:
        start, closing = opening.end(), _MARKS[opening[1]]
        end = text.find(closing, opening.end(1))
    if end < 0:  # the answer ended within its reasoning
        return joined(_sized((("mark", start), ("reasoning", len(text) - start))))
    behind = text[end + len(closing) :]
    answer = len(behind.lstrip())
    inside = text[start:end]
    reasoning = len(inside.strip())
    before = start + len(inside) - len(inside.lstrip()) if reasoning else 0
    marks = len(text) - before - reasoning - answer
    return joined(
        _sized((("mark", before), ("reasoning", reasoning), ("mark", marks), ("content", answer)))
    )


def _sized(sizes: Sequence[tuple[Kind, int]]) -> list[Stretch]:
    return [Stretch(kind, length) for kind, length in sizes]


def stretches_to_json(stretches: Sequence[Stretch]) -> str:
    """Return the stretches as one line of JSON, in the form that the index of the search reads."""
    return json.dumps([[stretch.kind, stretch.length] for stretch in stretches])


def stretches_from_json(stored: str | None, text: str) -> tuple[Stretch, ...]:
    """Return the stretches that `stretches_to_json` wrote; without them, or if they are damaged,
    the stretches that the text shows."""
    found = read_or(_Pairs, stored, None)
    return (
        stretches_in(text)
        if found is None
        else joined(_sized([(kind, max(0, length)) for kind, length in found]))
    )
