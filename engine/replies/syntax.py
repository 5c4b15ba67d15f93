"""Which family's way of writing calls and reasoning a model has: its chat template shows it.

Knows the marks. How they are read stands in `engine.replies.parser`, how they are enforced in
`engine.replies.grammars`.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

Family = Literal[
    "none",
    "hermes",
    "llama",
    "mistral",
    "mistral args",
    "qwen xml",
    "glm",
    "lfm",
    "gemma",
    "function gemma",
    "harmony",
]


@dataclass(frozen=True, slots=True)
class ReasoningMarks:
    """What stands before and behind the reasoning."""

    opening: str
    closing: str


@dataclass(frozen=True, slots=True)
class ReplySyntax:
    """How a model's replies are written.

    `special`: those of the marks that are special tokens of its tokenizer. Where there are some, a
    reply can only be understood with the names of special tokens in its text: see
    `engine.request.Request`.
    """

    family: Family = "none"
    reasoning: ReasoningMarks | None = None
    special: tuple[str, ...] = ()

    @property
    def reasons(self) -> bool:
        """Whether replies may have reasoning in them."""
        return self.reasoning is not None or self.family == "harmony"

    def begins_inside(self, prompt: str) -> bool:
        """Whether a reply to this prompt, or to one with this end, begins within reasoning."""
        marks = self.reasoning
        return marks is not None and prompt.rstrip().endswith(marks.opening.rstrip())

    def reasoning_is_over(self, prompt: str) -> bool:
        """Whether the prompt, of which this is the end, has closed the reasoning already."""
        marks = self.reasoning
        return marks is not None and prompt.rstrip().endswith(marks.closing)


_THINK = ReasoningMarks("<think>", "</think>")
REASONING = (
    _THINK,
    ReasoningMarks("<thinking>", "</thinking>"),
    ReasoningMarks("[THINK]", "[/THINK]"),
    ReasoningMarks("<longcat_think>", "</longcat_think>"),
    ReasoningMarks("<|think:start|>", "<|think:end|>"),
    ReasoningMarks("<|channel>thought\n", "<channel|>"),
)
"""The pairs that are known, but for those of harmony, where a channel is what says it."""

_CALL_MARKS: dict[Family, tuple[str, ...]] = {
    "none": (),
    "hermes": ("<tool_call>", "</tool_call>"),
    "llama": ("<|python_tag|>",),
    "mistral": ("[TOOL_CALLS]",),
    "mistral args": ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    "qwen xml": ("<tool_call>", "</tool_call>"),
    "glm": (
        "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
    ),
    "lfm": ("<|tool_call_start|>", "<|tool_call_end|>"),
    "gemma": ("<|tool_call>", "<tool_call|>", '<|"|>'),
    "function gemma": ("<start_function_call>", "<end_function_call>", "<escape>"),
    "harmony": ("<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>"),
}  # fmt: skip


def syntax_of(
    template: str, *, tokens: Collection[str] = (), special: Collection[str] = ()
) -> ReplySyntax:
    """The syntax that a chat template shows. `tokens` are the names of the tokens that were added
    to the tokenizer's vocabulary, among them those of the `special` ones."""
    family = _family(template, tokens)
    marks = [*_CALL_MARKS[family]]
    reasoning = None if family == "harmony" else _reasoning(template, tokens)
    if reasoning is not None:
        marks += [reasoning.opening, reasoning.closing]
    said = "\n".join(marks)
    return ReplySyntax(family, reasoning, tuple(sorted(name for name in special if name in said)))


def _family(template: str, tokens: Collection[str]) -> Family:
    def has(*marks: str) -> bool:
        return all(mark in template for mark in marks)

    if has("<|channel|>", "<|message|>", "<|start|>"):
        return "harmony"
    if has("<|tool_call>", "<tool_call|>"):
        return "gemma"
    if has("<start_function_call>"):
        return "function gemma"
    if has("<arg_key>", "<tool_call>"):
        return "glm"
    if has("<|tool_call_start|>") or has("<|tool_list_start|>"):
        return "lfm"
    if has("<tool_call>", "<function="):
        return "qwen xml"
    if has("[TOOL_CALLS]"):
        return "mistral args" if has("[ARGS]") else "mistral"
    if has("<tool_call>"):
        return "hermes"
    if has("<|start_header_id|>", "tool_calls", '"parameters": '):
        return "llama"
    if "<|tool_call_start|>" in tokens and "<|tool_call_end|>" in tokens:
        return "lfm"  # whose converted templates sometimes say nothing of calls
    if "tools" in template or "tool_calls" in template:
        return "none"
    return "hermes"  # as `engine.template` tells of tools then


def _reasoning(template: str, tokens: Collection[str]) -> ReasoningMarks | None:
    """The pair whose end the template knows, or the tokenizer, if they do not name it."""
    for marks in REASONING:
        if marks.closing in template and marks.opening.rstrip() in template:
            return marks
    for marks in REASONING:
        if marks.closing in template or {marks.opening, marks.closing} <= set(tokens):
            return marks
    return None
