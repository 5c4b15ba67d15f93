"""Makes a client's conversation one that can be rendered. Knows no dialect.

What was said is past, and is not judged: parts that the model cannot read become short notes, and a
call's arguments that are no object stand in one. Only the newest request is refused. Pictures are
collected as they were sent: `engine.server.pictures` reads them. What a chat template asks of a
conversation, such as turns, the engine knows (`engine.conversation.template_messages`).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from engine.request import ChatMessage, Picture, ToolCall
from engine.server.bodies import Body
from engine.server.errors import invalid

BETWEEN = "\n\n"  # separates two texts of one message
_IMAGES = ("image_url", "input_image", "image")
_TEXTS = ("text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text")


class ImageUrl(Body):
    """An image in OpenAI's form: a data URL. `detail` is the same for all."""

    url: str
    detail: str | None = None


class Source(Body):
    """An image in Anthropic's form: base64 alone."""

    type: str = ""
    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class Part(Body):
    """A part of a message's content: a text, an image, or something else."""

    type: Annotated[str, Field(min_length=1, max_length=64)]
    text: str = ""
    refusal: str = ""
    image_url: ImageUrl | str | None = None
    source: Source | str | None = None

    @property
    def is_text(self) -> bool:
        return self.type in _TEXTS

    @property
    def image(self) -> str:
        """The data or the address of an image; "" if it is none."""
        if self.type not in _IMAGES:
            return ""
        if isinstance(self.image_url, ImageUrl):
            return self.image_url.url
        source = self.source if isinstance(self.source, Source) else Source()
        return self.image_url or source.data or source.url or ""


Content = str | list[Part]


@dataclass(frozen=True, slots=True)
class Sent(Picture):
    """A picture that is not read yet: in place of its path is the data or the address that the
    client sent. `place`: the field of the body that has it."""

    digest: str = ""
    width: int = 0
    height: int = 0
    place: str = ""

    def __post_init__(self) -> None:
        """It has neither a digest nor a size to check."""


def text_of(content: Content) -> str:
    """The text of a content, with notes in place of parts that are neither text nor image."""
    if isinstance(content, str):
        return content
    parts = (part for part in content if not part.image)
    texts = ((part.text or part.refusal) if part.is_text else note(part.type) for part in parts)
    return BETWEEN.join(filter(None, texts))


def pictures_of(content: object, place: str) -> tuple[Picture, ...]:
    """The images of a content at this place of the body, as they were sent."""
    parts = enumerate(content if isinstance(content, list) else ())
    return tuple(
        Sent(part.image, place=f"{place}[{number}]")
        for number, part in parts
        if isinstance(part, Part) and part.image
    )


def note(kind: str) -> str:
    """A note in place of what this model cannot read, such as "input_audio"."""
    return f"[{kind}: not shown, as this model cannot read it]"


def check_newest(content: object, place: str) -> None:
    """Raise Refusal if the newest question, at this place of the body, has parts that are neither
    text nor image."""
    for number, part in enumerate(content if isinstance(content, list) else ()):
        if isinstance(part, Part) and not part.is_text and not part.image:
            message = f"{place}[{number}] is {part.type!r}: send texts, or images as their data."
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
        pictures=first.pictures + second.pictures,
    )
