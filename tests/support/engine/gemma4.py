"""Tiny Gemma-4 targets, and untrained assistants for them."""

from functools import cache

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.gemma4_text import ModelArgs

from engine.drafters.gemma_assistant import Assistant, AssistantDrafter, AssistantNetwork
from tests.support.engine.parity.subjects import subjects
from tests.support.engine.tiny import GAIN, build

_WHOLE, _CLUSTERED = subjects("gemma_assistant").values()
TARGETS = {
    "large": dict(_WHOLE.target),
    "small": dict(_CLUSTERED.target),  # its last layers read the caches of those before
    "wide": _WHOLE.target | {"head_dim": 32, "global_head_dim": 32},  # enough for quantized caches
}


@cache
def build_target(kind, *, vocabulary=64):
    """Build the target `kind` of `TARGETS`."""
    sizes = TARGETS[kind] | {"vocab_size_per_layer_input": vocabulary}
    return build("gemma4_text", vocabulary=vocabulary, sizes=sizes)


def untrained(kind, *, seed=0, vocabulary=64):
    """An assistant for one of `TARGETS`; that of the small one has clusters, of two tokens each."""
    text = _WHOLE.config["text_config"] | {"vocab_size": vocabulary, "num_kv_shared_layers": 4}
    text |= {name: TARGETS[kind][name] for name in ("head_dim", "global_head_dim")}
    clusters = vocabulary // 2 if kind == "small" else 0
    mx.random.seed(seed)
    assistant = Assistant(
        ModelArgs.from_dict(text),
        backbone=TARGETS[kind]["hidden_size"],
        clusters=clusters,
        likeliest=clusters // 2,
    )
    matrices = {n: GAIN * a for n, a in tree_flatten(assistant.parameters()) if a.ndim > 1}
    assistant.load_weights(list(matrices.items()), strict=False)
    if clusters:
        assistant.masked_embedding.token_ordering = mx.random.permutation(vocabulary)
    assistant.eval()
    mx.eval(assistant.parameters())
    return assistant


def assistant_drafter(target, kind, *, seed=0):
    """An untrained one."""
    assistant = untrained(kind, seed=seed, vocabulary=target.vocabulary)
    return AssistantDrafter(target, AssistantNetwork(assistant, target), name="Gemma-4 assistant")
