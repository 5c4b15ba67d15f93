"""Renders chats with real chat templates, beside transformers, and reads what they write.

`python -m tests.lab.chat_templates FOLDER`: a folder of .jinja files, which are fetched for the run
and never kept. Prints a table below a line for every difference, with a word of why: how many
templates show each part of a chat, tell histories of every shape in order, continue an answer from
the prompt that it was written after, and write replies that are read as what was written.
"""

import json
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from mlx_lm.tokenizer_utils import load as load_tokenizer

from engine.conversation.template import abilities_for, render
from engine.replies.syntax import syntax_of
from engine.replies.tools import tools_of
from engine.request import ChatMessage, Prompt, ToolCall
from models.errors import Problem
from tests.engine.conversation.test_template_messages import HISTORIES, told_in_order
from tests.engine.replies.reading import read
from tests.support.engine.tiny import byte_tokenizer

TOOLS = (
    '[{"type": "function", "function": {"name": "look_up", "description": "Looks up.", '
    '"parameters": {"type": "object", "properties": {"city": {"type": "string", '
    '"description": "A city."}}, "required": ["city"]}}}]'
)
CALLS = tuple(
    ToolCall(f"call{number}", "look_up", f'{{"city": "{city}"}}')
    for number, city in enumerate(("Vienna", "Rome"))
)
THOUGHT = "I look outside."
_MARK = re.compile(r"<[|｜][^<>'\"\s]*>|<[^<>'\"\s]*[|｜]>|\[/?[A-Z_]{4,}\]")
ASKED = ChatMessage("user", "Is it sunny?")
SYSTEM = ChatMessage("system", "Speak Latin.")
RESULTS = tuple(
    ChatMessage("tool", weather, tool_call_id=call.id, name=call.name)
    for call, weather in zip(CALLS, ("rain", "fog"), strict=True)
)
AFTER = (ChatMessage("assistant", "Not there."), ChatMessage("user", "And now?"))
ONE = ChatMessage("assistant", "", tool_calls=CALLS[:1])
BOTH = ChatMessage("assistant", "I ask.", tool_calls=CALLS)
CHATS = {
    "system": (Prompt(messages=(SYSTEM, ASKED)), ("Latin", "sunny")),
    "two users": (Prompt(messages=(ASKED, AFTER[1])), ("sunny", "now?")),
    "tools": (Prompt(messages=(ASKED,), tools=TOOLS), ("look_up", "city")),
    "calls": (Prompt(messages=(ASKED, ONE, RESULTS[0], *AFTER), tools=TOOLS), ("Vienna",)),
    "results": (Prompt(messages=(ASKED, ONE, RESULTS[0], *AFTER), tools=TOOLS), ("rain",)),
    "all at once": (
        Prompt(messages=(SYSTEM, ASKED, BOTH, *RESULTS, *AFTER), tools=TOOLS),
        ("Latin", "Vienna", "Rome", "rain", "fog", "I ask.", "now?"),
    ),
}


def main(folder):
    """Print the comparisons of all templates in the folder."""
    found = Counter()
    tried = Counter()
    with tempfile.TemporaryDirectory() as own:
        byte_tokenizer(Path(own))
        tokenizer = load_tokenizer(Path(own), eos_token_ids=[256])
        tokenizer.bos_token = tokenizer.eos_token
        for path in sorted(folder.glob("*.jinja")):
            tokenizer.chat_template = path.read_text(encoding="utf-8")
            for part in (_shown, _told, _continued, _read_again):
                for name, wrong, remark in part(tokenizer):
                    tried[name] += 1
                    found[name] += not wrong
                    if remark or wrong:
                        print(f"{path.stem}: {name}: {remark or wrong}")
    for name, all_of_them in tried.items():
        print(f"{name:40} {found[name]:3} of {all_of_them}")


# Of each thing that is tried: its name, what is wrong with ours, and a remark; mostly empty.


def _shown(tokenizer):
    """Whether each part of a chat is shown, and how transformers differs."""
    for name, (prompt, words) in CHATS.items():
        ours, theirs = _ours(tokenizer, prompt), _theirs(tokenizer, prompt)
        lost, missing = ([word for word in words if word not in text] for text in (theirs, ours))
        why = f"refused: {theirs[1:60]}" if theirs.startswith("!") else f"without {lost}"
        wrong = f"without {missing}" if missing else ""
        yield name, wrong, "" if ours == theirs else f"transformers {why}; ours {wrong}"


def _told(tokenizer):
    """Whether histories are told in order."""
    for name, messages in HISTORIES.items():
        text = _ours(tokenizer, Prompt(messages=messages, tools=TOOLS))
        wrong = text if text[0] == "!" else "lost or moved"
        yield name, "" if told_in_order(messages, text) else wrong, ""


def _ours(tokenizer, prompt):
    try:
        return render(tokenizer, prompt)
    except Problem as problem:
        return f"!{problem.message}"


def _theirs(tokenizer, prompt):
    messages = []
    for message in prompt.messages:
        one = {"role": message.role, "content": message.content}
        if message.tool_calls:
            one["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.loads(call.arguments)},
                }
                for call in message.tool_calls
            ]
        if message.role == "tool":
            one |= {"tool_call_id": message.tool_call_id, "name": message.name}
        messages.append(one)
    tools = json.loads(prompt.tools) if prompt.tools else None
    try:
        text = tokenizer._tokenizer.apply_chat_template(
            messages, tools=tools, add_generation_prompt=True, tokenize=False
        )
    except Exception as error:  # whatever a template raises
        return f"!{error}"
    return text


def _continued(tokenizer):
    """Whether an answer is continued from its own prompt: cut in the reasoning, in the text, and
    as a client's beginning of it."""
    begun = _ours(tokenizer, Prompt(messages=(ASKED,)))
    if begun.startswith("!"):
        return
    cuts = dict[str, str]()
    syntax = syntax_of(tokenizer.chat_template)
    marks = syntax.reasoning
    if marks is not None and not syntax.reasoning_is_over(begun):
        inside = syntax.begins_inside(begun)
        thought = "Okay, the user" if inside else f"{marks.opening}\nOkay, the user"
        cuts["cut in the reasoning"] = thought
        cuts["cut in the answer"] = f"{thought} asks.\n{marks.closing}\n\nIt is "
    elif syntax.family != "harmony":
        cuts["cut, without reasoning"] = "It is "
    other = "another prompt than that of the answer"
    for name, cut in cuts.items():
        answer = ChatMessage("assistant", "", written=cut)
        text = _ours(tokenizer, Prompt(messages=(ASKED, answer)))
        yield name, "" if text == begun + cut else other, ""
    text = _ours(tokenizer, Prompt(messages=(ASKED, ChatMessage("assistant", "It is "))))
    yield "prefill", "" if text.startswith(begun) and text.endswith("It is ") else other, ""


def _read_again(tokenizer):
    """The replies that the template writes, and what is wrong where they are read otherwise."""
    template, able = tokenizer.chat_template, abilities_for(tokenizer, tools=True)
    known = {"knows_tools": able.knows_tools, "found": able.notation if able.knows_tools else None}
    marks = set(_MARK.findall(template))  # as the server finds it, if all are special tokens
    syntax = syntax_of(template, tokens=marks, special=marks, **known)
    said = {
        "a call, read again": ChatMessage("assistant", "", tool_calls=CALLS[:1]),
        "two calls, read again": ChatMessage("assistant", "", tool_calls=CALLS),
        "reasoning and a call, read again": ChatMessage(
            "assistant", "", reasoning=THOUGHT, tool_calls=CALLS[:1]
        ),
        "reasoning and text, read again": ChatMessage("assistant", "Not there.", reasoning=THOUGHT),
    }
    begun = _ours(tokenizer, Prompt(messages=(ASKED,), tools=TOOLS))
    for name, reply in said.items():
        results = RESULTS[: len(reply.tool_calls)]
        whole = _ours(tokenizer, Prompt(messages=(ASKED, reply, *results), tools=TOOLS))
        if whole.startswith("!") or begun.startswith("!"):
            continue
        begin = next(
            (n for n, (a, b) in enumerate(zip(whole, begun, strict=False)) if a != b), len(begun)
        )
        mark = whole.rfind("<", 0, begin)
        begin = begin if ">" in whole[mark:begin] else max(mark, 0)
        text = whole[begin:]
        ends = [text.find(result.content) for result in results]
        if len(ends) == 2 and ends[0] < text.find("Rome"):
            continue  # the template writes one call a message
        text = text[: ends[0]] if ends else text
        inside = syntax.begins_inside(begun[:begin])
        tools = tools_of(TOOLS)
        found = read(syntax, [text], tools=tools, inside_reasoning=inside)
        wanted = [(call.name, json.loads(call.arguments)) for call in reply.tool_calls]
        wrong = ""
        if read(syntax, text, tools=tools, inside_reasoning=inside) != found:
            wrong = "read otherwise letter by letter"
        elif found.calls != wanted:
            wrong = f"{syntax.family}: calls {found.calls} in {text!r}"
        elif reply.reasoning in text and found.reasoning.strip() != reply.reasoning:
            wrong = f"{syntax.family}: reasoning {found.reasoning!r} in {text!r}"
        elif reply.content and not found.content.lstrip().startswith(reply.content):
            wrong = f"{syntax.family}: content {found.content!r} in {text!r}"
        yield name, wrong, ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
