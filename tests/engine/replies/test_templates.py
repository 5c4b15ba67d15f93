"""What the templates of all families render is read as what was rendered.

The templates in tests/data/templates are our own, and write calls as those of the models do.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import load as load_tokenizer

from engine.replies.syntax import Family, ReplySyntax, syntax_of
from engine.request import ChatMessage, Prompt, ToolCall
from engine.template import render
from tests.engine.replies.reading import cut, read
from tests.support.engine.tiny import byte_tokenizer

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


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tokenizer")
    byte_tokenizer(folder)
    return load_tokenizer(folder, eos_token_ids=[256])


def _template(case: Case) -> str:
    return (TEMPLATES / f"{case.name}.jinja").read_text(encoding="utf-8")


def _syntax(case: Case) -> ReplySyntax:
    return syntax_of(_template(case), special=case.special)


def _arguments(case: Case) -> st.SearchStrategy[dict[str, Any]]:
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@given(data=st.data())
def test_rendered_calls_are_read(tokenizer: Any, case: Case, data: st.DataObject) -> None:
    drawn = st.lists(_arguments(case), min_size=1, max_size=case.most_calls)
    wanted = [("get_weather", arguments) for arguments in data.draw(drawn)]
    calls = tuple(
        ToolCall(f"call{n}", name, json.dumps(arguments))
        for n, (name, arguments) in enumerate(wanted)
    )
    thinks = "I think." if case.reasons and data.draw(st.booleans()) else ""
    reply = ChatMessage("assistant", "", reasoning=thinks, tool_calls=calls)
    text = _reply(tokenizer, case, reply)
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    found = read(_syntax(case), cut(text, places), inside_reasoning=False)
    assert found.calls == wanted
    assert (found.content, found.reasoning) == (_lone_end(case, thinks), thinks)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rendered_content_is_read(tokenizer: Any, case: Case) -> None:
    thinks = "I think." if case.reasons else ""
    reply = ChatMessage("assistant", "I look.", reasoning=thinks)
    if case.family == "harmony":
        case = Case("harmony", "harmony", case.before, "<|start|>user")
    found = read(_syntax(case), _reply(tokenizer, case, reply))
    assert (found.content.strip(), found.reasoning, found.calls) == ("I look.", thinks, [])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_template_tells_the_syntax(tokenizer: Any, case: Case) -> None:
    tokenizer.chat_template = _template(case)
    syntax = _syntax(case)
    prompt = render(tokenizer, Prompt(messages=(ChatMessage("user", "why?"),)))
    assert syntax.family == case.family
    assert syntax.reasons == case.reasons
    assert syntax.begins_inside(prompt) == case.inside
    assert syntax.special == tuple(sorted(case.special))


def test_reasoning_that_the_prompt_closes_is_over(tokenizer: Any) -> None:
    case = CASES[0]
    tokenizer.chat_template = _template(case)
    chat = (ChatMessage("user", "why?"),)
    prompt = render(tokenizer, Prompt(messages=chat, options='{"enable_thinking": false}'))
    assert not _syntax(case).begins_inside(prompt)


def _reply(tokenizer: Any, case: Case, reply: ChatMessage) -> str:
    """How the template writes a reply that it is told."""
    tokenizer.chat_template = _template(case)
    question = ChatMessage("user", "why?")
    rendered = render(tokenizer, Prompt(messages=(question, reply, question)))
    behind = rendered.split(case.before, 1)[1]
    return behind[: behind.rindex(case.behind, 0, behind.rindex("why?"))]


def _lone_end(case: Case, thinks: str) -> str:
    """GLM's template writes the end of a reasoning that is not there."""
    return "" if thinks or case.name != "glm" else "</think>"
