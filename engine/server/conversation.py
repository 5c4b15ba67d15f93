"""Makes a client's conversation one that can be rendered. Knows no dialect.

What was said is past, and is not judged: parts that the model cannot read become short notes, and a
call's arguments that are no object stand in one. Only the newest request is refused. What a chat
template asks of a conversation, such as turns, the engine knows
(`engine.conversation.template_messages`).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from engine.request import ChatMessage, ToolCall
from engine.server.bodies import Body
from engine.server.errors import invalid

BETWEEN = "\n\n"  # separates two texts of one message
_TEXTS = ("text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text")


class Part(Body):
    """A part of a message's content: a text, or what is not text, such as an image."""

    type: Annotated[str, Field(min_length=1, max_length=64)]
    text: str = ""
    refusal: str = ""

    @property
    def is_text(self) -> bool:
        return self.type in _TEXTS


Content = str | list[Part]


def text_of(content: Content) -> str:
    """The text of a content, with notes in place of parts that are no text."""
    if isinstance(content, str):
        return content
    texts = ((part.text or part.refusal) if part.is_text else note(part.type) for part in content)
    return BETWEEN.join(filter(None, texts))


def note(kind: str) -> str:
    """A note in place of what is no text, such as "image_url"."""
    return f"[{kind}: not shown, as this model reads text only]"


def check_newest(content: object, place: str) -> None:
    """Raise Refusal if the newest question, at this place of the body, has parts that are no
    text."""
    for number, part in enumerate(content if isinstance(content, list) else ()):
        if isinstance(part, Part) and not part.is_text:
            message = f"This model reads text only, and {place}[{number}] is {part.type!r}."
            raise invalid(message, f"{place}[{number}].type", "unsupported_content")


def in_order(messages: Iterable[ChatMessage]) -> tuple[ChatMessage, ...]:
    """The same conversation with its system messages in front, and the parts of a reply together.

    A later system message is added to the user's or tool's message before it, or else becomes a
    user message: in front it would change the whole prompt, which would then have to be read again.
    Each call has an id, and its result the same one and its tool's name.
    """
    ordered: list[ChatMessage] = []
    for message in _numbered(messages):
        before = ordered[-1] if ordered else None
        if before is not None and _belongs(message, before):
            ordered[-1] = _joined(before, message)
        elif message.role == "system" and before is not None and before.role != "system":
            ordered.append(replace(message, role="user"))
        else:
            ordered.append(message)
    return tuple(ordered)


def arguments_of(value: Any) -> str:
    """The JSON text of a call's arguments, which clients send as an object or as its text.

    What is neither stands in an object: a model may have written anything.
    """
    value = "{}" if value is None else value
    read = value
    if isinstance(value, str):
        try:
            read = json.loads(value or "{}")
        except (ValueError, RecursionError):
            read = None
        if isinstance(read, dict):
            return value or "{}"
    return json.dumps(read if isinstance(read, dict) else {"arguments": value}, ensure_ascii=False)


def _numbered(messages: Iterable[ChatMessage]) -> Iterator[ChatMessage]:
    """The messages, with ids where calls and results have none: by the tool's name, or in order."""
    names: dict[str, str] = {}
    waiting: list[ToolCall] = []  # calls without a result
    for message in messages:
        if message.tool_calls:
            calls = [
                replace(call, id=call.id or f"call_{len(names) + number}")
                for number, call in enumerate(message.tool_calls)
            ]
            names |= {call.id: call.name for call in calls}
            waiting += calls
            message = replace(message, tool_calls=tuple(calls))
        elif message.role == "tool":
            call = _answered(message, waiting)
            waiting = [one for one in waiting if one != call]
            id = message.tool_call_id or (call.id if call else "")
            message = replace(message, tool_call_id=id, name=message.name or names.get(id, ""))
        yield message


def _answered(result: ChatMessage, waiting: Sequence[ToolCall]) -> ToolCall | None:
    """The call that a result answers."""
    if result.tool_call_id:
        return next((call for call in waiting if call.id == result.tool_call_id), None)
    named = [call for call in waiting if call.name == result.name]
    return next(iter(named or waiting), None)


def _belongs(message: ChatMessage, before: ChatMessage) -> bool:
    if message.role == "system":
        return before.role in ("user", "tool")
    return message.role == before.role == "assistant"


def _joined(first: ChatMessage, second: ChatMessage) -> ChatMessage:
    return replace(
        first,
        content=BETWEEN.join(text for text in (first.content, second.content) if text),
        reasoning=BETWEEN.join(text for text in (first.reasoning, second.reasoning) if text),
        tool_calls=first.tool_calls + second.tool_calls,
    )
