"""Separates reasoning from an answer by the marks of all models, if the syntax is not known."""

from engine.documents.by_section import Said
from engine.replies.families import ReasoningMarks
from engine.replies.syntax import REASONING, ReplySyntax

_HARMONY = ReasoningMarks("<|channel|>analysis<|message|>", "<|channel|>final<|message|>")


def said_in(reply: str, *, prompt_ending: str = "") -> Said:
    """Read a reply as an answer about a part of a document: its text without reasoning.

    `prompt_ending`: the last characters of the prompt (`Prefill.ending`), which show whether the
    reply begins within reasoning. Both texts have the names of special tokens (`Request.special`).
    Example: "<think>Rent.</think>It is 900." gives Said("It is 900.", reasoned=True).
    """
    for marks in (*REASONING, _HARMONY):
        _, closing, behind = reply.partition(marks.closing)
        inside = ReplySyntax(reasoning=marks).begins_inside(prompt_ending)
        if closing or inside or reply.lstrip().startswith(marks.opening.rstrip()):
            return Said((closing and behind.strip()) or None, reasoned=True)
    return Said(reply)
