"""How tokens are chosen where a client says some of it."""

from engine.request import Sampling
from engine.server.choosing import sampling_of

DEFAULT = Sampling(temperature=0.7, top_p=0.9, repetition_penalty=1.1)


def test_what_is_not_said_is_the_models_default() -> None:
    assert sampling_of(DEFAULT) == DEFAULT
    warmer = sampling_of(DEFAULT, temperature=1.5, top_k=3)
    assert (warmer.temperature, warmer.top_k, warmer.top_p) == (1.5, 3, 0.9)


def test_the_likeliest_token_is_not_penalized_by_default() -> None:
    assert sampling_of(DEFAULT, temperature=0) == Sampling()
    assert sampling_of(DEFAULT, temperature=0.0001) == Sampling()
    assert sampling_of(DEFAULT, top_p=0) == Sampling()
