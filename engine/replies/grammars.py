"""Grammars that a reply cannot leave: calls of tools, and JSON in place of prose.

They are Lark in llguidance's dialect. What they allow, `engine.replies.parser` reads as calls of
these tools. How a family writes them stands in `engine.replies.call_grammars`.
"""

from collections.abc import Sequence
from typing import Literal

from engine.replies.call_grammars import arguments_of, calls_of
from engine.replies.json_text import value_of
from engine.replies.lark import Rules, either, text
from engine.replies.syntax import ReplySyntax
from engine.replies.tools import Tool
from engine.request import Grammar
from models.errors import Problem

Choice = Literal["none", "auto", "required"]


def grammar_for(
    syntax: ReplySyntax,
    tools: Sequence[Tool] = (),
    *,
    choice: Choice = "auto",
    parallel: bool = True,
    schema: str = "",
    reasoning: bool = True,
    inside_reasoning: bool = False,
) -> Grammar | None:
    """The grammar of a reply; None where it may be anything.

    `choice`: with "required" the reply is a call of one of the `tools`, or several in `parallel`; a
    tool that is chosen by its name is given alone. With "auto" it may call one: its calls are held
    to a grammar where one of the tools is strict, or only one call may be, and are free otherwise,
    as each token that a grammar looks at costs time. `schema`: content is JSON of this schema, the
    text of one. `reasoning`: the reply may begin with some; `inside_reasoning`: it goes on with
    that of the prompt. Raises `Problem` for what this family's calls cannot be held to.
    """
    if syntax.family == "none" and tools and choice == "required":
        raise Problem(
            "It is not known how this model calls tools, so that it cannot be made to.",
            "Leave the choice to it, or choose another model.",
        )
    if choice == "none" or syntax.family == "none":
        tools = ()
    if not tools:
        choice = "auto"
    free = choice == "auto" and parallel and not any(tool.strict for tool in tools)
    if not schema and (free or not tools):
        return None
    marks = syntax.reasoning if reasoning or inside_reasoning else None
    if not tools and marks is None and syntax.family != "harmony":
        return Grammar("json schema", schema)
    try:
        rules = Rules(syntax)
        content = rules.json(_loaded(schema)) if schema else ""
        if syntax.family == "harmony":
            start = _channels(rules, tools, choice, content, reasoning=reasoning)
        else:
            start = _reply(rules, tools, choice, content, parallel=parallel)
            if marks and inside_reasoning:
                start = f"GAP? {start}"
            elif marks:
                thought = f"{rules.mark(marks.opening)} {rules.up_to('TEXT', marks.closing)}"
                start = f"({thought} GAP?)? {start}"
        after = marks.closing if marks and inside_reasoning else ""
        return Grammar("lark", rules.grammar(start), after)
    except RecursionError:
        raise Problem("A schema is nested too deeply.", "Make it flatter.") from None


def _loaded(schema: str) -> object:
    try:
        return value_of(schema)
    except ValueError as error:
        raise Problem(f"The JSON schema is not JSON: {error}.", "Send valid JSON.") from None


def _reply(
    rules: Rules, tools: Sequence[Tool], choice: Choice, content: str, *, parallel: bool
) -> str:
    """What stands behind the reasoning; `content` is a rule, or empty where it is free."""
    if not tools:
        return content
    calls = calls_of(rules.syntax.family, rules, tools)
    whole = calls.whole(rules, parallel=parallel)
    if choice == "required":
        return whole
    if content:
        return either([whole, content])
    reasoning = rules.syntax.reasoning
    opening = reasoning.opening if reasoning else ""
    prose = rules.text_beginning_otherwise([opening, *calls.unmarked])
    if calls.unmarked:
        return either([whole, prose])
    call = f"{rules.up_to(prose, calls.trigger)} {calls.behind_trigger(parallel=parallel)}"
    return f"({call})* {prose}" if parallel else either([call, prose])


def _channels(
    rules: Rules, tools: Sequence[Tool], choice: Choice, content: str, *, reasoning: bool
) -> str:
    """Harmony's messages. The token that ends the reply ends the last one."""
    channel, message = rules.mark("<|channel|>"), rules.mark("<|message|>")
    calls = [
        f"{channel} {text(f'commentary to=functions.{tool.name} ')} {rules.mark('<|constrain|>')} "
        f"{text('json')} {message} {arguments_of(rules, tool)}"
        for tool in tools
    ]
    final = f"{channel} {text('final')} {message} {content or 'TEXT'}"
    before = [text("analysis")] if reasoning else []
    if tools and choice == "auto" and not content:
        before.append(text("commentary"))  # says what will be called
    last = either(calls if choice == "required" else [*calls, final])
    if not before:
        return last
    said = f"{rules.up_to('TEXT', '<|end|>')} {rules.mark('<|start|>')} {text('assistant')}"
    return f"({channel} {either(before)} {message} {said})* {last}"
