"""Writes log probabilities in the forms of chat completions and of completions.

They are the target's after bias, penalties and grammar, at temperature 1 and before all filters.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from engine.events import TokenLogprob

_NEVER = -9999.0  # in place of minus infinity, which JSON does not have


def chat_logprobs(tokens: Iterable[TokenLogprob]) -> list[dict[str, Any]]:
    """The `content` of a choice's logprobs: an object per token, with `top_logprobs` in it.

    A token's text has U+FFFD for part of a character; its `bytes` are exact.
    """
    return [
        {
            **_token(token.bytes, token.logprob),
            "top_logprobs": [_token(top.bytes, top.logprob) for top in token.top],
        }
        for token in tokens
    ]


def text_logprobs(tokens: Sequence[TokenLogprob], begin: int) -> dict[str, Any]:
    """The logprobs of a choice of completions: lists with an entry per token. `begin`: the place of
    the first one in the whole text."""
    texts = [_text(token.bytes) for token in tokens]
    return {
        "tokens": texts,
        "token_logprobs": [_finite(token.logprob) for token in tokens],
        "top_logprobs": [
            {_text(top.bytes): _finite(top.logprob) for top in token.top} for token in tokens
        ],
        "text_offset": [*accumulate(map(len, texts), initial=begin)][:-1],
    }


def _token(data: tuple[int, ...], logprob: float) -> dict[str, Any]:
    return {"token": _text(data), "bytes": list(data), "logprob": _finite(logprob)}


def _text(data: tuple[int, ...]) -> str:
    return bytes(data).decode(errors="replace")


def _finite(logprob: float) -> float:
    return max(logprob, _NEVER)
