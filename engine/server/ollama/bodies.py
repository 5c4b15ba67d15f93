"""The bodies of requests to Ollama's API, as types. Knows nothing of the answers.

Fields that are not here, and options that only say how to compute, are ignored.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from engine.server.bodies import WHOLE, Body, named
from engine.server.fields import LENGTHS, SamplingFields
from engine.server.forms import FormFields
from engine.server.messages import MOST_MESSAGES, Message
from engine.server.thinking import ThinkingFields
from engine.server.tools import ToolFields


class Options(SamplingFields):
    """The settings of an answer. A `num_predict` below 1 is no limit, and a seed of -1 is none.

    `num_ctx`, the tokens of the context that the client reckons with: the context has the length
    that it was loaded with. A longer one takes nothing from the client, but an answer without
    another limit ends after `num_ctx` tokens; with a shorter one, what does not fit is refused.
    """

    temperature: Annotated[float, Field(ge=0, le=100)] | None = None  # Ollama has no limit
    num_predict: Annotated[int, WHOLE] | None = named("num_predict", *LENGTHS)
    num_ctx: Annotated[int, WHOLE] | None = None


class AnswerFields(FormFields, ThinkingFields):
    """The common fields of chat and generate. `format`: "json", or a schema."""

    FORM = "format"
    model: str = ""
    stream: bool = True
    format: Literal["json", ""] | dict[str, Any] | None = None
    options: Options = Options()
    truncate: bool | None = None
    keep_alive: Annotated[float, Field(ge=-1e9, le=1e9)] | str | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=20), WHOLE] = 0


class OllamaChatBody(AnswerFields, ToolFields):
    """A chat; without messages, the question whether there is a model. Ollama has no choice among
    tools, but some of its clients send one."""

    messages: Annotated[list[Message], Field(max_length=MOST_MESSAGES)] = Field(
        default_factory=list
    )


class GenerateBody(AnswerFields):
    """A prompt, which is a user's message unless it is `raw`, or has a gap before `suffix`."""

    prompt: str = ""
    system: str = ""
    suffix: str = ""
    raw: bool = False
    images: list[str] = Field(default_factory=list)


class ShowBody(Body):
    model: str | None = named("model", "name")
