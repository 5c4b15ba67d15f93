"""What the subjects that draft blocks have in common: their tensors, and how they are walked.

A walk reads the context of the prompt in one piece and drafts a block; reads what three more tokens
add and drafts again with the same caches; and drafts once more where the whole context was read
position by position.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.core as mx
import numpy as np

from engine.core.decoder import Decoder
from engine.drafters.block_folders import block_network
from models.drafters.folders import describe_drafter
from tests.lab.parity.subjects import (
    PROMPT,
    WIDTH,
    Arrays,
    Subject,
    hidden_states,
    numbers,
    of_tokens,
    target_reads_as_mlx_does,
)

MORE = (20, 33, 6)
MASK = 63
TAPS = (2, 5, 7)  # as numbered here: in `target_layer_ids` they are one less

Context = Callable[[mx.array, int], None]
"""Append states (n, taps * width) from a position on."""
Draft = Callable[[int, int], Arrays]
"""Draft a block behind this token at this position: its logits, and the greedy tokens."""


def walk(subject: Subject, begin: Callable[[], tuple[Context, Draft]]) -> Arrays:
    """What a drafter drafts on the way; `begin` gives one with empty caches."""
    tokens = [*PROMPT, *MORE]
    states = hidden_states(subject.target_model(), tokens)
    taps = mx.concatenate([states[tap] for tap in TAPS], axis=-1)
    known = len(PROMPT) - 1

    extend, draft = begin()
    extend(taps[:known], 0)
    first = draft(tokens[known], known)
    extend(taps[known : len(tokens) - 1], known)
    second = draft(tokens[-1], len(tokens) - 1)

    extend, draft = begin()
    for position in range(len(tokens) - 1):
        extend(taps[position : position + 1], position)
    parts = {"first": first, "second": second, "by steps": draft(tokens[-1], len(tokens) - 1)}
    return {
        f"{part} {name}": array for part, arrays in parts.items() for name, array in arrays.items()
    }


@target_reads_as_mlx_does
def ours(subject: Subject) -> Arrays:
    """By our network."""
    target = Decoder(subject.target_model())
    with TemporaryDirectory() as folder:
        network = block_network(describe_drafter(subject.write(Path(folder))), target)
        mx.eval(network.weights.parameters())
    assert network.taps == TAPS

    def begin() -> tuple[Context, Draft]:
        cache = network.make_cache()

        def extend(states: mx.array, position: int) -> None:
            network.extend(states.reshape(1, -1, len(TAPS), WIDTH), position, cache)

        def draft(anchor: int, position: int) -> Arrays:
            block = network.block(anchor, network.most, position, cache)
            logits, tokens, sure = [], [], []
            previous = mx.array([anchor])
            for _ in range(network.most):
                logits.append(of_tokens(block.read(previous), network.rows))
                previous = mx.argmax(logits[-1], axis=-1)
                tokens.append(previous)
                if block.confidence is not None:
                    sure.append(block.confidence(previous))
            return drafted(logits, tokens, sure)

        return extend, draft

    return walk(subject, begin)


def drafted(logits: list[mx.array], tokens: list[mx.array], sure: list[mx.array]) -> Arrays:
    """Logits (1, vocabulary), tokens (1,) and confidences (1,), together."""
    arrays = {
        "logits": numbers(mx.concatenate(logits)),
        "tokens": numbers(mx.concatenate(tokens)).astype(np.int32),
    }
    return arrays | ({"confidence": numbers(mx.concatenate(sure))} if sure else {})
