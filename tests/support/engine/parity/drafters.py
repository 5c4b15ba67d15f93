"""What our networks compute for the drafters of `subjects`.

Blocks are walked: a walk reads the context of the prompt in one piece and drafts a block; reads
what three more tokens add and drafts again with the same caches; and drafts once more where the
whole context was read position by position.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.core as mx
import numpy as np

from engine.core.decoder import Decoder
from engine.draft_length import DraftChoice
from engine.drafters import eagle, mtp
from engine.drafters.block import block_network
from engine.drafters.gemma_assistant import load_gemma_assistant
from engine.request import Sampling
from models.drafters.folders import describe_drafter
from tests.support.engine.parity.subjects import (
    PROMPT,
    WIDTH,
    Arrays,
    hidden_states,
    numbers,
    of_tokens,
    subjects,
    target_reads_as_mlx_does,
)

MORE = (20, 33, 6)
TAPS = (2, 5, 7)  # as numbered here: in `target_layer_ids` they are one less

"""Append states (n, taps * width) from a position on."""
Draft = Callable[[int, int], Arrays]
"""Draft a block after this token at this position: its logits, and the greedy tokens."""


def walked(subject, begin):
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


def of_blocks(subject):
    """Logits, tokens and confidences of the blocks of a walk."""
    target = Decoder(subject.target_model())
    with TemporaryDirectory() as folder:
        network = block_network(describe_drafter(subject.write(Path(folder))), target)
        mx.eval(network.weights.parameters())
    assert network.taps == TAPS

    def begin():
        cache = network.make_cache()

        def extend(states, position):
            network.extend(states.reshape(1, -1, len(TAPS), WIDTH), position, cache)

        def draft(anchor, position):
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

    return walked(subject, begin)


def drafted(logits, tokens, sure):
    """Logits (1, vocabulary), tokens (1,) and confidences (1,), together."""
    arrays = {
        "logits": numbers(mx.concatenate(logits)),
        "tokens": numbers(mx.concatenate(tokens)).astype(np.int32),
    }
    return arrays | ({"confidence": numbers(mx.concatenate(sure))} if sure else {})


def continued(network, target, *, drafted):
    """Logits of all pairs of the prompt in one pass, and one by one with a cache; then a greedy
    draft from its own states, and the logits it was drawn from."""
    states = target.record(network.taps)
    target.read(mx.array(PROMPT[:-1]))
    begun = network.begin(states.between(0, len(PROMPT) - 1)[None])
    after = mx.array([PROMPT[1:]])

    def read_out(state):
        return of_tokens(network.logits(state)[0], network.rows)

    prefill = read_out(network(begun, after, "causal", network.make_cache()))

    cache, steps = network.make_cache(), []
    for i in range(after.shape[1]):
        state = network(begun[:, i : i + 1], after[:, i : i + 1], None, cache)
        steps.append(read_out(state))
    draft, logits = [], []
    for _ in range(drafted):
        logits.append(read_out(state))
        draft.append(mx.argmax(logits[-1], axis=-1))
        state = network(network.go_on(state), draft[-1][None], None, cache)
    return {
        "prefill": numbers(prefill),
        "steps": numbers(mx.concatenate(steps)),
        "drafted logits": numbers(mx.concatenate(logits)),
        "draft": numbers(mx.concatenate(draft)).astype(np.int32),
    }


def of_pairs(load, drafted):
    """What is compared of a network that continues hidden states: see `engine.drafters.states`."""

    def ours(subject):
        target = Decoder(subject.target_model())
        with TemporaryDirectory() as folder:
            network = load(describe_drafter(subject.write(Path(folder))), target)
        return continued(network, target, drafted=drafted)

    return ours


def of_rows(subject):
    """Logits of all rows, and then of each row gone on from its own state with the tokens that come
    next, with a cache of its own."""
    target = Decoder(subject.target_model())
    with TemporaryDirectory() as folder:
        network = eagle.load_network(describe_drafter(subject.write(Path(folder))), target)
    states = target.record(network.taps)
    target.read(mx.array(PROMPT[:-1]))
    begun = network.begin(states.between(0, len(PROMPT) - 1)[None])
    after = mx.array([PROMPT[1:]])
    # In training a window does not move on with the steps.
    count = 1 if subject.name == "eagle3-window" else 3
    made = []

    def read_out(state):
        return of_tokens(network.logits(state), network.rows)

    for row in range(after.shape[1]):
        cache = network.make_cache()
        state = network(begun[:, : row + 1], after[:, : row + 1], "causal", cache)[:, -1:]
        made.append([read_out(state)[0, 0]])
        for step in range(1, count):
            token = after[:, row + step] if row + step < after.shape[1] else mx.zeros(1, mx.int32)
            state = network(network.go_on(state), token[None], None, cache)
            made[-1].append(read_out(state)[0, 0])
    return {"logits": numbers(mx.stack([mx.stack(row) for row in made], axis=1))}


def of_assistants(subject):
    """Logits and tokens of drafts after fewer tokens than the window has, and after more."""
    target = Decoder(subject.target_model(), block=4)
    with TemporaryDirectory() as folder:
        drafter = load_gemma_assistant(describe_drafter(subject.write(Path(folder))), target)
    given = {}
    for length in (4, len(PROMPT)):
        tokens = list(PROMPT[:length])
        target.rewind(0)
        list(target.prefill(tokens))
        network = drafter._network
        seen = []

        def watching(*inputs):
            state, logits = network(*inputs)  # noqa: B023
            seen.append(logits)  # noqa: B023
            return state, logits

        watching.caches = network.caches
        drafter._network = watching
        draft = drafter.propose(tokens, DraftChoice(4), Sampling(), mx.random.key(0))
        drafter._network = network
        assert draft is not None
        given[f"logits after {length}"] = numbers(mx.concatenate(seen))
        given[f"draft after {length}"] = numbers(draft.tokens).astype(np.int32)
    return given


_KINDS = {
    "eagle pairs": of_pairs(eagle.load_network, 5),
    "eagle rows": of_rows,
    "mtp": of_pairs(mtp.load_network, 4),
    "gemma_assistant": of_assistants,
    "dflash": of_blocks,
    "dspark": of_blocks,
}
BY_KIND = {kind: subjects(kind) for kind in _KINDS}
EAGLES = BY_KIND["eagle pairs"] | BY_KIND["eagle rows"]
DRAFTERS = {name: each for kind in BY_KIND.values() for name, each in kind.items()}


@target_reads_as_mlx_does
def ours(subject):
    """What our network gives, with our target's caches and recording."""
    kind = next(kind for kind, known in BY_KIND.items() if subject.name in known)
    return _KINDS[kind](subject)
