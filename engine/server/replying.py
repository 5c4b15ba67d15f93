"""Adapts a request to the loaded model: the grammar of its reply.

Knows the syntaxes of `engine.replies`, and no dialect.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from engine.replies.grammars import Choice, grammar_for, strict_where_possible
from engine.replies.schemas import complaint_about, problem
from engine.replies.syntax import ReplySyntax
from engine.replies.tools import Tool, tools_of
from engine.request import Grammar
from engine.server.answers import Ask
from engine.server.errors import invalid
from models.errors import Problem

_CHOICES: dict[str, Choice] = {"none": "none", "auto": "auto", "required": "required"}


async def for_model(
    ask: Ask, syntax: ReplySyntax, ending_of: Callable[[Ask], Awaitable[str]]
) -> Ask:
    """`ask` with the grammar for a model with this syntax. Raises Refusal.

    `ending_of(ask)`: the prompt's last characters, which only a grammar for a model that reasons
    needs to know before.
    """
    if not ask.prompt.messages:
        return ask
    try:
        tools = tools_of(ask.prompt.tools)
        if any(row.form in ("object", "json") for row in syntax.row.calls[:1]):
            tools = tuple(_held(tool, ask.patterns.get(tool.name)) for tool in tools)
        grammar = _grammar(ask, syntax, tools)
        if grammar is not None:
            for tool in tools:
                _check_strict(tool)
        if grammar is not None and syntax.reasoning is not None:
            ending = await ending_of(ask)
            grammar = _grammar(
                ask,
                syntax,
                tools,
                reasoning=not syntax.reasoning_is_over(ending),
                inside_reasoning=syntax.begins_inside(ending),
            )
    except Problem as refused:
        raise invalid(str(refused), "tools") from None
    return replace(ask, request=replace(ask.request, grammar=grammar))


def _check_strict(tool: Tool) -> None:
    """Raise Problem if a tool is strict, and no arguments can be held to its schema."""
    if tool.strict and (complaint := complaint_about(tool.parameters)):
        raise problem(f"schema of the strict tool {tool.name}", complaint)


def _held(tool: Tool, pattern: str | None) -> Tool:
    """The tool, with its only argument restricted to a regular expression."""
    if pattern is None:
        return tool
    texts: Mapping[str, Any] = tool.parameters["properties"]
    held = {name: {**schema, "pattern": f"^(?:{pattern})$"} for name, schema in texts.items()}
    return replace(tool, parameters={**tool.parameters, "properties": held})


def _grammar(
    ask: Ask,
    syntax: ReplySyntax,
    tools: tuple[Tool, ...],
    *,
    reasoning: bool = True,
    inside_reasoning: bool = False,
) -> Grammar | None:
    given = ask.request.grammar
    if given is not None and given.kind == "lark":  # it has rules of its own: nothing is added
        after = syntax.reasoning.closing if syntax.reasoning and inside_reasoning else ""
        return replace(given, after=after)
    choice, parallel = _CHOICES.get(ask.choice), ask.parallel
    if choice is None:  # a tool by its name: one call of it, as OpenAI's models make
        tools = tuple(tool for tool in tools if tool.name == ask.choice)
        choice, parallel = "required", False
    build = partial(
        grammar_for,
        syntax,
        choice=choice,
        parallel=parallel,
        form=given,
        reasoning=reasoning,
        inside_reasoning=inside_reasoning,
    )
    if (
        choice == "required"
    ):  # few clients ask for strict tools, or can use a call that does not fit
        with suppress(Problem):
            return build(tuple(t if t.strict else strict_where_possible(syntax, t) for t in tools))
    return build(tools)
