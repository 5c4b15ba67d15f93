"""The bodies of requests to /v1/responses, as types. Knows nothing of the answers."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from engine.server.bodies import WHOLE, Body, Limit, Object, named
from engine.server.fields import LENGTHS, SamplingFields
from engine.server.forms import FormFields
from engine.server.messages import MOST_MESSAGES, Content, Message
from engine.server.thinking import ThinkingFields

Name = Annotated[str, Field(min_length=1, max_length=256)]


class Item(Message):
    """What was said or done: a message, a call, its result, reasoning, or what only OpenAI's models
    know, such as a search. Their encrypted reasoning is ignored."""

    type: str = ""
    id: str = ""
    call_id: str = ""
    arguments: Any = named("arguments", "action", "operation")
    input: str = ""
    namespace: str = ""
    output: Content = ""
    summary: Content = ""


class FunctionTool(Body):
    type: Literal["function"]
    name: Name
    description: str | None = None
    parameters: Object | None = None
    strict: bool | None = None


class TextFormat(Body):
    type: Literal["text"]


class GrammarFormat(Body):
    type: Literal["grammar"]
    syntax: Literal["lark", "regex"]
    definition: str


class CustomTool(Body):
    """A tool whose input is text, not an object."""

    type: Literal["custom"]
    name: Name
    description: str | None = None
    format: Annotated[TextFormat | GrammarFormat, Field(discriminator="type")] | None = None


class Namespace(Body):
    """Tools with a common name; Codex sends the tools of an MCP server so."""

    type: Literal["namespace"]
    name: Name
    tools: list["Tool"]


OWN_TOOLS = ("function", "custom", "namespace")


class HostedTool(Body):
    """A tool that would run at OpenAI, or that only OpenAI's models know. It is left out."""

    type: str


def _kind_of_tool(tool: Any) -> str:
    type = tool.get("type") if isinstance(tool, dict) else getattr(tool, "type", None)
    return type if type in OWN_TOOLS else "hosted"


Tool = Annotated[
    Annotated[FunctionTool, Tag("function")]
    | Annotated[CustomTool, Tag("custom")]
    | Annotated[Namespace, Tag("namespace")]
    | Annotated[HostedTool, Tag("hosted")],
    Discriminator(_kind_of_tool),
]


class AdditionalTools(Body):
    type: Literal["additional_tools"]
    tools: list[Tool]


def _kind_of_item(item: Any) -> str:
    tools = isinstance(item, dict) and item.get("type") == "additional_tools"
    return "tools" if tools else "item"


AnyItem = Annotated[
    Annotated[Item, Tag("item")] | Annotated[AdditionalTools, Tag("tools")],
    Discriminator(_kind_of_item),
]


class NamedChoice(Body):
    """The tool that must be called."""

    type: Literal["function", "custom"]
    name: Name


class ToolReference(Body):
    type: str
    name: str | None = None


class AllowedTools(Body):
    """The tools that may be called."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[ToolReference]


class SchemaFormat(Body):
    type: Literal["json_schema"]
    name: str | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None


class ObjectFormat(Body):
    type: Literal["json_object"]


class TextConfig(Body):
    format: (
        Annotated[TextFormat | SchemaFormat | ObjectFormat, Field(discriminator="type")] | None
    ) = None


class ResponsesBody(SamplingFields, FormFields, ThinkingFields):
    FORM = "text.format"
    model: str | None = None
    input: str | Annotated[list[AnyItem], Field(max_length=MOST_MESSAGES)] | None = None
    instructions: str | None = None
    tools: Annotated[list[Tool], Field(max_length=256)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedChoice | AllowedTools | None = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    stream: bool | None = None
    include: list[str] | None = None
    max_output_tokens: Limit = named("max_output_tokens", *LENGTHS)
    top_logprobs: Annotated[int, Field(ge=0, le=20), WHOLE] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    prompt: None = None  # one that is stored at OpenAI
