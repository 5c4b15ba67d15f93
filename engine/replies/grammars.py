"""Grammars that enforce tool calls in a reply, or JSON in place of prose.

They are Lark in llguidance's dialect. `engine.replies.reading` reads every reply that they allow as
calls of these tools. `engine.replies.call_grammars` has the calls of each family.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial

from engine.replies.call_grammars import arguments_of, calls_of, understood
from engine.replies.families import CallRow, ReasoningMarks
from engine.replies.json_text import value_of
from engine.replies.lark import Rules, either, spaced, text
from engine.replies.schemas import complaint_about, loosened
from engine.replies.syntax import ReplySyntax
from engine.replies.tools import Tool, tools_of
from engine.request import CallRules, Grammar
from models.errors import Problem

_FREE = CallRules()


def grammar_for(
    syntax: ReplySyntax,
    tools: Sequence[Tool] = (),
    *,
    choice: str = "auto",
    parallel: bool = True,
    form: Grammar | None = None,
    reasoning: bool = True,
    inside_reasoning: bool = False,
) -> Grammar | None:
    """The grammar of a reply; None if the reply is free.

    `choice`: with "required" the reply is a call of one of the `tools`, or several if `parallel`;
    to force one tool, give it alone. With "auto" the reply may have calls; they follow a grammar
    only if a tool is strict or `parallel` is False, as each token under a grammar costs time.
    `form`: a JSON schema or a regular expression for the content. `reasoning`: the reply may begin
    with reasoning; `inside_reasoning`: it continues the prompt's. Raises `Problem` if this family's
    calls cannot be enforced.
    """
    rows = syntax.row.calls
    held = bool(rows) and rows[0].form != "nested"
    if not held and tools and choice == "required":
        raise Problem(
            "Tool calls cannot be required of this model, because their form cannot be enforced.",
            "Use tool_choice auto, or choose another model.",
        )
    if not held:
        tools = ()
    if not tools:
        choice = "auto"
    free = choice == "auto" and parallel and not any(tool.strict for tool in tools)
    if form is None and (free or not tools):
        return None
    marks = syntax.reasoning if reasoning or inside_reasoning else None
    if not tools and marks is None and syntax.family != "harmony":
        return form
    try:
        rules = Rules(syntax)
        content = _content(rules, form)
        if syntax.family == "harmony":
            start = _channels(rules, tools, choice, content, reasoning=reasoning)
        else:
            start = _reply(rules, tools, choice, content, parallel=parallel)
        return _whole(rules, start, marks, inside_reasoning=inside_reasoning)
    except RecursionError:
        raise Problem("A JSON schema is nested too deeply.", "Reduce its nesting.") from None


def strict_where_possible(syntax: ReplySyntax, tool: Tool) -> Tool:
    """The tool, strict by as much of its schema as calls of this family can be held to."""
    for schema in (loosened(tool.parameters), loosened(understood(tool.parameters))):
        held = replace(tool, parameters=schema, strict=True)
        with suppress(Problem):
            grammar_for(syntax, [held])
            if not complaint_about(schema):
                return held
    return replace(tool, strict=False)


@lru_cache(maxsize=8)
def grammar_of_reply(
    syntax: ReplySyntax,
    tools: str,
    rules: CallRules = _FREE,
    *,
    prompt_ending: str,
    form: Grammar | None = None,
) -> Grammar | None:
    """The grammar of a reply with these `rules` for calls, and this `form` of its content; None if
    it is free. `tools` as in `engine.request.Prompt`; `prompt_ending`: the last characters of the
    prompt, which show whether the reply begins within reasoning. Raises `Problem`."""
    inside = syntax.begins_inside(prompt_ending)
    if form is not None and form.kind == "lark":  # it has rules of its own: nothing is added
        after = syntax.reasoning.closing if syntax.reasoning and inside else form.after
        return replace(form, after=after)
    found = tuple(
        tool if rules.strict or not tool.strict else strict_where_possible(syntax, tool)
        for tool in tools_of(tools)
    )
    choice, parallel = rules.choice, rules.parallel
    if choice not in ("auto", "required"):  # a name: one call of it, as OpenAI's models make
        found = tuple(tool for tool in found if tool.name == choice)
        choice, parallel = "required", False
    build = partial(
        grammar_for,
        syntax,
        choice=choice,
        parallel=parallel,
        form=form,
        reasoning=not syntax.reasoning_is_over(prompt_ending),
        inside_reasoning=inside,
    )
    if choice == "required":  # few clients ask for strict tools, or can use a call that misfits
        with suppress(Problem):
            return build([t if t.strict else strict_where_possible(syntax, t) for t in found])
    return build(found)


def grammar_of_prose(syntax: ReplySyntax, *, prompt_ending: str) -> Grammar:
    """The grammar of a reply that says something and calls no tool, whichever row of its family's
    table the call would follow. `prompt_ending` as for `grammar_of_reply`.

    It does not begin as a call without a mark of its own begins, with a brace or a fence of code.
    """
    rules, row = Rules(syntax), syntax.row
    over = syntax.reasoning_is_over(prompt_ending)
    if syntax.family == "harmony":
        return Grammar("lark", rules.grammar(_channels(rules, (), "auto", "", reasoning=not over)))
    bare = [call.starts[:1] for call in row.calls if call.unmarked]
    bare += [syntax.reasoning.opening] if syntax.reasoning else []
    marked = [call.trigger for call in row.calls if not call.unmarked]
    prose = rules.prose(bare, without=marked, empty=False)
    if skipped := _skipped(rules):
        around = f"({either(list(map(rules.mark, skipped)))})*"
        prose = f"{around} {prose} {around}"
    inside = syntax.begins_inside(prompt_ending)
    return _whole(rules, prose, None if over else syntax.reasoning, inside_reasoning=inside)


def _whole(
    rules: Rules, reply: str, marks: ReasoningMarks | None, *, inside_reasoning: bool
) -> Grammar:
    """The grammar of a reply with this body, after reasoning if there are marks for it."""
    if marks is None:
        return Grammar("lark", rules.grammar(reply))
    if inside_reasoning:
        return Grammar("lark", rules.grammar(f"GAP? {reply}"), marks.closing)
    thought = f"{rules.mark(marks.opening)} {rules.up_to('TEXT', marks.closing)}"
    return Grammar("lark", rules.grammar(f"({thought} GAP?)? {reply}"))


def _skipped(rules: Rules) -> list[str]:
    """Return the special marks that may be around text, except a mark that begins reasoning."""
    reasoning = rules.syntax.reasoning
    opening = reasoning.opening if reasoning else ""
    return [
        mark
        for mark in rules.syntax.row.skipped
        if rules.begins_special(mark) and not opening.startswith(mark)
    ]


def _content(rules: Rules, form: Grammar | None) -> str:
    """The rule of a form; "" without one."""
    if form is None:
        return ""
    if form.kind == "regex":
        return rules.regex(form.source)
    try:
        return rules.json(value_of(form.source))
    except ValueError as error:
        raise Problem(f"The JSON schema is not JSON: {error}.", "Send valid JSON.") from None


def _reply(
    rules: Rules, tools: Sequence[Tool], choice: str, content: str, *, parallel: bool
) -> str:
    """The grammar body after the reasoning. `content`: a rule; "" if content is free."""
    if not tools:
        return content
    calls = calls_of(rules.syntax.row.calls, rules, tools)
    whole = calls.whole(rules, parallel=parallel)
    if choice == "required":
        return whole
    if content:
        return either([whole, content])
    reasoning = rules.syntax.reasoning
    opening = reasoning.opening if reasoning else ""
    bare = [row for row in rules.syntax.row.calls[1:] if row.unmarked and not calls.unmarked]
    begun = calls.unmarked or tuple(row.begin for row in bare)
    plain = [mark for mark in (opening, *begun) if mark and not rules.begins_special(mark)]
    prose = rules.prose(plain)
    skipped = _skipped(rules)
    if skipped and rules.begins_special(calls.trigger):
        prose = f"({prose} | {either(list(map(rules.mark, skipped)))})*"
    if calls.unmarked:
        return either([whole, prose])
    first = {row.trigger: row for row in reversed(rules.syntax.row.calls) if not row.unmarked}
    others = [calls_of([row], rules, tools) for mark, row in first.items() if mark != calls.trigger]
    found = [
        f"{rules.up_to(prose, family.trigger)} {family.behind_trigger(parallel=parallel)}"
        for family in (calls, *others)
    ]
    marked = f"({either(found)})* {prose}" if parallel else either([*found, prose])
    return either([marked, *(_bare_calls(rules, bare, tool) for tool in tools if bare)])


def _bare_calls(rules: Rules, rows: Sequence[CallRow], tool: Tool) -> str:
    """Calls of a tool as JSON, in the notation of these rows. The beginning is one terminal, as
    prose may begin with a part of it."""
    arguments, found = arguments_of(rules, tool), []
    for row in rows:
        begun = rf"\s*{spaced(row.begin)}{re.escape(tool.name)}{spaced(row.named)}\s*"
        begin = rules.add(f"/{begun}/", terminal=True)
        end = rules.add(rf"/\s*{spaced(row.end)}/", terminal=True)
        found.append(f"{begin} {arguments} {end}")
    return either(found)


def _channels(
    rules: Rules, tools: Sequence[Tool], choice: str, content: str, *, reasoning: bool
) -> str:
    """The grammar body of harmony's messages. The end of the reply ends the last message."""
    channel, message = rules.mark("<|channel|>"), rules.mark("<|message|>")
    calls = [
        f"{channel} {text(f'commentary to=functions.{tool.name} ')} {rules.mark('<|constrain|>')} "
        f"{text('json')} {message} {arguments_of(rules, tool)}"
        for tool in tools
    ]
    final = f"{channel} {text('final')} {message} {content or 'TEXT'}"
    before = [text("analysis")] if reasoning else []
    if tools and choice == "auto" and not content:
        before.append(text("commentary"))  # announces a call
    last = either(calls if choice == "required" else [*calls, final])
    if not before:
        return last
    body = f"{rules.up_to('TEXT', '<|end|>')} {rules.mark('<|start|>')} {text('assistant')}"
    return f"({channel} {either(before)} {message} {body})* {last}"
