"""The stretches of a text that a model wrote: content, reasoning, calls, and the marks around them.

A text and its stretches are apart, so that each character keeps its place: "<think>Hm.
</think>Four." has the stretches mark 7, reasoning 3, mark 9, content 5. A text without stretches is
all content, and so is the text after the last stretch.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["content", "reasoning", "call", "mark"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """`length` code points of one kind. A "mark" is for the program, and is not shown: the white
    space around it belongs to it."""

    kind: Kind
    length: int


def extend(found: list[Stretch], more: Iterable[Stretch]) -> None:
    """Append stretches to those found so far; neighbours of a kind become one."""
    for one in more:
        if found and found[-1].kind == one.kind:
            found[-1] = Stretch(one.kind, found[-1].length + one.length)
        elif one.length:
            found.append(one)


def joined(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """The stretches, neighbours of a kind joined to one; empty if all is content."""
    found: list[Stretch] = []
    extend(found, stretches)
    return tuple(found) if any(one.kind != "content" for one in found) else ()


def cut(
    stretches: Iterable[Stretch], place: int
) -> tuple[tuple[Stretch, ...], tuple[Stretch, ...]]:
    """Return the stretches of the text before `place`, and of the text from there on."""
    before: list[Stretch] = []
    behind: list[Stretch] = []
    for one in stretches:
        length = min(one.length, place)
        place -= length
        extend(before, [Stretch(one.kind, length)])
        extend(behind, [Stretch(one.kind, one.length - length)])
    return tuple(before), tuple(behind)


def divided(text: str, stretches: Sequence[Stretch]) -> Iterator[tuple[Kind, str]]:
    """Yield the parts of a text, each with its kind."""
    place = 0
    for one in stretches:
        if part := text[place : place + one.length]:
            yield one.kind, part
        place += one.length
    if rest := text[place:]:
        yield "content", rest


def said(text: str, stretches: Sequence[Stretch], kind: Kind = "content") -> str:
    """Return all text of a kind, with a blank line between parts that were apart."""
    return "\n\n".join(part for each, part in divided(text, stretches) if each == kind)


def folded(reasoning: str, answer: str) -> str:
    """An answer as Markdown, with its reasoning folded above it."""
    if not reasoning:
        return answer
    fold = f"<details>\n<summary>Thinking</summary>\n\n{reasoning}\n\n</details>"
    return f"{fold}\n\n{answer}" if answer else fold


def blanked(text: str, stretches: Sequence[Stretch]) -> str:
    """The text with spaces in place of all that is not content, so that each word stays in its
    place."""
    parts = divided(text, stretches)
    return "".join(part if kind == "content" else " " * len(part) for kind, part in parts)
