"""The fields that chat completions and completions share: sampling, the end of an answer, usage."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, field_validator

from engine.process.protocol import Loaded
from engine.request import Request, Sampling
from engine.server.answers import Usage
from engine.server.bodies import WHOLE, Body
from engine.server.choosing import sampling_of
from engine.server.errors import invalid
from models.errors import Problem

MOST_STOPS = 16
MOST_CHOICES = 8
MOST_BIASES = 1024
_SEEDS = 1 << 64

Stop = Annotated[str, Field(min_length=1)]  # an empty one would end every answer at once
Token = Annotated[int, Field(ge=0), WHOLE]


class StreamOptions(Body):
    include_usage: bool = False


class ChoosingFields(Body):
    """The common fields of both bodies. A missing field takes the model's own default."""

    model: str = ""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1), WHOLE] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] = Field(
        default_factory=dict, max_length=MOST_BIASES
    )
    seed: Annotated[int, Field(ge=-(1 << 63), lt=_SEEDS), WHOLE] | None = None
    n: Annotated[int, Field(ge=1, le=MOST_CHOICES), WHOLE] = 1
    stop: Stop | Annotated[list[Stop], Field(max_length=MOST_STOPS)] = Field(default_factory=list)
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()

    @field_validator("stop", mode="after")
    @classmethod
    def _stops(cls, stop: str | list[str]) -> list[str]:
        return [stop] if isinstance(stop, str) else stop

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream and self.stream_options.include_usage


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
            sampling=_sampling(body, loaded),
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


def _sampling(body: ChoosingFields, loaded: Loaded) -> Sampling:
    given: dict[str, Any] = {
        name: value
        for name in ("min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
        if (value := getattr(body, name)) is not None
    }
    if body.seed is not None:
        given |= {"seed": body.seed % _SEEDS, "repeatable": True}
    given["logit_bias"] = {
        _token(text, loaded.vocabulary): bias for text, bias in body.logit_bias.items()
    }
    top_k = None if body.top_k is None else max(0, body.top_k)
    sampling = sampling_of(
        loaded.sampling, temperature=body.temperature, top_p=body.top_p, top_k=top_k
    )
    return replace(sampling, **given)


def _token(text: str, vocabulary: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) < vocabulary):
        raise invalid(f"logit_bias: {text[:20]!r} is no token of this model.", "logit_bias")
    return int(text)
