"""Puts a chat into messages that a template can say.

What a template cannot say is said in text, in the notation of the model's family: nothing vanishes.
Names of special tokens in a chat's texts are marked before (`engine.conversation.template`); marks
that are added here are tokens.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from engine.conversation.template_abilities import TemplateAbilities
from engine.replies.families import Family
from engine.replies.writing import write_call
from engine.request import ChatMessage, ToolCall
from models.errors import Problem

BETWEEN = "\n\n"  # separates two texts of one message
_TOOLS = """You can call tools. They are listed here, each with a schema of its arguments:
<tools>
{tools}
</tools>
To call one, write nothing but this, with its name and its arguments:
{call}
Its result follows as <tool_response>."""
_MISTRAL_ID = re.compile(r"[A-Za-z0-9]{9}")


def sayable(
    messages: Sequence[ChatMessage],
    tools: Sequence[Any],
    abilities: TemplateAbilities,
    family: Family,
) -> tuple[list[ChatMessage], list[Any]]:
    """The messages and the tools that the template is given, so that it says all of them.

    Where it does not know the whole of tools, calls and results, and the family is not known, all
    three are written as Hermes' models read them.
    """
    if family == "none" and not abilities.knows_tools:
        family = "hermes"
        abilities = replace(abilities, tools=False, calls=False, results=False)
    system = [message.content for message in messages if message.role == "system"]
    said = [message for message in messages if message.role != "system"]
    if not abilities.calls or not abilities.results:
        said = _in_text(said, abilities, family)
    if tools and not abilities.tools:
        listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        example = write_call(family, "name", {"argument": "value"})
        system.insert(0, _TOOLS.format(tools=listed, call=example))
        tools = ()
    if system:
        said.insert(0, ChatMessage("system", BETWEEN.join(filter(None, system))))
        if not abilities.system:
            said = _system_in_question(said)
    if not abilities.same_role:
        said = _in_turns(said)
    if not abilities.several_calls:
        said = one_call_each(said)
    if not abilities.text_beside_calls:
        said = [part for message in said for part in _text_apart(message)]
    return said, list(tools)


def as_json(
    messages: Iterable[ChatMessage], abilities: TemplateAbilities, *, mistral: bool
) -> list[dict[str, Any]]:
    """The messages as a template reads them. `mistral`: with ids of calls that Mistral's accept."""
    messages = list(messages)
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    found: list[dict[str, Any]] = []
    for message in messages:
        content: Any = message.content
        if message.pictures:
            text = [{"type": "text", "text": content}] if content else []
            content = [*({"type": "image"} for _ in message.pictures), *text]
        one: dict[str, Any] = {"role": message.role, "content": content}
        if message.reasoning:  # by the names that Qwen's templates, and OpenAI's and LFM2's know
            one |= {"reasoning_content": message.reasoning, "thinking": message.reasoning}
        if message.tool_calls:
            if not message.content and not abilities.empty_beside_calls:
                one["content"] = None
            one["tool_calls"] = [
                {
                    "id": _call_id(call.id, mistral=mistral),
                    "type": "function",
                    "function": {
                        "name": call.name,
                        "arguments": call.arguments
                        if abilities.arguments == "text"
                        else arguments_of(call),
                    },
                }
                for call in message.tool_calls
            ]
        if message.role == "tool":
            one["tool_call_id"] = _call_id(message.tool_call_id, mistral=mistral)
            one["name"] = message.name or names.get(message.tool_call_id, "")
        found.append(one)
    return found


def one_call_each(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The messages with each call in a message of its own, and its result right behind it."""
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    found: list[ChatMessage] = []
    for message in messages:
        if message.role == "tool" and message in found:
            continue
        if not message.tool_calls:
            found.append(message)
            continue
        content, reasoning = message.content, "" if message.content else message.reasoning
        for call in message.tool_calls:
            alone = replace(message, content=content, reasoning=reasoning, tool_calls=(call,))
            found.append(alone)
            if len(message.tool_calls) > 1 and call.id in results:
                found.append(results[call.id])
            content = reasoning = ""
    return found


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call as an object. Raises `Problem`."""
    return read_json(call.arguments, dict, f"arguments of {call.name}") or {}


def read_json[T](text: str, kind: type[T], what: str) -> T | None:
    """Parse a JSON text into a `kind`; None for an empty text. Raises `Problem`."""
    if not text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Problem(f"The {what} are not JSON: {error}.", "Send valid JSON.") from None
    if not isinstance(value, kind):
        form = "object" if kind is dict else "list"
        raise Problem(f"The {what} are no JSON {form}.", f"Send a JSON {form}.")
    return value


def _in_text(
    messages: Sequence[ChatMessage], abilities: TemplateAbilities, family: Family
) -> list[ChatMessage]:
    """The messages with those calls and results in text that the template does not show. Results
    and the user's message behind them are one message."""
    found: list[ChatMessage] = []
    behind_result = False
    for message in messages:
        written = message
        if message.role == "tool" and not abilities.results:
            text = f"<tool_response>\n{message.content}\n</tool_response>"
            written = ChatMessage("user", text)
        elif message.tool_calls and not abilities.calls:
            calls = (
                write_call(family, call.name, arguments_of(call)) for call in message.tool_calls
            )
            text = "\n".join(filter(None, (message.content, *calls)))
            written = replace(message, content=text, tool_calls=())
        if behind_result and written.role == "user":
            written = replace(written, content=f"{found.pop().content}\n{written.content}")
        found.append(written)
        behind_result = written.role == "user" and message.role == "tool"
    return found


def _system_in_question(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The system text, which is the first message, in front of the user's first text."""
    system, *said = messages
    for place, message in enumerate(said):
        if message.role == "user":
            said[place] = _joined(system, message)
            return said
    return [replace(system, role="user"), *said]


def _in_turns(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The messages with neighbours of the user's joined, and those of the assistant's."""
    found: list[ChatMessage] = []
    for message in messages:
        before = found[-1] if found else None
        if before is not None and before.role == message.role and message.role != "tool":
            found[-1] = _joined(before, message)
        else:
            found.append(message)
    return found


def _joined(first: ChatMessage, second: ChatMessage) -> ChatMessage:
    return replace(
        second,
        content=BETWEEN.join(filter(None, (first.content, second.content))),
        reasoning=BETWEEN.join(filter(None, (first.reasoning, second.reasoning))),
        tool_calls=first.tool_calls + second.tool_calls,
        pictures=first.pictures + second.pictures,
    )


def _text_apart(message: ChatMessage) -> list[ChatMessage]:
    """A message with text and calls as one with the text and one with the calls."""
    if not message.tool_calls or not message.content:
        return [message]
    return [replace(message, tool_calls=(), reasoning=""), replace(message, content="")]


def _call_id(id: str, *, mistral: bool) -> str:
    """The id in a form that the template accepts: Mistral's want nine letters and digits."""
    if not mistral or _MISTRAL_ID.fullmatch(id):
        return id
    return hashlib.sha256(id.encode()).hexdigest()[:9]
