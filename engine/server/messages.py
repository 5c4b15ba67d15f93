"""The messages of a conversation, as clients of all dialects write them.

Only the newest question is checked: the history may have any form, and gets to the model as well as
possible. Pictures and files are collected unread: `engine.server.pictures` reads them.
"""

import re
from collections.abc import Iterator, Sequence
from mimetypes import guess_extension
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from engine.request import ChatMessage, Picture, Role, ToolCall
from engine.server.bodies import Past, as_text, named
from engine.server.conversation import BETWEEN, Sent, arguments_of, in_document, in_order, note
from engine.server.errors import invalid

MOST_MESSAGES = 1 << 16  # against absurd bodies; the model's context is the real limit
_IMAGES = ("image_url", "input_image", "image", "computer_screenshot")
_FILES = ("file", "input_file", "document", "search_result")
_ODD = "value"  # the type of a value that is not a content
_TEXTS = ("text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text", _ODD)
_APART = ("tool_use", "tool_result", "thinking", "redacted_thinking")
_KIND = re.compile("data:([^;,]*)")
_ROLES: dict[str, Role] = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("assistant", "model", "ai", "bot"), "assistant"),
    **dict.fromkeys(("tool", "function", "ipython"), "tool"),
}


def _parts(value: Any) -> Any:
    """Return a content in one of its forms. A value that is not a content becomes its JSON."""
    if isinstance(value, str) or not value:
        return value or ""
    if isinstance(value, dict) and value.get("type") in _IMAGES + _FILES + _TEXTS + _APART:
        return [value]
    if isinstance(value, list) and any(isinstance(part, str) or _typed(part) for part in value):
        return value
    return [{"type": _ODD, "text": as_text(value)}]


def _typed(part: Any) -> bool:
    return isinstance(part, dict) and any(isinstance(part.get(n), str) for n in ("type", "text"))


def _in_one(value: Any) -> Any:
    """A text that may be sent as a list of parts, as Mistral has a thought."""
    is_list = isinstance(value, list) and all(map(_typed, value))
    return text_of([Part.model_validate(part) for part in value]) if is_list else value


Text = Annotated[str, BeforeValidator(_in_one)]


class Part(Past):
    """A part of a content: a text, an image, a file, a call, its result, or something else.

    What clients put into an object within it, its data, is read as its own; `kind` is the type of
    that object.
    """

    type: str = _ODD
    kind: str = ""
    id: str = named("id", "tool_use_id", default="")
    name: str = named("name", "filename", "title", default="")
    text: Text = named("text", "refusal", "thinking", "summary", "tool_name", default="")
    data: str = named("data", "file_data", "image_url", "url", "file_url", default="")
    media_type: str = ""
    content: "Content" = ""
    input: Any = None
    is_error: bool = False

    @model_validator(mode="before")
    @classmethod
    def _object(cls, value: Any) -> Any:
        if not _typed(value):
            return {"type": "text", "text": as_text(value)}
        within = next((v for name in _WITHIN if isinstance(v := value.get(name), dict)), {})
        own = {name: v for name, v in value.items() if name not in _WITHIN or v != within}
        return {"type": "text", **within, "kind": within.get("type"), **own}

    @property
    def told(self) -> str | None:
        """The text of the part; None if it has no text."""
        if self.type == "search_result" or (self.type == "document" and self.kind == "content"):
            return in_document(self.name, text_of(self.content))
        if self.type == "document" and self.kind == "text":
            return in_document(self.name, self.data)
        return self.text if self.text or self.type in _TEXTS else None

    @property
    def sent(self) -> tuple[str, str]:
        """The data, or the address, of an image or a file, and a file's name; both may be ""."""
        if self.type in _IMAGES:
            return self.data, ""
        if self.type not in _FILES or self.told is not None:
            return "", ""
        name, declared = self.name or "document", _KIND.match(self.data)
        kind = declared[1] if declared else self.media_type
        if kind.startswith("image/"):
            return self.data, ""
        return self.data, name + ("" if PurePath(name).suffix else guess_extension(kind) or "")


_WITHIN = ("source", "file", "image_url")
Content = Annotated[str | list[Part], BeforeValidator(_parts)]
Part.model_rebuild()


class CalledFunction(Past):
    """A call. What a model wrote as its arguments may be anything."""

    name: str = ""
    arguments: Any = named("arguments", "input", "args")


class Called(CalledFunction):
    """A call with its id. Some clients put the name here, too."""

    id: str = ""
    function: CalledFunction | None = named("function", "custom")

    def value(self) -> ToolCall:
        """The engine's call."""
        called = self.function or self
        return ToolCall(self.id, called.name, arguments_of(called.arguments))


class Message(Past):
    """A message. `function_call` is what an older API has for `tool_calls`."""

    role: str = ""
    content: Content = ""
    refusal: str = ""
    reasoning: Text = named("reasoning_content", "reasoning", "thinking", default="")
    reasoning_details: list[Part] = Field(default_factory=list)
    tool_calls: list[Called] = Field(default_factory=list)
    function_call: Called | None = None
    tool_call_id: str = ""
    name: str = named("tool_name", "name", default="")
    images: list[Any] = Field(default_factory=list)

    def told(self, place: str) -> Iterator[ChatMessage]:
        """Yield the engine's messages for this message, which is at `place` in the body: results,
        then the rest. A call always belongs to the assistant."""
        parts = [] if isinstance(self.content, str) else self.content
        for number, part in enumerate(parts):
            if part.type == "tool_result":
                text = "Error: " * part.is_error + text_of(part.content)
                pictures = sent_in(part.content, f"{place}.content[{number}].content")
                yield ChatMessage("tool", text, tool_call_id=part.id, pictures=pictures)
        if parts and all(part.type == "tool_result" for part in parts):
            return
        calls = [*self.tool_calls, *([self.function_call] if self.function_call else [])]
        calls += [
            Called(id=part.id, name=part.name, arguments=part.input)
            for part in parts
            if part.type == "tool_use"
        ]
        role = "assistant" if calls else role_of(self.role)
        thoughts = [self.reasoning, *(part.text for part in parts if part.type == "thinking")]
        if not any(thoughts):
            thoughts = [part.text for part in self.reasoning_details]
        yield ChatMessage(
            role,
            BETWEEN.join(filter(None, (text_of(self.content), self.refusal))),
            reasoning=BETWEEN.join(filter(None, thoughts)),
            tool_calls=tuple(call.value() for call in calls),
            tool_call_id=self.tool_call_id,
            name=self.name if role == "tool" else "",
            pictures=sent_in(self.content, f"{place}.content")
            + images_in(self.images, f"{place}.images"),
        )


Messages = Annotated[list[Message], Field(min_length=1, max_length=MOST_MESSAGES)]


def conversation_of(
    messages: Sequence[Message], *before: ChatMessage, goes_on: bool = True
) -> tuple[ChatMessage, ...]:
    """Return the conversation that is to be answered. Raises Refusal.

    `goes_on`: if the last message is the assistant's, the answer continues it.
    """
    check_newest(messages[-1], f"messages[{len(messages) - 1}]")
    values = [*before]
    for number, message in enumerate(messages):
        values += message.told(f"messages[{number}]")
    if values[-1].role == "assistant" and not goes_on:
        values.append(ChatMessage("user", ""))
    return in_order(values)


def text_of(content: Content) -> str:
    """Return the text of a content, with notes in place of parts that cannot be read."""
    if isinstance(content, str):
        return content
    parts = [part for part in content if part.type not in _APART and not part.sent[0]]
    texts = (note(part.type) if part.told is None else part.told for part in parts)
    return BETWEEN.join(filter(None, texts))


def sent_in(content: Content, place: str) -> tuple[Picture, ...]:
    """Return the images and files of a content, as they were sent; `place`: its field."""
    sent = [("", "") if isinstance(part, str) else part.sent for part in content]
    return tuple(
        Sent(data, place=f"{place}[{number}]", name=name)
        for number, (data, name) in enumerate(sent)
        if data
    )


def images_in(images: Sequence[Any], place: str) -> tuple[Picture, ...]:
    """Return the images of a list that has nothing else; `place`: its field."""
    return tuple(Sent(as_text(image), place=f"{place}[{n}]") for n, image in enumerate(images))


def role_of(role: str) -> Role:
    """Return the role of a message in the history by any of its names; "user" for other names."""
    return _ROLES.get(role.lower(), "user")


def check_newest(newest: Message, place: str) -> None:
    """Raise Refusal if the newest message has a role that no API has, or if it is the user's and
    has parts that cannot be read. `place`: its field."""
    if newest.role.lower() not in _ROLES:
        message = f"{place}.role is {newest.role!r}. Use system, user, assistant or tool."
        raise invalid(message, f"{place}.role")
    if role_of(newest.role) != "user" or isinstance(newest.content, str):
        return
    for number, part in enumerate(newest.content):
        if part.type == _ODD:
            message = f"{place}.content must be a text or a list of parts."
            raise invalid(message, f"{place}.content")
        if part.type not in _APART and part.told is None and not part.sent[0]:
            here = f"{place}.content[{number}]"
            message = (
                f"{here}: {part.type!r} is not supported. Send texts, or images and files as data."
            )
            raise invalid(message, f"{here}.type", "unsupported_content")
