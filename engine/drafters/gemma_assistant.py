"""A Gemma-4 assistant: four layers that attend to their target's keys and values.

It joins the embedding of a token with the target's state before it, and reads both with layers that
have queries only: the keys and values are of the target's last layer of the same type, full
or sliding, as the target has cached them. Its own state, as wide as the target's again, takes the
place of the target's in the next step.

Its output layer is its own embedding. In the smallest ones the tokens are in clusters, and only
tokens of the likeliest clusters get logits; the others cannot be proposed.

Knows the network, whose tensors are named as they are published.
"""

from collections.abc import Mapping, Sequence

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.gemma4_text import DecoderLayer, ModelArgs

from engine.core.cache import keys_and_values
from engine.core.decoder import Decoder
from engine.core.model_parts import embedding, embedding_scale
from engine.core.sampling import highest_ids
from engine.draft_length import LONGEST, DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.drafters.chain import DraftRequest, draft_chain
from engine.drafters.rows import Rows
from engine.drafters.weights import fill, other_target, read_tensors, require_fit
from engine.request import Sampling
from models.drafters.assistants import AssistantShape
from models.drafters.folders import DrafterFolder
from models.drafters.refusal import refused_as_damaged

Memory = Mapping[str, tuple[mx.array, mx.array]]
"""The keys and values that layers of each type attend to, (1, heads, positions, size) each."""


class _Trunk(nn.Module):
    """Embedding, layers and norm. `layers` get only the target's keys and values."""

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
        best = highest_ids(scores, self._likeliest)
        tokens = self.token_ordering.reshape(scores.shape[-1], -1)[best].flatten(1)
        logits = (embed(tokens) @ states[:, :, None])[..., 0]
        impossible = mx.full((states.shape[0], self.token_ordering.size), -mx.inf, logits.dtype)
        return mx.put_along_axis(impossible, tokens, logits, axis=-1)


class Assistant(nn.Module):
    """The trained network of a Gemma-4 assistant.

    `backbone`: the width of the target's states. `sizes`: as mlx-lm names a Gemma's. `clusters`:
    the number of clusters of tokens; only the `likeliest` get logits; 0 for an output
    layer over all tokens.
    """

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
        """Return the next state, (1, 1, backbone), and its logits, (1, vocabulary)."""
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
    """An assistant that reads the caches of its target.

    Attribute: `caches`, for each type of layer the number of the target's cache that it reads.
    """

    def __init__(self, assistant: Assistant, target: Decoder) -> None:
        """Raises `DrafterRefused` if the target's caches are not of the right kind."""
        self._assistant, self._last = assistant, target.vocabulary - 1
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
                raise other_target("This assistant groups its keys differently from the target.")
            self.caches[kind] = last[kind]

    def __call__(
        self, state: mx.array, token: mx.array, memory: Memory, position: int
    ) -> tuple[mx.array, mx.array]:
        """Return the next state, and the logits of the token after `token`: (1, vocabulary).

        `state`: (1, 1, width); `token`: (1,); `position`: of the last token in `memory`.
        """
        embedded = self._embed(mx.minimum(token, self._last)[None]) * self._scale
        return self._assistant(state, embedded, memory, position)


class AssistantDrafter(Drafter):
    """Drafts for `target`, whose states after the final norm are recorded from now on.

    It reads nothing before it drafts, and takes nothing back afterwards: a round begins with what
    the target's caches hold then, and the target's state of the last token in them.
    """

    def __init__(self, target: Decoder, network: AssistantNetwork, *, name: str) -> None:
        self.name = name
        self._target = target
        self._network = network
        self._states = target.record(("norm",))

    def fork(self, target: Decoder) -> Drafter:
        return type(self)(target, self._network, name=self.name)

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        return (DraftCandidate(self.name, LONGEST),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        end = self._target.length
        if not self._states.first < end == self._states.end:
            return None
        state = self._states.between(end - 1, end)[None, :, 0]
        layers = self._target.timeline.layers
        memory = {
            kind: keys_and_values(layers[place]) for kind, place in self._network.caches.items()
        }

        def read(inputs: mx.array) -> mx.array:
            """Read all of `inputs`, each at the position of the last key."""
            nonlocal state
            for token in mx.split(inputs, inputs.size):
                state, logits = self._network(state, token, memory, end - 1)
            return logits

        rows = Rows(self._target.vocabulary)
        asked = DraftRequest(tokens, choice, sampling, key, rows, self.name)
        return draft_chain(read, asked, unread=tokens[end:])


def load_gemma_assistant(folder: DrafterFolder, target: Decoder) -> AssistantDrafter:
    """The drafter in `folder`.

    Raises `DrafterRefused`, or `Problem` if the target does not lend a part that it needs.
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
        fill(assistant, tensors, target.model, bits=folder.held_bits)
    return AssistantDrafter(target, network, name=folder.description.name)
