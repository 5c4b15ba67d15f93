"""The form that an answer must have: JSON, a schema, a regular expression, or a grammar.

Each dialect has a field for it. The fields of vLLM, SGLang and llama.cpp work in all dialects.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from llguidance import LLMatcher
from llguidance.gbnf_to_lark import any_to_lark
from pydantic import Field

from engine.replies.schemas import complaint_about, loosened, problem
from engine.request import Grammar
from engine.server.bodies import Body, loads, named
from engine.server.errors import invalid

LARGEST_FORM_BYTES = 1 << 20  # as the engine has it
OBJECT: Mapping[str, Any] = {"type": "object"}

Schema = dict[str, Any] | str
Choices = Annotated[list[str], Field(min_length=1)]
Source = Annotated[str, Field(min_length=1)]


class NestedSchema(Body):
    """A schema within a form. Its name is not needed."""

    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool = False


class Form(Body):
    """A form in OpenAI's words: its chats have the schema in `json_schema`, its responses in
    `schema`. Some servers take the schema of an object, too."""

    type: Literal["text", "json_object", "json_schema"]
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    strict: bool = False
    json_schema: NestedSchema | None = None


class StructuredOutputs(Body):
    """A form in vLLM's newer words."""

    json_: Annotated[Schema | None, Field(alias="json")] = None
    regex: Source | None = None
    choice: Choices | None = None
    grammar: Source | None = None
    json_object: bool | None = None
    structural_tag: None = None


class FormFields(Body):
    """The fields of neighbours: a schema may also be its JSON text; a grammar is Lark or GBNF."""

    guided_json: Schema | None = named("guided_json", "json_schema")
    guided_regex: Source | None = named("guided_regex", "regex")
    guided_choice: Choices | None = None
    guided_grammar: Source | None = named("guided_grammar", "grammar", "ebnf")
    structured_outputs: StructuredOutputs | None = None


def form_in(body: FormFields, own: Grammar | None = None) -> Grammar | None:
    """Return the form that a body asks for; `own` is from the dialect's field. Raises Refusal."""
    nested = body.structured_outputs or StructuredOutputs()
    place = "structured_outputs."
    wished: tuple[tuple[Callable[[Any, str], Grammar], Any, str], ...] = (
        (_schema, body.guided_json, "guided_json"),
        (_regex, body.guided_regex, "guided_regex"),
        (_choice, body.guided_choice, "guided_choice"),
        (_lark, body.guided_grammar, "guided_grammar"),
        (_schema, nested.json_, f"{place}json"),
        (_regex, nested.regex, f"{place}regex"),
        (_choice, nested.choice, f"{place}choice"),
        (_lark, nested.grammar, f"{place}grammar"),
        (_schema, OBJECT if nested.json_object else None, f"{place}json_object"),
    )
    forms = [make(value, param) for make, value, param in wished if value is not None]
    forms += [own] if own is not None else []
    if len(forms) > 1:
        raise invalid("The request has two forms of the answer. Send only one.")
    return forms[0] if forms else None


def grammar_of(form: Form | None, param: str, *, strict: bool = False) -> Grammar | None:
    """Return the grammar of a form, which the client sent in the field `param`; None for free text.
    Raises Refusal."""
    if form is None or form.type == "text":
        return None
    nested = form.json_schema
    schema = nested.schema_ if nested else form.schema_
    param += ".json_schema.schema" if nested else ".schema"
    if form.type == "json_object":
        return schema_form(OBJECT if schema is None else schema, param, strict=False)
    if schema is None:
        raise invalid(f"{param}: Field required.", param, "missing_required_parameter")
    return schema_form(schema, param, strict=strict or (nested or form).strict)


def schema_form(schema: Mapping[str, Any], param: str, *, strict: bool) -> Grammar:
    """Return the form of a JSON schema, which the client sent in the field `param`. Raises Refusal.

    Unless it is `strict`, the part of it that answers can be held to.
    """
    held = schema if strict else loosened(schema)
    source = json.dumps(held, ensure_ascii=False)
    _check_size(source, param)
    if complaint := complaint_about(held):
        raise invalid(str(problem("JSON schema", complaint)), param)
    return Grammar("json schema", source)


def _schema(schema: Any, param: str) -> Grammar:
    if isinstance(schema, str):
        try:
            schema = loads(schema)
        except (ValueError, RecursionError):
            schema = None
        if not isinstance(schema, dict):
            raise invalid(f"{param} is not the JSON text of an object.", param)
    return schema_form(schema, param, strict=True)


def _regex(pattern: str, param: str) -> Grammar:
    _check_size(pattern, param)
    if complaint := LLMatcher.validate_grammar(LLMatcher.grammar_from_regex(pattern)):
        raise invalid(str(problem("regular expression", complaint)), param)
    return Grammar("regex", pattern)


def _choice(choices: list[str], param: str) -> Grammar:
    return _regex("|".join(map(re.escape, choices)), param)


def _lark(source: str, param: str) -> Grammar:
    _check_size(source, param)
    try:
        return Grammar("lark", any_to_lark(source))
    except Exception as error:  # the converter raises many kinds
        message = f"{param} is neither Lark nor GBNF: {error}."[:500]
        raise invalid(message, param) from None


def _check_size(source: str, param: str) -> None:
    if len(source.encode()) > LARGEST_FORM_BYTES:
        raise invalid(f"{param} is larger than {LARGEST_FORM_BYTES >> 10} KB.", param)
