"""Tools that a chat may call, and the form that its answer must have."""

import json
from typing import Any, Literal

from pydantic import Field

from engine.request import Grammar
from engine.server.bodies import Body
from engine.server.errors import invalid

MOST_TOOLS = 256
LARGEST_SCHEMA_BYTES = 64 << 10


class Function(Body):
    name: str = Field(min_length=1, max_length=256)
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    strict: bool = False


class Tool(Body):
    type: Literal["function"]
    function: Function

    def value(self) -> dict[str, Any]:
        """As templates expect it."""
        return {"type": "function", "function": self.function.model_dump(exclude={"strict"})}


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


def grammar_of(
    form: ResponseFormat | None, tools: list[Tool], choice: ToolChoice
) -> Grammar | None:
    """What the answer is held to. Raises Refusal."""
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return Grammar("json schema", '{"type": "object"}')
    if form.json_schema is None:
        raise invalid("response_format.json_schema is missing.", "response_format")
    source = json.dumps(form.json_schema.schema_, ensure_ascii=False)
    if len(source.encode()) > LARGEST_SCHEMA_BYTES:
        most = LARGEST_SCHEMA_BYTES >> 10
        raise invalid(f"The schema is over {most} KB.", "response_format")
    return Grammar("json schema", source)
