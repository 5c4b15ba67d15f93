"""The tools that a chat may call, and the required form of its answer."""

from typing import Annotated, Any, Literal

from pydantic import Field

from engine.request import Grammar
from engine.server.bodies import Body, Object
from engine.server.forms import OBJECT, schema_form

MOST_TOOLS = 256


class Function(Body):
    name: str = Field(min_length=1, max_length=256)
    description: str = ""
    parameters: Object = Field(default_factory=dict)
    strict: bool = False


class Tool(Body):
    type: Literal["function"] = "function"
    function: Function


class ChosenFunction(Body):
    name: str


class ChosenTool(Body):
    type: Literal["function"] = "function"
    function: ChosenFunction


class AllowedTools(Body):
    mode: Literal["auto", "required"]
    tools: list[ChosenTool]


class AllowedChoice(Body):
    """The tools that may be called."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


ToolChoice = Literal["none", "auto", "required", "any"] | AllowedChoice | ChosenTool


class NamedSchema(Body):
    name: str = ""
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool = False


class TextForm(Body):
    type: Literal["text"]


class ObjectForm(Body):
    """An object. Some servers take its schema here."""

    type: Literal["json_object"]
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None


class SchemaForm(Body):
    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[TextForm | ObjectForm | SchemaForm, Field(discriminator="type")]


class ToolFields(Body):
    """The tools of a chat, and the choice among them."""

    tools: list[Tool] = Field(default_factory=list, max_length=MOST_TOOLS)
    tool_choice: ToolChoice = "auto"

    @property
    def choice(self) -> str:
        """The choice as "none", "auto", "required", or the name of a tool."""
        match self.tool_choice:
            case ChosenTool(function=function):
                return function.name
            case AllowedChoice(allowed_tools=allowed):
                return allowed.mode
            case "any":
                return "required"
            case choice:
                return choice

    @property
    def callable_functions(self) -> list[dict[str, Any]]:
        """The tools that may be called, for prompts and grammars."""
        choice = self.tool_choice
        if choice == "none":
            return []
        functions = [tool.function.model_dump() for tool in self.tools]
        if not isinstance(choice, AllowedChoice):
            return functions
        allowed = {tool.function.name for tool in choice.allowed_tools.tools}
        return [function for function in functions if function["name"] in allowed]


def grammar_of(form: ResponseFormat | None) -> Grammar | None:
    """The grammar of the answer; None for free text. Raises Refusal."""
    match form:
        case SchemaForm(json_schema=named):
            param = "response_format.json_schema.schema"
            return schema_form(named.schema_, param, strict=named.strict)
        case ObjectForm():
            schema = OBJECT if form.schema_ is None else form.schema_
            return schema_form(schema, "response_format.schema", strict=False)
        case _:
            return None
