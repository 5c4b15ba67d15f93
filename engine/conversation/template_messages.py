"""Puts a chat into messages that a template can say.

Parts that a template cannot say become text, in the notation of the model's family: nothing
vanishes.
Names of special tokens in a chat's texts are marked before (`engine.conversation.template`); marks
that are added here are tokens.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from engine.conversation.template_abilities import TemplateAbilities
from engine.replies.families import CallRow, Family
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
    notation: Family | CallRow,
) -> tuple[list[ChatMessage], list[Any]]:
    """The messages and the tools that the template is given, so that it says all of them.

    Where it does not know the whole of tools, calls and results, and the family is not known, all
    three are written as Hermes' models read them.
    """
    if notation == "none" and not abilities.knows_tools:
        notation = "hermes"
        abilities = replace(abilities, tools=False, calls=False, results=False)
    if not tools and not abilities.calls_without_tools:
        abilities = replace(abilities, calls=False, results=False)
    system = [message.content for message in messages if message.role == "system"]
    said = [message for message in messages if message.role != "system"]
    if tools and not abilities.tools:
        listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        example = write_call(notation, "name", {"argument": "value"})
        system.insert(0, _TOOLS.format(tools=listed, call=example))
        tools = ()
    anyone_first = abilities.assistant_first and (abilities.system or not system)
    if not anyone_first and (not said or said[0].role != "user"):
        said.insert(0, ChatMessage("user", ""))
    if not abilities.empty_answers:
        said = [
            message
            for message in said
            if message.role != "assistant" or message.content or message.tool_calls
        ]
    said = _steps(_rounds(said, abilities), abilities, notation)
    if system:
        first = ChatMessage("system", BETWEEN.join(filter(None, system)))
        said = [first, *said] if abilities.system else [_joined(first, said[0]), *said[1:]]
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
        fields: dict[str, Any] = {"role": message.role, "content": content}
        if message.reasoning:  # by the names that Qwen's templates, and OpenAI's and LFM2's know
            fields |= {"reasoning_content": message.reasoning, "thinking": message.reasoning}
        if message.tool_calls:
            if not message.content and not abilities.empty_beside_calls:
                fields["content"] = None
            fields["tool_calls"] = [
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
            fields["tool_call_id"] = _call_id(message.tool_call_id, mistral=mistral)
            fields["name"] = message.name or names.get(message.tool_call_id, "")
        found.append(fields)
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
        raise Problem(f"The {what} are not a JSON {form}.", f"Send a JSON {form}.")
    return value


def _rounds(
    messages: Iterable[ChatMessage], abilities: TemplateAbilities
) -> list[tuple[ChatMessage, list[ChatMessage]]]:
    """Each message with the results of its calls, in the order of the calls. Neighbours are one
    message where the template does not take them.

    A result belongs to the nearest call before it that has its id and no result yet; where one of
    the two has no id, that has its name. A result without a call is the user's text. Each call of
    the chat gets an id of its own, in the form of the template.
    """
    found: list[ChatMessage] = []
    results: dict[str, ChatMessage] = {}
    waiting: list[tuple[ToolCall, ToolCall]] = []  # as it was sent, with its own id; the last first
    ids, number = set[str](), count()
    for message in messages:
        if message.role == "tool":
            id, name = message.tool_call_id, message.name
            same = [pair for pair in waiting if pair[0].id == id != ""]
            named = [
                pair for pair in waiting if not (pair[0].id and id) and name in ("", pair[0].name)
            ]
            if pair := next(iter(same or named), None):
                waiting.remove(pair)
                own = pair[1]
                results[own.id] = replace(message, tool_call_id=own.id, name=own.name)
                continue
            message = _result_in_text(message)
        calls: list[ToolCall] = []
        for sent, place in zip(message.tool_calls, number, strict=False):
            id = sent.id if sent.id and sent.id not in ids else f"{sent.id or 'call'}-{place}"
            id = f"functions.{sent.name}:{place}" if abilities.names_in_ids else id
            ids.add(id)
            calls.append(replace(sent, id=id))
        waiting = [*zip(message.tool_calls, calls, strict=True), *waiting]
        message = replace(message, tool_calls=tuple(calls))
        if not abilities.same_role and found and _are_neighbours(found[-1], message):
            message = _joined(found.pop(), message)
        found.append(message)
    return [
        (message, [results[call.id] for call in message.tool_calls if call.id in results])
        for message in found
    ]


def _steps(
    rounds: Sequence[tuple[ChatMessage, list[ChatMessage]]],
    abilities: TemplateAbilities,
    notation: Family | CallRow,
) -> list[ChatMessage]:
    """The messages in the form that the template takes, with those calls and results in text that
    it does not show. Results and the user's message after them are one message."""
    found: list[ChatMessage] = []
    number, follows_result = 0, False
    beside = abilities.text_beside_calls or abilities.text_before_calls
    for place, (message, results) in enumerate(rounds):
        calls = message.tool_calls
        after = rounds[place + 1][0].role if place + 1 < len(rounds) else ""
        shown = (
            (not calls or not message.content or beside)
            and (abilities.lone_calls or len(results) == len(calls))
            and (abilities.user_after_results or not results or after != "user")
        )
        if not shown or not abilities.calls:
            message = calls_in_text(message, notation, number)
        number += len(calls)
        in_text = not shown or not abilities.results
        answers = [_result_in_text(result) for result in results] if in_text else results
        for step in _one_step(message, answers, abilities):
            is_result = step in answers
            between = "\n" if follows_result else "" if abilities.same_role else BETWEEN
            if between and found and _are_neighbours(found[-1], step) and not step.tool_calls:
                step = _joined(found.pop(), step, between=between)
            found.append(step)
            follows_result = is_result
    return found


def _one_step(
    message: ChatMessage, results: Sequence[ChatMessage], abilities: TemplateAbilities
) -> list[ChatMessage]:
    """A message and its results; where the template wants it so, its text in a message of its own,
    and each call with its result."""
    if not message.tool_calls:
        return [message, *results]
    found: list[ChatMessage] = []
    if message.content and not abilities.text_beside_calls:
        found.append(replace(message, tool_calls=(), reasoning=""))
        message = replace(message, content="")
    if abilities.several_calls:
        return [*found, message, *results]
    reasoning = "" if message.content else message.reasoning
    for call in message.tool_calls:
        found.append(replace(message, reasoning=reasoning, tool_calls=(call,)))
        found += [result for result in results if result.tool_call_id == call.id]
        message, reasoning = replace(message, content=""), ""
    return found


def _are_neighbours(first: ChatMessage, second: ChatMessage) -> bool:
    return first.role == second.role != "tool" and not first.tool_calls


def calls_in_text(message: ChatMessage, notation: Family | CallRow, number: int) -> ChatMessage:
    """The message with its calls, which are numbered from `number` on, at the end of its text."""
    calls = (
        write_call(notation, call.name, arguments_of(call), place)
        for place, call in enumerate(message.tool_calls, number)
    )
    text = "\n".join(filter(None, (message.content, *calls)))
    return replace(message, content=text, tool_calls=())


def _result_in_text(result: ChatMessage) -> ChatMessage:
    text = f"<tool_response>\n{result.content}\n</tool_response>"
    return replace(result, role="user", content=text)


def _joined(first: ChatMessage, second: ChatMessage, *, between: str = BETWEEN) -> ChatMessage:
    return replace(
        second,
        content=between.join(filter(None, (first.content, second.content))),
        reasoning=BETWEEN.join(filter(None, (first.reasoning, second.reasoning))),
        tool_calls=first.tool_calls + second.tool_calls,
        pictures=first.pictures + second.pictures,
    )


def _call_id(id: str, *, mistral: bool) -> str:
    """The id in a form that the template accepts: Mistral's want nine letters and digits."""
    if not mistral or _MISTRAL_ID.fullmatch(id):
        return id
    return hashlib.sha256(id.encode()).hexdigest()[:9]
