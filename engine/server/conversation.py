"""Makes a client's conversation fit for chat templates. Knows no dialect.

The history is never refused: a call's arguments that are not an object are put into one. Rules of a
chat template, such as turns, belong to the engine (`engine.conversation.template_messages`).
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from engine.request import ChatMessage, Picture
from engine.server.bodies import has_halves, loads

BETWEEN = "\n\n"  # separates two texts of one message


@dataclass(frozen=True, slots=True)
class Sent(Picture):
    """A picture that is not read yet, or, with a `name`, a document. `path` is the data or the
    address that the client sent; `place`: the field of the body that has it."""

    digest: str = ""
    width: int = 0
    height: int = 0
    place: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        """It has neither a digest nor a size to check."""


def in_document(name: str, text: str) -> str:
    """Return the text of a document, as a part of a message."""
    return f"[Document: {name or 'document'}]\n{text}\n[End of document]"


def note(kind: str) -> str:
    """Return a note in place of a part that this model cannot read, such as "input_audio"."""
    return f"[{kind}: not shown, as this model cannot read it]"


def in_order(messages: Iterable[ChatMessage]) -> tuple[ChatMessage, ...]:
    """Return the conversation with system messages first, and the parts of a reply joined.

    A later system message is added to the user's or tool's message before it, or else becomes a
    user message: at the beginning it would change the whole prompt, and void its cache.
    """
    ordered: list[ChatMessage] = []
    for message in messages:
        before = ordered[-1] if ordered else None
        if before is not None and _belongs(message, before):
            ordered[-1] = _joined(before, message)
        elif message.role == "system" and before is not None and before.role != "system":
            ordered.append(replace(message, role="user"))
        else:
            ordered.append(message)
    return tuple(ordered)


def arguments_of(value: Any) -> str:
    """Return the JSON text of a call's arguments, which clients send as an object or as its text.

    Any other value is put into an object: {"arguments": ...}.
    """
    read = value
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            read = loads(value or "{}")
        if isinstance(read, dict) and not has_halves(value):
            return value or "{}"
    if read is None:
        return "{}"
    return json.dumps(read if isinstance(read, dict) else {"arguments": value}, ensure_ascii=False)


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
        pictures=first.pictures + second.pictures,
    )
