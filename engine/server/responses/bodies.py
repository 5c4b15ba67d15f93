"""The bodies of requests to /v1/responses, as types. Knows nothing of the answers.

Fields that are not here are ignored, and null is the same as a missing field. Fields that can only
be null ask for features that this server does not have.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, WithJsonSchema

from engine.server.bodies import WHOLE, Body, Limit, named
from engine.server.conversation import Content, Part
from engine.server.fields import SamplingFields
from engine.server.forms import FormFields

Name = Annotated[str, Field(min_length=1, max_length=256)]


class Message(Body):
    type: Literal["message"] | None = None
    role: Literal["user", "assistant", "system", "developer"]
    content: Content


class FunctionCall(Body):
    type: Literal["function_call"]
    call_id: str
    name: Name
    arguments: str
    namespace: str | None = None


class CustomToolCall(Body):
    type: Literal["custom_tool_call"]
    call_id: str
    name: Name
    input: str
    namespace: str | None = None


class CallOutput(Body):
    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    output: Content


class Reasoning(Body):
    """Reasoning. `encrypted_content` is ignored: it was not written by this server."""

    type: Literal["reasoning"]
    summary: list[Part] | None = None
    content: list[Part] | None = None


class FunctionTool(Body):
    type: Literal["function"]
    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
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

    type: Annotated[str, Field(json_schema_extra={"not": {"enum": list(OWN_TOOLS)}})]


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


_OWN_ITEMS = ["message", "function_call", "custom_tool_call", "function_call_output"]
_OWN_ITEMS += ["custom_tool_call_output", "reasoning", "additional_tools", "item_reference"]


class OtherItem(Body):
    """What was done at OpenAI, such as a search. A reference to what is stored there is refused."""

    type: Annotated[str, Field(max_length=64, json_schema_extra={"not": {"enum": _OWN_ITEMS}})]


def _kind_of_item(item: Any) -> str:
    type = item.get("type") if isinstance(item, dict) else getattr(item, "type", None)
    if type is None:
        return "message"
    if not isinstance(type, str) or type not in _OWN_ITEMS:
        return "other"
    return _OUTPUTS.get(type, type)


_OUTPUTS = dict.fromkeys(("function_call_output", "custom_tool_call_output"), "call_output")
Item = Annotated[
    Annotated[Message, Tag("message")]
    | Annotated[FunctionCall, Tag("function_call")]
    | Annotated[CustomToolCall, Tag("custom_tool_call")]
    | Annotated[CallOutput, Tag("call_output")]
    | Annotated[Reasoning, Tag("reasoning")]
    | Annotated[AdditionalTools, Tag("additional_tools")]
    | Annotated[OtherItem, Tag("other")],
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


class ReasoningConfig(Body):
    effort: str | None = None


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


def _at_once(background: bool) -> bool:
    if background:
        raise ValueError("Responses are not stored, so none can run in the background")
    return background


Background = Annotated[bool, AfterValidator(_at_once), WithJsonSchema({"const": False})]


class ResponsesBody(SamplingFields, FormFields):
    FORM = "text.format"
    model: str | None = None
    input: str | Annotated[list[Item], Field(max_length=4096)] | None = None
    instructions: str | None = None
    tools: Annotated[list[Tool], Field(max_length=256)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedChoice | AllowedTools | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningConfig | None = None
    thinking_budget: Annotated[int, Field(ge=0), WHOLE] | None = None  # is not in OpenAI's API
    text: TextConfig | None = None
    stream: bool | None = None
    include: list[str] | None = None
    max_output_tokens: Limit = named("max_output_tokens", "max_tokens", "max_completion_tokens")
    top_logprobs: Annotated[int, Field(ge=0, le=20), WHOLE] | None = None
    metadata: dict[str, str] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    background: Background | None = None
    previous_response_id: None = None
    conversation: None = None
    prompt: None = None
