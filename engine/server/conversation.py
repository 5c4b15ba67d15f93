"""Puts a client's instructions where chat templates expect them: in front of a conversation.

Clients send some in between, too. What else a template asks of a conversation, such as turns, the
engine knows (`engine.conversation.template_messages`).
"""

from collections.abc import Iterable
from dataclasses import replace

from engine.request import ChatMessage

BETWEEN = "\n\n"  # separates two texts of one message


def in_order(messages: Iterable[ChatMessage]) -> tuple[ChatMessage, ...]:
    """The same conversation with its system messages in front, and the parts of a reply together.

    A later system message is added to the user's or tool's message before it, or else becomes a
    user message: in front it would change the whole prompt, which would then have to be read again.
    The result of a call gets its tool's name.
    """
    ordered: list[ChatMessage] = []
    names: dict[str, str] = {}
    for message in messages:
        names |= {call.id: call.name for call in message.tool_calls}
        before = ordered[-1] if ordered else None
        if message.role == "tool":
            name = message.name or names.get(message.tool_call_id, "")
            ordered.append(replace(message, name=name))
        elif before is not None and _belongs(message, before):
            ordered[-1] = _joined(before, message)
        elif message.role == "system" and before is not None and before.role != "system":
            ordered.append(replace(message, role="user"))
        else:
            ordered.append(message)
    return tuple(ordered)


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
