"""A Gemma-4 assistant: four layers that attend to their target's keys and values.

It joins the embedding of a token with the target's state before it, and reads both with layers that
have queries only: the keys and values are those of the target's last layer of the same type, full
or sliding, as the target has cached them. Its own state, as wide as the target's again, takes the
place of the target's in the next step.

Its output layer is its own embedding. In the smallest ones the tokens are in clusters, and only
those of the likeliest clusters get logits; the others cannot be proposed.

Knows the network, whose tensors are named as they are published.
"""

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.gemma4_text import DecoderLayer, ModelArgs

from engine.core.decoder import Decoder
from engine.core.model_parts import embedding, embedding_scale
from engine.drafters.caches import CacheDrafter, Memory
from engine.drafters.weights import fill, other_target, read_tensors, require_fit
from models.drafters.assistants import AssistantShape
from models.drafters.folders import DrafterFolder
from models.drafters.refusal import refused_as_damaged


class _Trunk(nn.Module):
    """Embedding, layers and norm. `layers` get no keys and values but those of the target."""

    def __init__(self, sizes: ModelArgs) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(sizes.vocab_size, sizes.hidden_size)
        self.layers = [DecoderLayer(sizes, i) for i in range(sizes.num_hidden_layers)]
        self.norm = nn.RMSNorm(sizes.hidden_size, eps=sizes.rms_norm_eps)


class ClusteredOutput(nn.Module):
    """Logits of the tokens in the `likeliest` clusters. `token_ordering` lists the tokens, cluster
    by cluster; all clusters have as many."""

    def __init__(self, width: int, vocabulary: int, *, clusters: int, likeliest: int) -> None:
        super().__init__()
        self.centroids = nn.Linear(width, clusters, bias=False)
        self.token_ordering = mx.zeros((vocabulary,), dtype=mx.int32)
        self._likeliest = likeliest

    def __call__(self, states: mx.array, embed: nn.Module) -> mx.array:
        """(n, width) to (n, vocabulary); `embed` gives the output layer's vectors of token ids."""
        scores = self.centroids(states)
        best = mx.argpartition(scores, kth=-self._likeliest, axis=-1)[:, -self._likeliest :]
        tokens = self.token_ordering.reshape(scores.shape[-1], -1)[best].flatten(1)
        logits = (embed(tokens) @ states[:, :, None])[..., 0]
        impossible = mx.full((states.shape[0], self.token_ordering.size), -mx.inf, logits.dtype)
        return mx.put_along_axis(impossible, tokens, logits, axis=-1)


class Assistant(nn.Module):
    """The trained network. `backbone`: the width of the target's states; `sizes`: as mlx-lm names a
    Gemma's; `clusters` and how many of them are likely enough, 0 for an output layer of all."""

    def __init__(
        self, sizes: ModelArgs, *, backbone: int, clusters: int = 0, likeliest: int = 0
    ) -> None:
        super().__init__()
        width = sizes.hidden_size
        self.pre_projection = nn.Linear(2 * backbone, width, bias=False)
        self.model = _Trunk(sizes)
        self.post_projection = nn.Linear(width, backbone, bias=False)
        if clusters:
            self.masked_embedding = ClusteredOutput(
                width, sizes.vocab_size, clusters=clusters, likeliest=likeliest
            )

    def __call__(
        self, state: mx.array, embedded: mx.array, memory: Memory, position: int
    ) -> tuple[mx.array, mx.array]:
        """The next state, and its logits: (1, 1, backbone) each to that and (1, vocabulary)."""
        x = self.pre_projection(mx.concatenate([embedded, state], axis=-1))
        for layer in self.model.layers:
            x, *_ = layer(x, shared_kv=memory[layer.layer_type], offset=position)
        x = self.model.norm(x)
        return self.post_projection(x), self._logits(x[0])

    def _logits(self, x: mx.array) -> mx.array:
        embed = self.model.embed_tokens
        if "masked_embedding" in self:
            return self.masked_embedding(x, embed)
        return embed.as_linear(x)


class AssistantNetwork:
    """An assistant as `engine.drafters.caches.CacheDrafter` drafts with it, for its target."""

    def __init__(self, assistant: Assistant, target: Decoder) -> None:
        """Raises `DrafterRefused` where the target's caches are not of the right kind."""
        self._assistant = assistant
        self._embed, self._scale = embedding(target.model), embedding_scale(target.model)
        # Layers at the end may have no caches of their own, and read those before them.
        cached = target.model.layers[: len(target.timeline.layers)]
        last = {getattr(layer, "layer_type", ""): place for place, layer in enumerate(cached)}
        self.caches: dict[str, int] = {}
        for layer in assistant.model.layers:
            kind, queries = layer.layer_type, layer.self_attn
            keys = cached[last[kind]].self_attn if kind in last else None
            if keys is None or keys.head_dim != queries.head_dim:
                raise other_target("This assistant attends to keys that the target does not have.")
            if queries.n_heads % keys.n_kv_heads:
                raise other_target("This assistant shares keys otherwise than the target has them.")
            self.caches[kind] = last[kind]

    def __call__(
        self, state: mx.array, token: mx.array, memory: Memory, position: int
    ) -> tuple[mx.array, mx.array]:
        embedded = self._embed(token[None]) * self._scale
        return self._assistant(state, embedded, memory, position)


def load_gemma_assistant(folder: DrafterFolder, target: Decoder) -> CacheDrafter:
    """The drafter in `folder`.

    Raises `DrafterRefused`, or `Problem` where the target does not lend what it needs.
    """
    shape: AssistantShape = folder.network
    require_fit(folder, target)
    with refused_as_damaged(folder.path):
        assistant = Assistant(
            ModelArgs.from_dict(dict(shape.layers)),
            backbone=shape.backbone,
            clusters=shape.clusters,
            likeliest=shape.likeliest,
        )
    network = AssistantNetwork(assistant, target)
    tensors = read_tensors(folder)
    with refused_as_damaged(folder.path):
        fill(assistant, tensors, target.model)
    return CacheDrafter(target, network, name=folder.description.name)
