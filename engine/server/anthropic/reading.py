"""Turns the body of /v1/messages into an `Ask`. Pure."""

import json
from typing import Any

from engine.process.protocol import Loaded
from engine.request import (
    ChatMessage,
    Grammar,
    Prompt,
    Request,
    Thinking,
    thinking_of,
)
from engine.server.answers import Ask
from engine.server.anthropic.bodies import CountTokensBody, MessagesBody, NamedChoice, Tool
from engine.server.choosing import check_choice, tools_json
from engine.server.conversation import BETWEEN
from engine.server.fields import sampling_in
from engine.server.forms import form_in, schema_form
from engine.server.messages import conversation_of

_ROLES = ("user", "assistant", "system")
_BILLING = "x-anthropic-billing-header:"


def ask_of(body: MessagesBody, loaded: Loaded) -> Ask:
    """Make an `Ask` from the body. Raises Refusal."""
    check_choice(choice_of(body), [function["name"] for function in functions_of(body)])
    request = Request(
        sampling=sampling_in(body, loaded),
        max_tokens=min(body.max_tokens, loaded.context_length),
        thinking=thinking_in(body),
        thinking_budget=body.budget,
        stops=tuple(body.stop),
        grammar=form_in(body, _form(body)),
    )
    parallel = not getattr(body.tool_choice, "disable_parallel_tool_use", None)
    return Ask(
        prompt=prompt_of(body),
        request=request,
        choice=choice_of(body),
        parallel=parallel,
        hidden=body.hidden,
    )


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
    left out: the cache could not be used for anything after it.
    """
    given = [body.system] if isinstance(body.system, str) else [b.text for b in body.system or ()]
    kept = [text for text in given if text and not text.startswith(_BILLING)]
    system = [ChatMessage("system", BETWEEN.join(kept))] if kept else []
    return conversation_of(body.messages, _ROLES, *system)


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
    wish = body.wish or "off"
    return thinking_of(_effort(body) if wish == "on" else None) or wish


def options_of(body: CountTokensBody) -> str:
    """The variables of the chat template: the effort that is asked for without thinking, which
    holds where a model cannot but reason."""
    effort = _effort(body)
    off = effort and thinking_in(body) == "off"
    given = {"reasoning_effort": effort} if off else {}
    return json.dumps(given | body.chat_template_kwargs) if given else body.variables


def _effort(body: CountTokensBody) -> str | None:
    return body.output_config.effort if body.output_config is not None else None


def _function(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description or "",
        "parameters": tool.input_schema or {"type": "object", "properties": {}},
        "strict": bool(tool.strict),
    }
