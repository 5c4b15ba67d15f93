"""Messages as clients send them, put into the order that chat templates expect.

Templates want at most one system message, in front, and user and assistant in turns; many raise on
anything else. Clients send several of each, and instructions in between.
"""

from collections.abc import Iterable
from dataclasses import replace

from engine.request import ChatMessage

BETWEEN = "\n\n"  # two texts of one message


def in_order(messages: Iterable[ChatMessage]) -> tuple[ChatMessage, ...]:
    """The same conversation, for a template.

    Messages of one role that follow each other become one. A system message further down becomes
    part of the message before it, or else one of the user's: in front it would change the whole
    prompt, which then had to be read again. The result of a call gets the name of its tool.
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
