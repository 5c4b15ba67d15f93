"""The tools that a chat may call, and the required form of its answer."""

from typing import Annotated, Any, Literal

from pydantic import Field

from engine.request import Grammar
from engine.server.bodies import Body
from engine.server.choosing import schema_grammar

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
        """The function as a dictionary, for prompts and grammars."""
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


class AnyForm(Body):
    type: Literal["text", "json_object"]


class SchemaForm(Body):
    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[AnyForm | SchemaForm, Field(discriminator="type")]


def choice_of(choice: ToolChoice) -> str:
    """The choice as "none", "auto", "required", or the name of a tool."""
    if isinstance(choice, ChosenTool):
        return choice.function.name
    return "required" if choice == "any" else choice


def grammar_of(form: ResponseFormat | None) -> Grammar | None:
    """The grammar of the answer; None for free text. Raises Refusal."""
    match form:
        case SchemaForm():
            return schema_grammar(form.json_schema.schema_, "response_format.json_schema.schema")
        case AnyForm(type="json_object"):
            return schema_grammar({"type": "object"}, "response_format")
        case _:
            return None
