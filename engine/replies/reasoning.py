"""Tells reasoning from an answer whose model's syntax is not known, by the marks of all models."""

from engine.documents.by_section import Said
from engine.replies.syntax import REASONING, ReasoningMarks, ReplySyntax

_HARMONY = ReasoningMarks("<|channel|>analysis<|message|>", "<|channel|>final<|message|>")


def said_in(reply: str, *, prompt_ending: str = "") -> Said:
    """A reply as an answer about a part of a document. There are names of special tokens in both
    texts: see `engine.request.Request` and `engine.events.Prefill`."""
    for marks in (*REASONING, _HARMONY):
        _, closing, behind = reply.partition(marks.closing)
        inside = ReplySyntax(reasoning=marks).begins_inside(prompt_ending)
        if closing or inside or reply.lstrip().startswith(marks.opening.rstrip()):
            return Said((closing and behind.strip()) or None, reasoned=True)
    return Said(reply)
