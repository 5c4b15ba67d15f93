"""Replies as templates of all families render them.

The templates in tests/data/templates are our own, and write calls as those of the models do.
"""

from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from engine.conversation.template import render
from engine.replies.syntax import Family, syntax_of
from engine.request import ChatMessage, Prompt

TEMPLATES = Path(__file__).parents[2] / "data" / "templates"


@dataclass(frozen=True)
class Case:
    """A template, and what stands before and behind a reply in it.

    `not_in_text`: what a text among the arguments cannot say, as the template escapes nothing.
    """

    name: str
    family: Family
    before: str
    behind: str
    reasons: bool = True
    inside: bool = False
    most_calls: int = 3
    not_in_text: tuple[str, ...] = ()
    special: tuple[str, ...] = ()


THOUGHT = ("<|channel>", "<channel|>")
CASES = [
    Case("hermes", "hermes", "<|im_start|>assistant\n", "<|im_end|>"),
    Case(
        "qwen_xml", "qwen xml", "<|im_start|>assistant\n", "<|im_end|>",
        inside=True, not_in_text=("</",),
    ),
    Case(
        "llama", "llama", "assistant<|end_header_id|>\n\n", "<|eot_id|>", reasons=False,
        most_calls=1,
    ),
    Case("mistral", "mistral", "[/INST]", "<eos>", reasons=False, special=("[TOOL_CALLS]",)),
    Case("mistral_args", "mistral args", "[/INST]", "<eos>", special=("[THINK]", "[/THINK]")),
    Case("lfm", "lfm", "<|im_start|>assistant\n", "<|im_end|>", not_in_text=("'", "\\")),
    Case(
        "gemma", "gemma", "<|turn>model\n", "<turn|>", not_in_text=('<|"|>',), special=THOUGHT
    ),
    Case(
        "function_gemma", "function gemma", "<start_of_turn>model\n", "<end_of_turn>",
        reasons=False, not_in_text=("<escape>",),
    ),
    Case("glm", "glm", "<|assistant|>", "<|user|>", inside=True, not_in_text=("</",)),
    Case("harmony", "harmony", "<|start|>assistant", "<|call|>", most_calls=1),
]  # fmt: skip


def template_of(case):
    return (TEMPLATES / f"{case.name}.jinja").read_text(encoding="utf-8")


def syntax_in(case):
    return syntax_of(template_of(case), special=case.special)


def arguments_for(case):
    """Arguments of `get_weather`, of the types that its schema says."""
    texts = st.text(st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n"))
    texts = texts.filter(lambda text: not any(one in text for one in case.not_in_text))
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | texts,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "b", "c_d"]), inner, max_size=3)
        ),
        max_leaves=5,
    )
    return st.fixed_dictionaries(
        {"city": texts},
        optional={
            "days": st.integers() | st.just(2**63 + 1),
            "exact": st.booleans(),
            "area": st.dictionaries(st.sampled_from(["a", "b", "c_d"]), values, max_size=3),
            "marks": st.lists(values, max_size=3),
            "share": st.floats(allow_nan=False, allow_infinity=False),
        },
    )


def rendered(tokenizer, case, reply):
    """How the template writes a reply that it is told."""
    tokenizer.chat_template = template_of(case)
    question = ChatMessage("user", "why?")
    rendered = render(tokenizer, Prompt(messages=(question, reply, question)))
    behind = rendered.split(case.before, 1)[1]
    return behind[: behind.rindex(case.behind, 0, behind.rindex("why?"))]
