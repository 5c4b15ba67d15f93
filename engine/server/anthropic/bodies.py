"""The bodies of requests to Anthropic's API, as types. Knows nothing of the answers.

Fields that are not here are ignored, and null is the same as a missing field.
"""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from engine.server.bodies import WHOLE, Body, named
from engine.server.conversation import Content, Part
from engine.server.fields import SamplingFields, Stops
from engine.server.forms import FormFields

Name = Annotated[str, Field(min_length=1, max_length=256)]


class TextBlock(Body):
    type: Literal["text"]
    text: str


class ToolUseBlock(Body):
    """A call. Its input is an object, unless a model wrote something else."""

    type: Literal["tool_use"]
    id: str
    name: Name
    input: Any = None


class ToolResultBlock(Body):
    type: Literal["tool_result"]
    tool_use_id: str
    content: Content | None = None
    is_error: bool | None = None


class ThinkingBlock(Body):
    type: Literal["thinking"]
    thinking: str


_KINDS = {
    "tool_use": ToolUseBlock,
    "tool_result": ToolResultBlock,
    "thinking": ThinkingBlock,
}


class OtherBlock(Part):
    """A text, or what is not text, such as an image."""

    type: Annotated[str, Field(max_length=64, json_schema_extra={"not": {"enum": [*_KINDS]}})]


def _kind_of_block(block: Any) -> str:
    type = block.get("type") if isinstance(block, dict) else getattr(block, "type", None)
    return type if isinstance(type, str) and type in _KINDS else "other"


Block = Annotated[
    Annotated[ToolUseBlock, Tag("tool_use")]
    | Annotated[ToolResultBlock, Tag("tool_result")]
    | Annotated[ThinkingBlock, Tag("thinking")]
    | Annotated[OtherBlock, Tag("other")],
    Discriminator(_kind_of_block),
]


class Message(Body):
    """A message. Claude Code has reminders of the system's where they became true."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class Tool(Body):
    """A tool. One with another `type` than "custom" would run at Anthropic, and is left out."""

    name: Name
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class AnyChoice(Body):
    type: Literal["auto", "any", "none"]
    disable_parallel_tool_use: bool | None = None


class NamedChoice(Body):
    type: Literal["tool"]
    name: Name
    disable_parallel_tool_use: bool | None = None


ToolChoice = Annotated[AnyChoice | NamedChoice, Field(discriminator="type")]


class ThinkingConfig(Body):
    """Whether the model reasons, and after how many tokens its answer begins."""

    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    budget_tokens: Annotated[int, Field(ge=0), WHOLE] | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(Body):
    type: Literal["json_schema"]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class OutputConfig(Body):
    effort: str | None = None
    format: OutputFormat | None = None


class CountTokensBody(Body):
    """The fields that the prompt is made of."""

    model: str | None = None
    messages: Annotated[list[Message], Field(min_length=1, max_length=4096)]
    system: str | list[TextBlock] | None = None
    tools: Annotated[list[Tool], Field(max_length=256)] | None = None
    tool_choice: ToolChoice | None = None
    thinking: ThinkingConfig | None = None
    output_config: OutputConfig | None = None


class MessagesBody(CountTokensBody, SamplingFields, FormFields):
    """A request for a message. Fields that must be empty ask for features that are not here.

    `output_format` is the older name of what `output_config` has.
    """

    FORM = "output_config.format"
    max_tokens: Annotated[int, Field(ge=1), WHOLE]
    stream: bool | None = None
    stop_sequences: Stops | None = named("stop_sequences", "stop")
    output_format: OutputFormat | None = None
    container: None = None
    mcp_servers: Annotated[list[Any], Field(max_length=0)] | None = None
