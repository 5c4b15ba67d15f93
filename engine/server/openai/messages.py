"""The messages of a chat, in OpenAI's form."""

import json
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from engine.request import ChatMessage, ToolCall
from engine.server.bodies import Body

_ROLES: dict[str, Any] = {"developer": "system", "function": "tool"}


class TextPart(Body):
    """A part of a content. Parts that are no text are refused."""

    type: Literal["text", "refusal", "input_text", "output_text"]
    text: str = ""
    refusal: str = ""


Content = str | list[TextPart]


class CalledFunction(Body):
    name: str
    arguments: str = "{}"

    @field_validator("arguments", mode="after")
    @classmethod
    def _an_object(cls, arguments: str) -> str:
        if not arguments.strip():
            return "{}"
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            raise ValueError("The arguments of a call are not JSON") from None
        if not isinstance(value, dict):
            raise ValueError("The arguments of a call are not a JSON object")
        return arguments


class Called(Body):
    id: str = ""
    type: Literal["function"] = "function"
    function: CalledFunction


class Message(Body):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content = ""
    reasoning_content: str = ""
    reasoning: str = ""
    tool_calls: list[Called] = Field(default_factory=list)
    tool_call_id: str = ""
    name: str = ""

    def value(self) -> ChatMessage:
        """The engine's message."""
        return ChatMessage(
            _ROLES.get(self.role, self.role),
            text_of(self.content),
            reasoning=self.reasoning_content or self.reasoning,
            tool_calls=tuple(
                ToolCall(call.id, call.function.name, call.function.arguments)
                for call in self.tool_calls
            ),
            tool_call_id=self.tool_call_id,
            name=self.name if _ROLES.get(self.role, self.role) == "tool" else "",
        )


Messages = Annotated[list[Message], Field(min_length=1, max_length=4096)]


def text_of(content: Content) -> str:
    """The text of a content, its parts joined."""
    if isinstance(content, str):
        return content
    return "".join(part.text or part.refusal for part in content)
