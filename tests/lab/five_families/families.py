"""The five families: a template, the marks of its replies, and a model folder that writes them."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.tokenizer_utils import load as load_tokenizer
from tokenizers import AddedToken, Tokenizer

from engine.conversation.template import encode_prompt, with_thinking
from engine.request import ChatMessage, Prompt, ToolCall
from tests.lab.five_families.engine import ARCHITECTURE
from tests.lab.five_families.network import weights
from tests.support.engine.tiny import byte_tokenizer

TOOL = {
    "name": "look_up",
    "description": "Looks up the weather.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "A city."}},
        "required": ["city"],
    },
}
CITY = "Lisbon"
RESULT = "Fog, 14 degrees"
QUESTIONS = ("Is it sunny in Vienna?", "And what about Rome?", "Look up Lisbon for me.")
THOUGHTS = (
    "The user asks about Vienna. I know of no clouds there today, so I say that it is sunny.",
    "Now Rome. A storm came in from the sea this morning, which I should mention.",
    "I have a tool for that, so I call it.",
    "It is foggy there, and rather cold. I pass this on.",
)
ANSWERS = (
    "Yes, Vienna is **sunny**, and no cloud is in sight.",
    "Rome has a *storm*: take an umbrella.",
    "",
    "Lisbon is in fog at 14 degrees.",
)
_MARK = re.compile(r"<[|｜][^<>'\"\s]*>|<[^<>'\"\s]*[|｜]>|</?think>|</?tool_call>")


@dataclass(frozen=True)
class Family:
    """One family.

    `template`: the name of its file. `tokenizer`: the folder of its own one, if it can be had.
    `opening`: the mark before reasoning; `prompted`: the prompt has it. `between` stands between
    reasoning and answer, `before_call` between reasoning and call. `silent`: it does not reason
    behind a result. `ends`: an answer, a call.
    """

    name: str
    template: str
    tokenizer: str
    bos: str
    opening: str
    between: str
    before_call: str
    call: str
    ends: tuple[str, str]
    prompted: bool = False
    silent: bool = False

    @property
    def replies(self) -> tuple[str, ...]:
        """All that it writes to the three questions and the result."""
        opening = "" if self.prompted else self.opening

        def answer(number: int) -> str:
            return opening + THOUGHTS[number] + self.between + ANSWERS[number] + self.ends[0]

        call = opening + THOUGHTS[2] + self.before_call + self.call + self.ends[1]
        end = ANSWERS[3] + self.ends[0] if self.silent else answer(3)
        return answer(0), answer(1), call, end


_IM_END = ("<|im_end|>", "<|im_end|>")
FAMILIES = (
    Family(
        "gpt-oss",
        "openai-gpt-oss-120b",
        "gptoss",
        "<|startoftext|>",
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
        "<|end|><|start|>assistant<|channel|>commentary to=functions.look_up <|constrain|>json"
        "<|message|>",
        '{"city": "Lisbon"}',
        ("<|return|>", "<|call|>"),
    ),
    Family(
        "Gemma-4",
        "google-gemma-4-31B-it",
        "",
        "<bos>",
        "<|channel>thought\n",
        "\n<channel|>",
        "\n<channel|>",
        '<|tool_call>call:look_up{city:<|"|>Lisbon<|"|>}<tool_call|>',
        ("<turn|>", "<|tool_response>"),
    ),
    Family(
        "Qwen3",
        "Qwen-Qwen3-0.6B",
        "qwen3",
        "",
        "<think>\n",
        "\n</think>\n\n",
        "\n</think>\n\n",
        '<tool_call>\n{"name": "look_up", "arguments": {"city": "Lisbon"}}\n</tool_call>',
        _IM_END,
    ),
    Family(
        "LFM2",
        "LFM2.5-8B-A1B",
        "",
        "<|startoftext|>",
        "<think>",
        "</think>",
        "</think>",
        "<|tool_call_start|>[look_up(city='Lisbon')]<|tool_call_end|>",
        _IM_END,
    ),
    Family(
        "DeepSeek",
        "deepseek-ai-DeepSeek-V3.1",
        "deepseek",
        "<｜begin▁of▁sentence｜>",
        "<think>",
        "</think>",
        "</think>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look_up<｜tool▁sep｜>"
        '{"city": "Lisbon"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        ("<｜end▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
        prompted=True,
        silent=True,
    ),
)


def write_tokenizer(family: Family, folder: Path, *, templates: Path, tokenizers: Path) -> Any:
    """Write the family's tokenizer with its template, and load it: its own one if a folder below
    `tokenizers` has it, else bytes and the template's marks."""
    template = (templates / f"{family.template}.jinja").read_text(encoding="utf-8")
    own = [
        path
        for path in sorted(tokenizers.rglob("tokenizer.json"))
        if family.tokenizer and family.tokenizer in str(path)
    ]
    byte_tokenizer(folder)
    place = folder / "tokenizer.json"
    if own:
        place.write_bytes(own[0].read_bytes())
    else:
        tokenizer = Tokenizer.from_file(str(place))
        written = template + "".join(family.replies)
        marks = sorted({*_MARK.findall(written), *family.ends, family.bos} - {""})
        plain = {"<think>", "</think>", "<tool_call>", "</tool_call>"}  # as the real ones have them
        for mark in marks:
            token = AddedToken(mark, special=mark not in plain, normalized=False)
            (tokenizer.add_tokens if mark in plain else tokenizer.add_special_tokens)([token])
        tokenizer.save(str(place))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": family.ends[0],
        "chat_template": template,
        "clean_up_tokenization_spaces": False,
    } | ({"bos_token": family.bos} if family.bos else {})
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return load_tokenizer(folder)


def vocabulary_of(tokenizer: Any) -> int:
    """The number of rows of a model with this tokenizer."""
    return max(int(token) for token in tokenizer.get_vocab().values()) + 1


def ends_of(family: Family, tokenizer: Any) -> list[int]:
    """The tokens that end its replies."""
    return [int(tokenizer.convert_tokens_to_ids(end)) for end in dict.fromkeys(family.ends)]


def asked_of(family: Family) -> tuple[Prompt, ...]:
    """The prompts behind which `Family.replies` are written."""
    tools = json.dumps([{"type": "function", "function": TOOL}])
    calls = (ToolCall("call_1", TOOL["name"], json.dumps({"city": CITY})),)  # type: ignore[arg-type]
    users = [ChatMessage("user", question) for question in QUESTIONS]
    said = ChatMessage("assistant", "", reasoning=THOUGHTS[2], tool_calls=calls)
    result = ChatMessage("tool", RESULT, tool_call_id="call_1", name="look_up")
    return (
        Prompt(messages=(users[0],)),
        Prompt(messages=(users[0], ChatMessage("assistant", ANSWERS[0]), users[1])),
        Prompt(messages=(users[2],), tools=tools),
        Prompt(messages=(users[2], said, result), tools=tools),
    )


def write_folder(family: Family, folder: Path, *, templates: Path, tokenizers: Path) -> Any:
    """Write a model folder that gives the family's replies; return its tokenizer."""
    tokenizer = write_tokenizer(family, folder, templates=templates, tokenizers=tokenizers)
    prompts = [with_thinking(tokenizer, prompt, "on") for prompt in asked_of(family)]
    texts = [
        (encode_prompt(tokenizer, prompt), _encoded(tokenizer, reply))
        for prompt, reply in zip(prompts, family.replies, strict=True)
    ]
    ends = ends_of(family, tokenizer)
    made = weights(texts, end=ends[0])
    mx.save_safetensors(str(folder / "model.safetensors"), made, metadata={"format": "mlx"})
    config = {
        "model_type": ARCHITECTURE,
        "vocab_size": vocabulary_of(tokenizer),
        "positions": len(made["wanted"]),
        "eos_token_id": ends,
        "bos_token_id": None,
        "max_position_embeddings": 8192,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return tokenizer


def _encoded(tokenizer: Any, text: str) -> Sequence[int]:
    found: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return found
