"""Gemma-4 assistants, as transformers has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.drafters.kinds import DrafterDescription
from models.drafters.published import NORM, Published

_LIKELIEST = 32  # where a config does not say


@dataclass(frozen=True, slots=True)
class AssistantShape:
    """The sizes of an assistant: `layers`, as mlx-lm names a Gemma's sizes; `backbone`, the
    width of the target's states; `clusters` of tokens and how many of them are likely enough, 0 for
    an output layer of all tokens."""

    layers: Mapping[str, Any]
    backbone: int
    clusters: int
    likeliest: int


def read(published: Published) -> DrafterDescription:
    """It reads the keys and values of the target's last layers; its embedding is its head."""
    fused = published.matrix("pre_projection.weight")
    return published.describe(
        taps=NORM,
        own_embedding=False,
        own_head=published.has("model.embed_tokens.weight")
        or any(name.endswith("lm_head.weight") for name in published.tensors),
        verifier="",
        demands=published.demands(width=published.width(fused, 2)),
    )


def shape_of(published: Published, described: DrafterDescription) -> AssistantShape:
    """The sizes that the network is built by. Raises KeyError, IndexError, TypeError."""
    sizes = dict(published.config["text_config"])
    # All of its layers do without keys and values; and they have no per-layer inputs.
    sizes |= {"num_kv_shared_layers": sizes["num_hidden_layers"]}
    sizes |= {"hidden_size_per_layer_input": 0}
    centroids = "masked_embedding.centroids.weight"
    return AssistantShape(
        layers=sizes,
        backbone=published.rows("post_projection.weight"),
        clusters=published.rows(centroids) if published.has(centroids) else 0,
        likeliest=int(published.fields.get("centroid_intermediate_top_k", _LIKELIEST)),
    )
