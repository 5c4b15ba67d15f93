"""What is compared of a network that continues hidden states: see `engine.drafters.states`."""

import mlx.core as mx
import numpy as np

from engine.core.decoder import Decoder
from engine.drafters.states import StateNetwork
from tests.lab.parity.subjects import PROMPT, Arrays, numbers, of_tokens


def continued(network: StateNetwork, target: Decoder, *, drafted: int) -> Arrays:
    """Logits of all pairs of the prompt in one pass, and one by one with a cache; then a greedy
    draft from its own states, and the logits it was drawn from."""
    states = target.record(network.taps)
    target.read(mx.array(PROMPT[:-1]))
    begun = network.begin(states.between(0, len(PROMPT) - 1)[None])
    after = mx.array([PROMPT[1:]])

    def read_out(state: mx.array) -> mx.array:
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
