"""From the body of /v1/responses to what the engine is asked. Pure."""

import json
from collections.abc import Iterator, Sequence

from engine.request import ChatMessage, ToolCall
from engine.server.conversation import BETWEEN, in_order
from engine.server.responses.bodies import (
    AdditionalTools,
    AllowedTools,
    CallOutput,
    CustomToolCall,
    FunctionCall,
    Item,
    Message,
    NamedChoice,
    Part,
    Reasoning,
    ResponsesBody,
    TextPart,
)
from engine.server.responses.tools import INPUT, KnownTool, full_name, known_tools


def messages_of(body: ResponsesBody) -> tuple[ChatMessage, ...]:
    """The conversation. One without a message gets an empty one, as clients send it to see whether
    there is a model."""
    messages = [ChatMessage("system", body.instructions)] if body.instructions else []
    if isinstance(body.input, str):
        messages.append(ChatMessage("user", body.input))
    else:
        messages += [message for item in body.input or () for message in _messages(item)]
    if all(message.role == "system" for message in messages):
        messages.append(ChatMessage("user", ""))
    return in_order(messages)


def tools_of(body: ResponsesBody) -> dict[str, KnownTool]:
    """The tools that may be called, by the names that the model sees."""
    items = body.input if isinstance(body.input, list) else []
    added = [tool for item in items if isinstance(item, AdditionalTools) for tool in item.tools]
    known = known_tools([*(body.tools or ()), *added])
    if not isinstance(body.tool_choice, AllowedTools):
        return known
    allowed = {tool.name for tool in body.tool_choice.tools}
    return {name: tool for name, tool in known.items() if tool.name in allowed}


def choice_of(body: ResponsesBody) -> str:
    """"none", "auto", "required", or..."""


def _messages(item: Item) -> Iterator[ChatMessage]:
    match item:
        case Message():
            role = "system" if item.role == "developer" else item.role
            yield ChatMessage(role, _text(item.content))
        case FunctionCall():
            name = full_name(item.name, item.namespace)
            yield _call(ToolCall(item.call_id, name, item.arguments))
        case CustomToolCall():
            name = full_name(item.name, item.namespace)
            arguments = json.dumps({INPUT: item.input}, ensure_ascii=False)
            yield _call(ToolCall(item.call_id, name, arguments))
        case CallOutput():
            yield ChatMessage("tool", _text(item.output), tool_call_id=item.call_id)
        case Reasoning():
            text = _text(item.content or item.summary or [])
            yield ChatMessage("assistant", "", reasoning=text)


def _call(call: ToolCall) -> ChatMessage:
    return ChatMessage("assistant", "", tool_calls=(call,))


def _text(content: str | Sequence[Part]) -> str:
    if isinstance(content, str):
        return content
    texts = (part.text if isinstance(part, TextPart) else part.refusal for part in content)
    return BETWEEN.join(texts)
