"""Grammars that a reply cannot leave: calls of tools, and JSON in place of prose.

They are Lark in llguidance's dialect, where `<name>` is the special token `name` or `<name>`. What
they allow, `engine.replies.parser` reads.

A tool that is `strict` is called with arguments of its schema, any other with any arguments. Where
values have no quotes (Qwen3-Coder's and GLM's tags), a text ends at the tag that closes it, in
whatever value it stands. Gemma's and those cannot hold a text to a pattern, a format or a length:
that a strict tool asks for it is a `Problem`.
"""

from collections.abc import Sequence
from typing import Literal

from engine.replies.syntax import ReplySyntax
from engine.replies.tools import Tool
from engine.request import Grammar

Choice = Literal["none", "auto", "required"]

_TERMINALS = """
TEXT: /(.|\\n)*/
GAP: /\\n{1,2}/
KEY: /[A-Za-z_][A-Za-z0-9_]*/
TAG_KEY: /[^<>\\n]+/
NUMBER: /-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]+)?/
QUOTED: /'[^'\\\\\\n]*'/
"""
_ANY_OBJECT = {"type": "object"}
_SAYS_NOTHING = {"title", "description", "default", "examples", "$comment", "deprecated"}
_UNDERSTOOD = _SAYS_NOTHING | {
    "type", "enum", "const", "anyOf", "properties", "required", "additionalProperties", "items",
    "nullable", "$defs", "definitions", "$ref",
}  # fmt: skip


def grammar_for(
    syntax: ReplySyntax,
    tools: Sequence[Tool] = (),
    *,
    choice: Choice = "auto",
    parallel: bool = True,
    schema: str = "",
    inside_reasoning: bool = False,
    reasoning: bool = True,
) -> Grammar | None:
    """The grammar of a reply; None where it may be anything, or its family has no calls.

    `choice` "required": the reply is a call of one of the `tools`, or several in `parallel`. With
    "auto" it may be one; that is enforced where one of the tools is strict, or calls may not be
    several. `schema`: what is content is JSON of this schema, itself JSON. `reasoning`: whether the
    reply may begin with some; `inside_reasoning`: it goes on with the prompt's.
    """
    if choice == "none":
        tools = ()
    if choice == "auto" and not schema and parallel and not any(tool.strict for tool in tools):
        return None
    if (not tools and not schema) or (tools and syntax.family == "none"):
        return None
    marks = syntax.reasoning if reasoning or inside_reasoning else None
    if not tools and marks is None and syntax.family != "harmony":
        return Grammar("json schema", schema)
    rules = _Rules(syntax)
    if syntax.family == "harmony":
        start = _harmony(rules, tools, choice, schema, reasoning=reasoning)
    else:
        thinks = marks is not None and not inside_reasoning
        start = _marked(rules, tools, choice, parallel=parallel, schema=schema, thinks=thinks)
    after = marks.closing if marks and inside_reasoning else ""
    return Grammar("lark", f"start: {start}\n{rules.text}{_TERMINALS}", after)
