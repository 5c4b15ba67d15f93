"""The bodies of requests to Anthropic's API, as types. Knows nothing of the answers.

Fields that are not here are ignored, and null is the same as a missing field.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from engine.server.bodies import WHOLE, Body

Name = Annotated[str, Field(min_length=1, max_length=256)]


class TextBlock(Body):
    type: Literal["text"]
    text: str


class ToolUseBlock(Body):
    type: Literal["tool_use"]
    id: str
    name: Name
    input: dict[str, Any]


class ToolResultBlock(Body):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[TextBlock] | None = None
    is_error: bool | None = None


class ThinkingBlock(Body):
    type: Literal["thinking"]
    thinking: str


class RedactedThinkingBlock(Body):
    type: Literal["redacted_thinking"]


UserBlock = Annotated[TextBlock | ToolResultBlock, Field(discriminator="type")]
AssistantBlock = Annotated[
    TextBlock | ToolUseBlock | ThinkingBlock | RedactedThinkingBlock, Field(discriminator="type")
]


class UserMessage(Body):
    role: Literal["user"]
    content: str | list[UserBlock]


class AssistantMessage(Body):
    role: Literal["assistant"]
    content: str | list[AssistantBlock]


class SystemMessage(Body):
    """A reminder of Claude Code, at the place in the conversation where it became true."""

    role: Literal["system"]
    content: str | list[TextBlock]


Message = Annotated[UserMessage | AssistantMessage | SystemMessage, Field(discriminator="role")]


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


class MessagesBody(CountTokensBody):
    """A request for a message. Fields that must be empty ask for features that are not here."""

    max_tokens: Annotated[int, Field(ge=1), WHOLE]
    stream: bool | None = None
    stop_sequences: Annotated[list[Name], Field(max_length=16)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0), WHOLE] | None = None
    container: None = None
    mcp_servers: Annotated[list[Any], Field(max_length=0)] | None = None
