"""An answer that calls a tool in several steps, written by no model, and the rows that each step
reads."""

from dataclasses import dataclass

from mlx_lm.tokenizer_utils import load as load_tokenizer
from tokenizers import AddedToken

from engine.conversation.template import abilities_for, closing_of, encode_prompt, reply_syntax
from engine.replies.writing import write_call
from engine.request import ChatMessage, Prompt, ToolCall
from tests.support.engine.tiny import byte_tokenizer

TOOLS = (
    '[{"type": "function", "function": {"name": "look_up", "description": "Looks up.", '
    '"parameters": {"type": "object", "properties": {"city": {"type": "string", '
    '"description": "A city."}}, "required": ["city"]}}}]'
)
ASKED = ChatMessage("user", "Is it sunny?")
THOUGHT = "Let me  see."
QUESTION = ChatMessage("user", "And tomorrow?")


@dataclass(frozen=True)
class Read:
    """The tokens of a prompt: those in it, those of before, and those that were new."""

    tokens: int
    kept: int
    before: int


def tokenizer_of(template, folder, *, ends=(), special=(), added=()):
    """A tokenizer of bytes with this template; the tokens `ends` end an answer. Those that are
    `added` are not special."""
    byte_tokenizer(folder)
    own = load_tokenizer(folder, eos_token_ids=[256])
    own.add_special_tokens({"additional_special_tokens": sorted({*special, *ends})})
    own.add_tokens([AddedToken(name, special=False, normalized=False) for name in added])
    if ends:
        own.eos_token = ends[0]
    own.bos_token = own.bos_token or own.eos_token
    own._tokenizer.save_pretrained(folder)
    ids = [own.convert_tokens_to_ids(name) for name in ends] or [own.eos_token_id]
    own = load_tokenizer(folder, eos_token_ids=ids)
    own.chat_template = template
    return own


def read_in_steps(tokenizer, *, thinks):
    """The prompts of two steps, of a third that goes on, and of the next question."""
    messages = [ASKED]
    options = "" if thinks else '{"enable_thinking": false, "thinking": false}'

    def encoded():
        prompt = Prompt(messages=tuple(messages), tools=TOOLS, options=options)
        return encode_prompt(tokenizer, prompt)

    prompt = encoded()
    for number, city in enumerate(("Vienna", "Rome", "")):
        written, message = _written(tokenizer, prompt, number, city, thinks=thinks)
        held = [*prompt, *tokenizer.encode(written, add_special_tokens=False)]
        messages.append(message)
        if city:
            messages.append(ChatMessage("tool", "rain", tool_call_id=f"c{number}", name="look_up"))
        else:
            messages.append(QUESTION)
        prompt = encoded()
        kept = next(
            (n for n, (a, b) in enumerate(zip(held, prompt, strict=False)) if a != b), 10**9
        )
        kept = min(kept, len(held), len(prompt))
        yield (
            f"step {number + 2}" if city else "the next question",
            Read(len(prompt), kept, len(held)),
        )


def _written(tokenizer, prompt, number, city, *, thinks):
    """A reply of the model, with spaces that its template would not write."""
    able = abilities_for(tokenizer, tools=True)
    found = able.notation if able.knows_tools else None
    syntax = reply_syntax(tokenizer, knows_tools=able.knows_tools, found=found)
    begun = tokenizer.decode(prompt[-200:])
    calls = (ToolCall(f"c{number}", "look_up", f'{{"city":  "{city}"}}'),) if city else ()
    content = "" if city else "Rain  in both."
    if syntax.family == "harmony":
        text = f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant" if thinks else ""
        text += (
            f"<|channel|>commentary to=functions.look_up <|constrain|>json<|message|>"
            f'{{"city":  "{city}"}}'
            if city
            else f"<|channel|>final<|message|>{content}"
        )
    else:
        text, marks = "", syntax.reasoning
        if thinks and marks is not None and not syntax.reasoning_is_over(begun):
            opening = "" if syntax.begins_inside(begun) else marks.opening + "\n"
            text = f"{opening}{THOUGHT}{closing_of(able, syntax)}"
        row = write_call(syntax.family, "look_up", {"city": city}) if city else content
        text += row.replace('": "', '":  "')
    return text, ChatMessage(
        "assistant", content, THOUGHT if thinks and THOUGHT in text else "", calls, written=text
    )
