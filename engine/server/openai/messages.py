"""The messages of a chat, in OpenAI's form."""

from typing import Annotated, Any, Literal

from pydantic import Field

from engine.request import ChatMessage, ToolCall
from engine.server.bodies import Body
from engine.server.conversation import (
    Content,
    arguments_of,
    check_newest,
    in_order,
    pictures_of,
    text_of,
)

_ROLES: dict[str, Any] = {"developer": "system", "function": "tool"}


class CalledFunction(Body):
    """A call. What a model wrote as its arguments may be anything."""

    name: str
    arguments: str | dict[str, Any] = ""

    def value(self, id: str) -> ToolCall:
        """The engine's call."""
        return ToolCall(id, self.name, arguments_of(self.arguments))


class CalledCustom(Body):
    name: str
    input: str = ""


class Called(Body):
    id: str = ""
    type: str = "function"
    function: CalledFunction | None = None
    custom: CalledCustom | None = None

    def value(self) -> ToolCall | None:
        """The engine's call; None for one of another type."""
        if self.custom is not None:
            return ToolCall(self.id, self.custom.name, arguments_of(self.custom.input))
        return None if self.function is None else self.function.value(self.id)


class Message(Body):
    """A message. `function_call` is what an older API has for `tool_calls`."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content = ""
    reasoning_content: str = ""
    reasoning: str = ""
    tool_calls: list[Called] = Field(default_factory=list)
    function_call: CalledFunction | None = None
    tool_call_id: str = ""
    name: str = ""

    def value(self, place: str) -> ChatMessage:
        """The engine's message, which stands at this place of the body."""
        calls = [call.value() for call in self.tool_calls]
        if self.function_call is not None:
            calls.append(self.function_call.value(""))
        return ChatMessage(
            _ROLES.get(self.role, self.role),
            text_of(self.content),
            reasoning=self.reasoning_content or self.reasoning,
            tool_calls=tuple(call for call in calls if call is not None),
            tool_call_id=self.tool_call_id,
            name=self.name if _ROLES.get(self.role, self.role) == "tool" else "",
            pictures=pictures_of(self.content, f"{place}.content"),
        )


Messages = Annotated[list[Message], Field(min_length=1, max_length=4096)]


def conversation_of(messages: list[Message], *, goes_on: bool) -> tuple[ChatMessage, ...]:
    """The conversation that is answered. Raises Refusal.

    `goes_on`: where the assistant's message is the last, the answer continues it.
    """
    last = messages[-1]
    if last.role == "user":
        check_newest(last.content, f"messages[{len(messages) - 1}].content")
    values = [message.value(f"messages[{number}]") for number, message in enumerate(messages)]
    if values[-1].role == "assistant" and not goes_on:
        values.append(ChatMessage("user", ""))
    return in_order(values)
