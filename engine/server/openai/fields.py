"""The fields that chat completions and completions share: the end of an answer, usage."""

from typing import Annotated, Any

from pydantic import Field

from engine.process.protocol import Loaded
from engine.request import Request
from engine.server.answers import Usage
from engine.server.bodies import WHOLE, Body, named
from engine.server.errors import invalid
from engine.server.fields import SamplingFields, sampling_in
from engine.server.forms import FormFields, form_in
from engine.server.openai.forms import ResponseFormat, grammar_of
from models.errors import Problem

MOST_CHOICES = 8


class StreamOptions(Body):
    include_usage: bool = named("include_usage", "include", default=False)


class ChoosingFields(SamplingFields, FormFields):
    """The common fields of both bodies."""

    FORM = "response_format"
    model: str = ""
    response_format: ResponseFormat | None = None
    n: Annotated[int, Field(ge=1, le=MOST_CHOICES), WHOLE] = 1
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    usage: StreamOptions = StreamOptions()  # as OpenRouter has it

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        wished = self.stream_options.include_usage or self.usage.include_usage
        return self.stream and wished


def request_of(
    body: ChoosingFields,
    loaded: Loaded,
    *,
    max_tokens: int | None,
    **more: Any,
) -> Request:
    """Make the engine's request. `more`: as for `Request`. Raises Refusal."""
    most = loaded.context_length
    try:
        return Request(
            sampling=sampling_in(body, loaded),
            grammar=form_in(body, grammar_of(body.response_format)),
            max_tokens=most if max_tokens is None else min(max_tokens, most),
            stops=tuple(body.stop),
            **more,
        )
    except Problem as problem:
        raise invalid(str(problem)) from None


def usage_json(usages: list[Usage], *, n: int) -> dict[str, Any]:
    """The usage of `n` answers to each prompt. A prompt counts once."""
    first = usages[::n]
    prompt = sum(usage.prompt for usage in first)
    completion = sum(usage.completion for usage in usages)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sum(usage.cached for usage in first)},
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.reasoning for usage in usages),
            "accepted_prediction_tokens": sum(usage.prediction_accepted for usage in usages),
            "rejected_prediction_tokens": sum(usage.prediction_rejected for usage in usages),
        },
        "slipstream": {
            "rounds": sum(usage.rounds for usage in usages),
            "drafted": sum(usage.drafted for usage in usages),
            "accepted": sum(usage.accepted for usage in usages),
            "forced": sum(usage.forced for usage in usages),
            "draft": next((usage.draft for usage in usages if usage.draft), None),
        },
    }
