"""The bodies of requests to Ollama's API, as types. Knows nothing of the answers.

Fields that are not here, and options that only say how to compute, are ignored.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from engine.request import Thinking
from engine.server.bodies import WHOLE, Body, named
from engine.server.fields import SamplingFields, Stop, Stops
from engine.server.openai.tools import ToolFields

Role = Annotated[
    Literal["system", "user", "assistant", "tool"],
    BeforeValidator(lambda role: role.lower() if isinstance(role, str) else role),
]


class Options(SamplingFields):
    """The settings of an answer. A `num_predict` below 1 is no limit, and a seed of -1 is none.

    `num_ctx`, the tokens of the context that the client reckons with: the context has the length
    that it was loaded with. A longer one takes nothing from the client, but an answer without
    another limit ends after `num_ctx` tokens; with a shorter one, what does not fit is refused.
    """

    num_predict: Annotated[int, WHOLE] | None = named(
        "num_predict", "n_predict", "max_tokens", "max_completion_tokens", "max_output_tokens"
    )
    num_ctx: Annotated[int, WHOLE] | None = None
    stop: Stop | Stops | None = None


class AnswerFields(Body):
    """The common fields of chat and generate. `format`: "json", or a schema."""

    FORM = "format"
    model: str = ""
    stream: bool = True
    format: Literal["json", ""] | dict[str, Any] | None = None
    options: Options = Options()
    think: bool | Thinking = ""
    truncate: bool | None = None
    keep_alive: Annotated[float, Field(ge=-1e9, le=1e9)] | str | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=20), WHOLE] = 0


class CalledFunction(Body):
    name: str
    arguments: Any = None


class Called(Body):
    id: str = ""
    function: CalledFunction


class Message(Body):
    role: Role
    content: str = ""
    thinking: str = ""
    images: list[str] = Field(default_factory=list)
    tool_calls: list[Called] = Field(default_factory=list)
    tool_name: str | None = named("tool_name", "name")
    tool_call_id: str = ""


class OllamaChatBody(AnswerFields, ToolFields):
    """A chat; without messages, the question whether there is a model. Ollama has no choice among
    tools, but some of its clients send one."""

    messages: Annotated[list[Message], Field(max_length=4096)] = Field(default_factory=list)


class GenerateBody(AnswerFields):
    """A prompt, which is a user's message unless it is `raw`, or has a gap before `suffix`."""

    prompt: str = ""
    system: str = ""
    suffix: str = ""
    raw: bool = False
    images: list[str] = Field(default_factory=list)


class ShowBody(Body):
    model: str | None = named("model", "name")
