"""Tools that a chat may call, and the form that its answer must have."""

from typing import Any, Literal

from pydantic import Field

from engine.request import Grammar
from engine.server.bodies import Body
from engine.server.choosing import schema_grammar
from engine.server.errors import invalid

MOST_TOOLS = 256


class Function(Body):
    name: str = Field(min_length=1, max_length=256)
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    strict: bool = False


class Tool(Body):
    type: Literal["function"]
    function: Function

    def value(self) -> dict[str, Any]:
        """The function, as prompts and grammars have it."""
        return self.function.model_dump()


class ChosenFunction(Body):
    name: str


class ChosenTool(Body):
    type: Literal["function"] = "function"
    function: ChosenFunction


ToolChoice = Literal["none", "auto", "required", "any"] | ChosenTool


class NamedSchema(Body):
    name: str = ""
    schema_: dict[str, Any] = Field(default_factory=dict, alias="schema")


class ResponseFormat(Body):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


def choice_of(choice: ToolChoice) -> str:
    """OpenAI's word for whether tools are called, or the name of the one that is to be."""
    if isinstance(choice, ChosenTool):
        return choice.function.name
    return "required" if choice == "any" else choice


def grammar_of(form: ResponseFormat | None) -> Grammar | None:
    """What the answer is held to. Raises Refusal."""
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return Grammar("json schema", '{"type": "object"}')
    if form.json_schema is None:
        raise invalid("response_format.json_schema is missing.", "response_format")
    return schema_grammar(form.json_schema.schema_, "response_format.json_schema.schema")
