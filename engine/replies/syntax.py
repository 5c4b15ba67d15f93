"""Finds how a model writes calls and reasoning, from its chat template.

Knows the marks. `engine.replies.reading` reads them, `engine.replies.grammars` enforces them.
"""

from collections.abc import Collection
from dataclasses import dataclass

from engine.replies.families import FAMILIES, Family, FamilyRow, ReasoningMarks


@dataclass(frozen=True, slots=True)
class ReplySyntax:
    """The notation of a model's replies.

    `found`: the row of the family "found", which is not in the table. `special`: the marks that are
    special tokens of its tokenizer. If there are any, a reply can be read only with the names of
    special tokens in its text: see `engine.request.Request`.
    """

    family: Family = "none"
    reasoning: ReasoningMarks | None = None
    special: tuple[str, ...] = ()
    found: FamilyRow | None = None

    @property
    def row(self) -> FamilyRow:
        """The row of the family; an empty one for "none"."""
        return self.found or FAMILIES.get(self.family, _NO_ROW)

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
        return bool(self.reasoning and prompt.rstrip().endswith(self.reasoning.closing))


_NO_ROW = FamilyRow()
REASONING = (
    ReasoningMarks("<think>", "</think>"),
    ReasoningMarks("<thinking>", "</thinking>"),
    ReasoningMarks("[THINK]", "[/THINK]"),
    *(ReasoningMarks(f"<{n}>", f"</{n}>") for n in ("longcat_think", "seed:think", "mm:think")),
    ReasoningMarks("<|think:start|>", "<|think:end|>"),
    ReasoningMarks("<|channel>thought\n", "<channel|>"),
    ReasoningMarks("<|START_THINKING|>", "<|END_THINKING|>"),
    ReasoningMarks("<|inner_prefix|>", "<|inner_suffix|>"),
    ReasoningMarks("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
)
"""All known pairs, except harmony's, which uses channels, and pairs of single families."""


def syntax_of(
    template: str,
    *,
    tokens: Collection[str] = (),
    special: Collection[str] = (),
    knows_tools: bool = False,
    found: FamilyRow | None = None,
) -> ReplySyntax:
    """The syntax that a chat template shows.

    `knows_tools`: whether the template shows tools, calls and results; if not, a model of no known
    family reads and writes them as Hermes does (`engine.conversation.template_messages`).
    `found`: the notation that the template's texts show (`engine.conversation.template_abilities`),
    for a model of no known family. `tokens`: the names of all tokens added to the tokenizer's
    vocabulary; `special`: the special ones among them.
    """
    family = _family(template, tokens, knows_tools=knows_tools)
    row = FAMILIES.get(family, _NO_ROW)
    if family == "none" and found is not None:
        family, row = "found", found
    else:
        found = None
    reasoning = None if family == "harmony" else row.reasoning or _reasoning(template, tokens)
    marks = [*row.marks, *((reasoning.opening, reasoning.closing) if reasoning else ())]
    text = "\n".join(marks)
    own = tuple(sorted(name for name in special if name in text))
    return ReplySyntax(family, reasoning, own, found)


def _family(template: str, tokens: Collection[str], *, knows_tools: bool) -> Family:
    for shown in (template, tokens):  # a template may have no calls, and the tokenizer their marks
        for family, row in FAMILIES.items():
            if any(all(word in shown for word in words) for words in row.shown_by):
                return family
    return "none" if knows_tools else "hermes"


def _reasoning(template: str, tokens: Collection[str]) -> ReasoningMarks | None:
    """The reasoning marks: both in the template, or the closing one, or both in the tokenizer."""
    shown = [marks for marks in REASONING if marks.closing in template]
    both = [marks for marks in shown if marks.opening.rstrip() in template]
    known = [marks for marks in REASONING if {marks.opening, marks.closing} <= set(tokens)]
    return next(iter([*both, *shown, *known]), None)
