"""Turns the body of /v1/messages into an `Ask`. Pure."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from engine.process.protocol import Loaded
from engine.request import (
    ChatMessage,
    Grammar,
    Prompt,
    Request,
    Thinking,
    ToolCall,
    thinking_of,
)
from engine.server.answers import Ask
from engine.server.anthropic.bodies import (
    Block,
    CountTokensBody,
    Message,
    MessagesBody,
    NamedChoice,
    OtherBlock,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolResultBlock,
    ToolUseBlock,
)
from engine.server.choosing import check_choice, tools_json
from engine.server.conversation import (
    BETWEEN,
    arguments_of,
    check_newest,
    in_order,
    pictures_of,
    text_of,
)
from engine.server.fields import sampling_in
from engine.server.forms import form_in, schema_form

_REDACTED = "redacted_thinking"
_BILLING = "x-anthropic-billing-header:"


def ask_of(body: MessagesBody, loaded: Loaded) -> Ask:
    """Make an `Ask` from the body. Raises Refusal."""
    check_choice(choice_of(body), [function["name"] for function in functions_of(body)])
    request = Request(
        sampling=sampling_in(body, loaded),
        max_tokens=min(body.max_tokens, loaded.context_length),
        thinking=thinking_in(body),
        thinking_budget=None if body.thinking is None else body.thinking.budget_tokens,
        stops=tuple(body.stop_sequences or ()),
        grammar=form_in(body, _form(body)),
    )
    parallel = not getattr(body.tool_choice, "disable_parallel_tool_use", None)
    return Ask(prompt=prompt_of(body), request=request, choice=choice_of(body), parallel=parallel)


def _form(body: MessagesBody) -> Grammar | None:
    form = body.output_config.format if body.output_config is not None else None
    form = form or body.output_format
    return schema_form(form.schema_, "output_config.format.schema", strict=True) if form else None


def prompt_of(body: CountTokensBody) -> Prompt:
    """The prompt of a body."""
    return Prompt(
        messages=messages_of(body),
        tools=tools_json(functions_of(body)),
        options=options_of(body),
    )


def messages_of(body: CountTokensBody) -> tuple[ChatMessage, ...]:
    """The conversation of a body.

    Claude Code begins its system prompt with a billing line that changes with each request. It is
    left out: the cache could not be used for anything behind it.
    """
    last = body.messages[-1]
    if last.role == "user":
        check_newest(last.content, f"messages[{len(body.messages) - 1}].content")
    system = [body.system] if isinstance(body.system, str) else _texts(body.system or ())
    kept = [text for text in system if text and not text.startswith(_BILLING)]
    messages = [ChatMessage("system", BETWEEN.join(kept))] if kept else []
    messages += [
        made
        for number, message in enumerate(body.messages)
        for made in _messages(message, f"messages[{number}].content")
    ]
    return in_order(messages)


def functions_of(body: CountTokensBody) -> list[dict[str, Any]]:
    """The tools in OpenAI's form of functions, without those that would run at Anthropic."""
    if body.tool_choice is not None and body.tool_choice.type == "none":
        return []
    return [_function(tool) for tool in body.tools or () if tool.type in (None, "custom")]


def choice_of(body: CountTokensBody) -> str:
    """The choice in OpenAI's words: "none", "auto", "required", or the name of a tool."""
    match body.tool_choice:
        case None:
            return "auto"
        case NamedChoice():
            return body.tool_choice.name
        case choice:
            return "required" if choice.type == "any" else choice.type


def thinking_in(body: CountTokensBody) -> Thinking:
    """Whether the model reasons, and with how much effort."""
    if body.thinking is None or body.thinking.type == "disabled":
        return "off"
    return thinking_of(_effort(body) or "on")


def options_of(body: CountTokensBody) -> str:
    """The variables of the chat template: the effort that is asked for without thinking, which
    holds where a model cannot but reason."""
    effort = _effort(body)
    off = thinking_in(body) == "off"
    return json.dumps({"reasoning_effort": effort}) if effort and off else ""


def _effort(body: CountTokensBody) -> str | None:
    return body.output_config.effort if body.output_config is not None else None


def _messages(message: Message, place: str) -> Iterator[ChatMessage]:
    if isinstance(message.content, str):
        yield ChatMessage(message.role, message.content)
    elif message.role == "assistant":
        yield _said(message.content, place)
    else:
        for number, block in enumerate(message.content):
            if isinstance(block, ToolResultBlock):
                yield _result(block, f"{place}[{number}].content")
        texts, pictures = _texts(message.content), pictures_of(message.content, place)
        if texts or pictures:
            yield ChatMessage(message.role, BETWEEN.join(texts), pictures=pictures)


def _said(blocks: Sequence[Block], place: str) -> ChatMessage:
    return ChatMessage(
        "assistant",
        BETWEEN.join(_texts(blocks)),
        reasoning=BETWEEN.join(b.thinking for b in blocks if isinstance(b, ThinkingBlock)),
        tool_calls=tuple(
            ToolCall(b.id, b.name, arguments_of(b.input))
            for b in blocks
            if isinstance(b, ToolUseBlock)
        ),
        pictures=pictures_of(blocks, place),
    )


def _result(block: ToolResultBlock, place: str) -> ChatMessage:
    text = text_of(block.content or "")
    if block.is_error:
        text = f"Error: {text}"
    pictures = pictures_of(block.content, place)
    return ChatMessage("tool", text, tool_call_id=block.tool_use_id, pictures=pictures)


def _texts(blocks: Sequence[Block | TextBlock]) -> list[str]:
    """The texts of blocks, with a note for each that is neither text nor image. Redacted thinking
    is nothing."""
    texts = (b for b in blocks if isinstance(b, TextBlock | OtherBlock))
    return [
        b.text if isinstance(b, TextBlock) else text_of([b])
        for b in texts
        if b.type != _REDACTED and not (isinstance(b, OtherBlock) and b.image)
    ]


def _function(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description or "",
        "parameters": tool.input_schema or {"type": "object", "properties": {}},
        "strict": bool(tool.strict),
    }
