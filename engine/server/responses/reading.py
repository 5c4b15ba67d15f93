"""Turns the body of /v1/responses into an `Ask`. Pure."""

from collections.abc import Iterator
from typing import Any

from engine.process.protocol import Loaded
from engine.request import ChatMessage, Grammar, Prompt, Request, ToolCall
from engine.server.answers import Ask
from engine.server.choosing import check_choice, tools_json
from engine.server.conversation import arguments_of, in_order, note
from engine.server.errors import invalid
from engine.server.fields import sampling_in
from engine.server.forms import OBJECT, form_in, schema_form
from engine.server.messages import check_newest, sent_in, text_of
from engine.server.responses.bodies import (
    OWN_TOOLS,
    AdditionalTools,
    AllowedTools,
    Item,
    NamedChoice,
    ObjectFormat,
    ResponsesBody,
    SchemaFormat,
    TextConfig,
)
from engine.server.responses.tools import INPUT, KnownTool, full_name, known_tools

ASKED: dict[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "service_tier": "default",
    "store": False,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
}
"""The fields of the request that a response repeats, with their defaults."""
_ROLES = ("user", "assistant", "system", "developer")
_NEVER = ("service_tier", "store")  # not repeated: always the default


def ask_of(body: ResponsesBody, loaded: Loaded) -> Ask:
    """Make an `Ask` from the body. Raises Refusal."""
    tools = tools_of(body)
    check_choice(choice_of(body), [*tools])
    logprobs = "message.output_text.logprobs" in (body.include or ())
    request = Request(
        sampling=sampling_in(body, loaded),
        max_tokens=min(body.max_output_tokens or loaded.context_length, loaded.context_length),
        overflow="rolling" if body.truncation == "auto" else "stop",
        thinking=body.wish,
        thinking_budget=body.budget,
        stops=tuple(body.stop),
        grammar=form_in(body, _grammar(body.text)),
        logprobs=(body.top_logprobs or 0) if logprobs or body.top_logprobs else None,
    )
    prompt = Prompt(
        messages=messages_of(body),
        tools=tools_json([tool.function for tool in tools.values()]),
        options=body.variables,
    )
    parallel = body.parallel_tool_calls is not False
    return Ask(
        prompt=prompt,
        request=request,
        choice=choice_of(body),
        parallel=parallel,
        hidden=body.hidden,
        patterns={name: tool.pattern for name, tool in tools.items() if tool.pattern},
    )


def echoed(body: dict[str, Any]) -> dict[str, Any]:
    """The fields of a body that the response repeats; only tools that can be called here."""
    given = {name: body.get(name) for name in ASKED if name not in _NEVER}
    repeated = ASKED | {name: value for name, value in given.items() if value is not None}
    tools = [tool for tool in repeated["tools"] if tool.get("type") in OWN_TOOLS]
    return repeated | {"tools": tools}


def messages_of(body: ResponsesBody) -> tuple[ChatMessage, ...]:
    """The conversation of a body. If it has no message, an empty one is added: clients send such
    bodies to see whether there is a model."""
    messages = [ChatMessage("system", body.instructions)] if body.instructions else []
    if isinstance(body.input, str):
        messages.append(ChatMessage("user", body.input))
    else:
        items = body.input or []
        for number, item in enumerate(items):
            if isinstance(item, Item):
                place = f"input[{number}]"
                messages += _messages(item, place, newest=number == len(items) - 1)
    if all(message.role == "system" for message in messages):
        messages.append(ChatMessage("user", ""))
    return in_order(messages)


def tools_of(body: ResponsesBody) -> dict[str, KnownTool]:
    """The tools that may be called, by the names that the model sees."""
    if body.tool_choice == "none":
        return {}
    items = body.input if isinstance(body.input, list) else []
    added = [tool for item in items if isinstance(item, AdditionalTools) for tool in item.tools]
    known = known_tools([*(body.tools or ()), *added])
    if not isinstance(body.tool_choice, AllowedTools):
        return known
    allowed = {tool.name for tool in body.tool_choice.tools}
    return {name: tool for name, tool in known.items() if tool.name in allowed}


def choice_of(body: ResponsesBody) -> str:
    """The choice: "none", "auto", "required", or the name of a tool, as the model sees it."""
    match body.tool_choice:
        case None:
            return "auto"
        case NamedChoice():
            name = body.tool_choice.name
            return next((full for full, tool in tools_of(body).items() if tool.name == name), name)
        case AllowedTools():
            return body.tool_choice.mode
        case choice:
            return choice


def _grammar(text: TextConfig | None) -> Grammar | None:
    match text.format if text is not None else None:
        case SchemaFormat() as form:
            return schema_form(form.schema_, "text.format.schema", strict=bool(form.strict))
        case ObjectFormat():
            return schema_form(OBJECT, "text.format", strict=True)
        case _:
            return None


def _messages(item: Item, place: str, *, newest: bool) -> Iterator[ChatMessage]:
    """The engine's messages for an item. Raises Refusal if it is the newest and cannot be read."""
    type, called = item.type, item.type.removesuffix("_call")
    if type in ("", "message"):
        if newest:
            check_newest(item, place, _ROLES)
        yield from item.told(place)
    elif type.endswith("_output"):
        pictures = sent_in(item.output, f"{place}.output")
        yield ChatMessage(
            "tool", text_of(item.output), tool_call_id=item.call_id, pictures=pictures
        )
    elif type in ("function_call", "custom_tool_call") or (called != type and item.call_id):
        custom = type == "custom_tool_call"
        arguments = arguments_of({INPUT: item.input} if custom else item.arguments)
        name = full_name(item.name or called, item.namespace)
        yield ChatMessage(
            "assistant", "", tool_calls=(ToolCall(item.call_id or item.id, name, arguments),)
        )
    elif type == "reasoning":
        yield ChatMessage("assistant", "", reasoning=text_of(item.content) or text_of(item.summary))
    elif newest and type == "item_reference":
        message = f"{place} refers to what is stored. Nothing is: send the whole conversation."
        raise invalid(message, place, "unsupported_content")
    else:
        yield ChatMessage("assistant", note(type))
