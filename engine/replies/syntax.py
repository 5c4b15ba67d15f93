"""Finds how a model writes calls and reasoning, from its chat template.

Knows the marks. `engine.replies.parser` reads them, `engine.replies.grammars` enforces them.
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
    """The marks before and behind the reasoning."""

    opening: str
    closing: str


@dataclass(frozen=True, slots=True)
class ReplySyntax:
    """The notation of a model's replies.

    `special`: the marks that are special tokens of its tokenizer. If there are any, a reply can be
    read only with the names of special tokens in its text: see `engine.request.Request`.
    """

    family: Family = "none"
    reasoning: ReasoningMarks | None = None
    special: tuple[str, ...] = ()

    @property
    def reasons(self) -> bool:
        """Whether replies may have reasoning in them."""
        return self.reasoning is not None or self.family == "harmony"

    def begins_inside(self, prompt: str) -> bool:
        """Whether a reply begins within reasoning, by the prompt or its last characters."""
        marks = self.reasoning
        return marks is not None and prompt.rstrip().endswith(marks.opening.rstrip())

    def reasoning_is_over(self, prompt: str) -> bool:
        """Whether the prompt, by its last characters, has closed the reasoning already."""
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
"""All known pairs, except harmony's, which uses channels."""

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
    template: str,
    *,
    tokens: Collection[str] = (),
    special: Collection[str] = (),
    knows_tools: bool = False,
) -> ReplySyntax:
    """The syntax that a chat template shows.

    `knows_tools`: whether the template shows tools, calls and results; if not, a model of no known
    family reads and writes them as Hermes does (`engine.conversation.template_messages`).
    `tokens`: the names of all tokens added to the tokenizer's vocabulary; `special`: the special
    ones among them.
    """
    family = _family(template, tokens, knows_tools=knows_tools)
    marks = [*_CALL_MARKS[family]]
    reasoning = None if family == "harmony" else _reasoning(template, tokens)
    if reasoning is not None:
        marks += [reasoning.opening, reasoning.closing]
    text = "\n".join(marks)
    return ReplySyntax(family, reasoning, tuple(sorted(name for name in special if name in text)))


def _family(template: str, tokens: Collection[str], *, knows_tools: bool) -> Family:
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
        return "lfm"  # converted templates of LFM2 sometimes have no calls
    return "none" if knows_tools else "hermes"


def _reasoning(template: str, tokens: Collection[str]) -> ReasoningMarks | None:
    """The reasoning marks: both in the template, or the closing one, or both in the tokenizer."""
    for marks in REASONING:
        if marks.closing in template and marks.opening.rstrip() in template:
            return marks
    for marks in REASONING:
        if marks.closing in template or {marks.opening, marks.closing} <= set(tokens):
            return marks
    return None
