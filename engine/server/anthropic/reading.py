"""Turns the body of /v1/messages into an `Ask`. Pure."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from engine.process.protocol import Loaded
from engine.request import ChatMessage, Prompt, Request, Thinking, ToolCall, thinking_of
from engine.server.answers import Ask
from engine.server.anthropic.bodies import (
    AssistantBlock,
    AssistantMessage,
    CountTokensBody,
    Message,
    MessagesBody,
    NamedChoice,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolResultBlock,
    ToolUseBlock,
)
from engine.server.choosing import check_choice, sampling_of, schema_grammar, tools_json
from engine.server.conversation import BETWEEN, in_order

_BILLING = "x-anthropic-billing-header:"


def ask_of(body: MessagesBody, loaded: Loaded) -> Ask:
    """Make an `Ask` from the body. Raises Refusal."""
    check_choice(choice_of(body), [function["name"] for function in functions_of(body)])
    form = body.output_config.format if body.output_config is not None else None
    request = Request(
        sampling=sampling_of(
            loaded.sampling, temperature=body.temperature, top_p=body.top_p, top_k=body.top_k
        ),
        max_tokens=min(body.max_tokens, loaded.context_length),
        thinking=thinking_in(body),
        thinking_budget=None if body.thinking is None else body.thinking.budget_tokens,
        stops=tuple(body.stop_sequences or ()),
        grammar=schema_grammar(form.schema_, "output_config.format.schema") if form else None,
    )
    parallel = not getattr(body.tool_choice, "disable_parallel_tool_use", None)
    return Ask(prompt=prompt_of(body), request=request, choice=choice_of(body), parallel=parallel)


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
    system = [body.system] if isinstance(body.system, str) else _texts(body.system or ())
    kept = [text for text in system if text and not text.startswith(_BILLING)]
    messages = [ChatMessage("system", BETWEEN.join(kept))] if kept else []
    messages += [made for message in body.messages for made in _messages(message)]
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


def _messages(message: Message) -> Iterator[ChatMessage]:
    if isinstance(message.content, str):
        yield ChatMessage(message.role, message.content)
    elif isinstance(message, AssistantMessage):
        yield _said(message.content)
    else:
        yield from (_result(b) for b in message.content if isinstance(b, ToolResultBlock))
        if texts := _texts(message.content):
            yield ChatMessage(message.role, BETWEEN.join(texts))


def _said(blocks: Sequence[AssistantBlock]) -> ChatMessage:
    return ChatMessage(
        "assistant",
        BETWEEN.join(_texts(blocks)),
        reasoning=BETWEEN.join(b.thinking for b in blocks if isinstance(b, ThinkingBlock)),
        tool_calls=tuple(_call(b) for b in blocks if isinstance(b, ToolUseBlock)),
    )


def _result(block: ToolResultBlock) -> ChatMessage:
    content = block.content or ""
    text = content if isinstance(content, str) else BETWEEN.join(_texts(content))
    if block.is_error:
        text = f"Error: {text}"
    return ChatMessage("tool", text, tool_call_id=block.tool_use_id)


def _call(block: ToolUseBlock) -> ToolCall:
    return ToolCall(block.id, block.name, json.dumps(block.input, ensure_ascii=False))


def _texts(blocks: Sequence[Any]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, TextBlock)]


def _function(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description or "",
        "parameters": tool.input_schema or {"type": "object", "properties": {}},
        "strict": bool(tool.strict),
    }
