"""Measures how close the logits are where a greedy text leaves the plain one: see
`engine.near_ties`."""

from collections.abc import Sequence

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.device import fetch
from engine.near_ties import Fork, alike
from engine.virtual_ids import text_begins

_ROWS = (2, 3, 5, 9, 17)  # of a pass over a draft


def first_fork(decoder: Decoder, plain: Sequence[int], written: Sequence[int]) -> Fork | None:
    """Return the first difference between `written` and the `plain` text; None if they are equal,
    or if one only ends before the other. Both begin with their prompt.

    `decoder` has read a prefix of `plain`. Afterwards it holds the tokens before the difference.
    """
    at = alike(plain, written)
    if at == min(len(plain), len(written)):
        return None
    tokens = list(plain[:at])
    single = _read(decoder, tokens, 1)
    most = len(tokens) - text_begins(tokens)
    exact = decoder.promise.now.rows  # then rounding explains nothing
    blocks = [_read(decoder, tokens, rows) for rows in _ROWS if rows <= most and not exact]
    between = mx.abs(single[plain[at]] - single[written[at]])
    margin, *apart = fetch(between, *(mx.max(mx.abs(each - single)) for each in blocks))
    return Fork(at, plain[at], written[at], margin, 2.0 * max(apart, default=0.0))


def _read(decoder: Decoder, tokens: list[int], rows: int) -> mx.array:
    """Return the logits after `tokens`, (vocabulary,), float32, from a pass over the last `rows`
    of them, or over as many as there is room for."""
    decoder.rewind(len(tokens) - rows)
    for _ in decoder.prefill(tokens[: len(tokens) - rows + 1]):
        pass
    unread = tokens[decoder.length :]
    while len(unread) > decoder.timeline.room():
        decoder.read(mx.array(unread[:1]))
        unread = unread[1:]
    return decoder.read(mx.array(unread))[-1].astype(mx.float32)
