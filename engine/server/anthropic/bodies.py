"""The bodies of requests to Anthropic's API, as types. Knows nothing of the answers.

Fields that are not here are ignored, and null is the same as a missing field.
"""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field

from engine.server.bodies import WHOLE, Body, Object
from engine.server.fields import LENGTHS, SamplingFields
from engine.server.forms import FormFields
from engine.server.messages import Messages
from engine.server.thinking import ThinkingFields

Name = Annotated[str, Field(min_length=1, max_length=256)]


class TextBlock(Body):
    type: Literal["text"]
    text: str


class Tool(Body):
    """A tool. One with another `type` than "custom" would run at Anthropic, and is left out."""

    name: Name
    type: str | None = None
    description: str | None = None
    input_schema: Object | None = None
    strict: bool | None = None


class AnyChoice(Body):
    type: Literal["auto", "any", "none"]
    disable_parallel_tool_use: bool | None = None


class NamedChoice(Body):
    type: Literal["tool"]
    name: Name
    disable_parallel_tool_use: bool | None = None


ToolChoice = Annotated[AnyChoice | NamedChoice, Field(discriminator="type")]


class OutputFormat(Body):
    type: Literal["json_schema"]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class OutputConfig(Body):
    effort: str | None = None
    format: OutputFormat | None = None


class CountTokensBody(ThinkingFields):
    """The fields that the prompt is made of."""

    model: str | None = None
    messages: Messages
    system: str | list[TextBlock] | None = None
    tools: Annotated[list[Tool], Field(max_length=256)] | None = None
    tool_choice: ToolChoice | None = None
    output_config: OutputConfig | None = None


class MessagesBody(CountTokensBody, SamplingFields, FormFields):
    """A request for a message. `output_format` is the older name of what `output_config` has."""

    FORM = "output_config.format"
    max_tokens: Annotated[int, Field(ge=1), WHOLE] = Field(validation_alias=AliasChoices(*LENGTHS))
    stream: bool | None = None
    output_format: OutputFormat | None = None
