"""Puts a client's messages into the order that chat templates expect.

Templates want at most one system message, in front, and user and assistant in turns; many refuse
anything else. Clients send several of each, and instructions in between.
"""

from collections.abc import Iterable
from dataclasses import replace

from engine.request import ChatMessage

BETWEEN = "\n\n"  # separates two texts of one message


def in_order(messages: Iterable[ChatMessage]) -> tuple[ChatMessage, ...]:
    """The same conversation in a template's order.

    Neighbouring messages of one role are joined. A later system message is added to the user's or
    tool's message before it, or else becomes a user message: in front it would change the whole
    prompt, which would then have to be read again. The result of a call gets its tool's name.
    """
    ordered: list[ChatMessage] = []
    names: dict[str, str] = {}
    for message in messages:
        names |= {call.id: call.name for call in message.tool_calls}
        before = ordered[-1] if ordered else None
        if message.role == "tool":
            name = message.name or names.get(message.tool_call_id, "")
            ordered.append(replace(message, name=name))
        elif before is None:
            ordered.append(message)
        elif message.role == before.role or (message.role == "system" and _can_take(before)):
            ordered[-1] = _joined(before, message)
        elif message.role == "system":
            ordered.append(replace(message, role="user"))
        else:
            ordered.append(message)
    return tuple(ordered)


def _can_take(message: ChatMessage) -> bool:
    return message.role in ("user", "tool")


def _joined(first: ChatMessage, second: ChatMessage) -> ChatMessage:
    return replace(
        first,
        content=BETWEEN.join(text for text in (first.content, second.content) if text),
        reasoning=BETWEEN.join(text for text in (first.reasoning, second.reasoning) if text),
        tool_calls=first.tool_calls + second.tool_calls,
    )
