"""The fields that choose tokens, alike in all dialects, with the names of neighbours."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from engine.process.protocol import Loaded
from engine.request import Sampling
from engine.server.bodies import WHOLE, Body, named
from engine.server.errors import invalid

SEEDS = 1 << 64
_LONGEST_WINDOW = 1 << 20

LENGTHS = (
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens"),
    *("n_predict", "num_predict"),
)


def _stops(given: Any) -> Any:
    given = [given] if isinstance(given, str) else given
    # An empty one would end every answer at once.
    return [stop for stop in given if stop not in ("", None)] if isinstance(given, list) else given


Stops = Annotated[list[str], BeforeValidator(_stops)]
Probability = Annotated[float, Field(ge=0, le=1)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Repetition = Annotated[
    float, Field(ge=0.01, le=100), BeforeValidator(lambda given: 1.0 if given == 0 else given)
]


class SamplingFields(Body):
    """A missing field takes the model's own default."""

    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Probability | None = None
    top_k: Annotated[int, Field(ge=-1), WHOLE] | None = None
    min_p: Probability | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Repetition | None = named("repetition_penalty", "repeat_penalty")
    repeat_last_n: Annotated[int, Field(ge=-1, le=_LONGEST_WINDOW), WHOLE] | None = named(
        "repeat_last_n", "penalty_last_n"
    )
    seed: Annotated[int, Field(ge=-(1 << 63), lt=SEEDS), WHOLE] | None = named(
        "seed", "random_seed", "sampling_seed"
    )
    stop: Stops = named("stop", "stop_sequences", "stop_strings", default=[])
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] = Field(default_factory=dict)


def sampling_in(body: SamplingFields, loaded: Loaded) -> Sampling:
    """Return the sampling that a body asks for. Raises Refusal.

    `repeat_last_n`: the penalties look at that many tokens; at all with -1, and at none with 0.
    """
    names = ("min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
    values = {name: getattr(body, name) for name in ("temperature", "top_p", "top_k", *names)}
    given = {name: value for name, value in values.items() if value is not None}
    if given.get("top_p") == 0:  # the likeliest token alone; in `Sampling` it would mean "all"
        given |= {"top_p": 1.0, "temperature": 0.0}
    if given.get("temperature", 1.0) < 0.001:  # below it `Sampling` has only 0
        given["temperature"] = 0.0
    if given.get("top_k") == -1:
        given["top_k"] = 0
    if body.repeat_last_n == 0:
        given |= {"presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0}
    elif body.repeat_last_n is not None:
        window = body.repeat_last_n if body.repeat_last_n > 0 else loaded.context_length
        given["penalty_window"] = min(window, _LONGEST_WINDOW)
    if body.seed is not None and body.seed != -1:  # which is none to most neighbours
        given |= {"seed": body.seed % SEEDS, "repeatable": True}
    given["logit_bias"] = {
        _token(text, loaded.vocabulary): bias for text, bias in body.logit_bias.items()
    }
    greedy = given.get("temperature") == 0.0  # the likeliest tokens, without default penalties
    return replace(Sampling() if greedy else loaded.sampling, **given)


def check_gap(suffix: str | None, loaded: Loaded) -> None:
    """Raise Refusal for a suffix if the model fills no gaps."""
    if suffix and not loaded.fills_gaps:
        raise invalid("This model cannot fill gaps: it has no tokens for that.", "suffix")


def _token(text: str, vocabulary: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) < vocabulary):
        raise invalid(f"logit_bias: {text[:20]!r} is not a token id of this model.", "logit_bias")
    return int(text)
