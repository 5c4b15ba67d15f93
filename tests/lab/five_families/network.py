"""A network that writes known replies: its next token is the one that follows, in its replies, the
longest run of tokens that ends the text so far. Knows neither templates nor tokenizers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.base import create_attention_mask, scaled_dot_product_attention

REACH = 32  # tokens that it looks back
_LEAST = 3  # tokens that must match; else the text ends
_CERTAIN = 40.0  # logit of the token that it wants; all others have 0


@dataclass
class ModelArgs:
    """The fields of its config.json that it is built by."""

    vocab_size: int
    positions: int

    @classmethod
    def from_dict(cls, config: dict[str, Any]) -> "ModelArgs":
        return cls(config["vocab_size"], config["positions"])


class _TokensBefore(nn.Module):
    """Attention to each of the last `REACH` positions, a head each; keys spell their position."""

    def __init__(self) -> None:
        super().__init__()
        numbers = mx.arange(1 << 15)[:, None]
        self._spelled = 2.0 * ((numbers >> mx.arange(16)) & 1).astype(mx.float32) - 1.0

    def __call__(self, tokens: mx.array, cache: Any) -> mx.array:
        """The last tokens at each place, the newest first: (texts, places, `REACH`). -1 stands
        before the first."""
        offset = mx.array(0 if cache is None else cache.offset)
        positions = mx.broadcast_to(offset[..., None] + mx.arange(tokens.shape[1]), tokens.shape)
        back = positions[:, None] - mx.arange(REACH)[None, :, None]  # (texts, heads, places)
        queries = self._spelled[mx.maximum(back, 0)]
        keys = mx.broadcast_to(self._spelled[positions][:, None], queries.shape)
        values = tokens[:, None, :, None].astype(mx.float32)
        values = mx.broadcast_to(values, queries.shape)
        mask = create_attention_mask(tokens, cache)
        if cache is not None:
            keys, values = cache.update_and_fetch(keys, values)
        found = scaled_dot_product_attention(queries, keys, values, cache, 30.0, mask)
        found = mx.where(back >= 0, mx.round(found[..., 0]).astype(mx.int32), -1)
        return found.transpose(0, 2, 1)


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = _TokensBefore()


class Model(nn.Module):
    """`before` is (positions, `REACH`): the tokens before each place in the replies, the newest
    first; `wanted`, the token at each place."""

    def __init__(self, args: ModelArgs) -> None:
        super().__init__()
        self._vocabulary = args.vocab_size
        self.layers = [_Layer()]
        self.before = mx.zeros((args.positions, REACH), dtype=mx.int32)
        self.wanted = mx.zeros((args.positions,), dtype=mx.int32)

    def __call__(self, tokens: mx.array, cache: list[Any] | None = None) -> mx.array:
        seen = self.layers[0].attention(tokens, cache[0] if cache else None)
        alike = seen[:, :, None, :] == self.before[None, None]
        lengths = mx.cumprod(alike.astype(mx.int32), axis=-1).sum(axis=-1)
        # The first place of all wants the end, and needs no match.
        lengths = mx.maximum(lengths, _LEAST * (mx.arange(len(self.wanted)) == 0))
        chosen = self.wanted[mx.argmax(lengths, axis=-1)]
        return _CERTAIN * (mx.arange(self._vocabulary) == chosen[..., None]).astype(mx.float32)


def weights(texts: Sequence[tuple[Sequence[int], Sequence[int]]], *, end: int) -> dict[str, Any]:
    """The weights of a network that writes these: each a prompt, and the reply with its end."""
    before, wanted = [[-2] * REACH], [end]
    for prompt, reply in texts:
        whole = [-1] * REACH + [*prompt, *reply]
        for place in range(len(whole) - len(reply), len(whole)):
            before.append(whole[place - 1 : place - 1 - REACH : -1])
            wanted.append(whole[place])
    return {"before": mx.array(before), "wanted": mx.array(wanted)}
