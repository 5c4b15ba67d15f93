"""Medusa heads for tests: random ones, which say different things, for any tiny model."""

import json

import mlx.core as mx
from mlx.utils import tree_map

from engine.core.model_parts import embedding
from engine.drafters.medusa import MedusaDrafter, MedusaHeads
from models.drafters.medusa import MedusaShape


def medusa_network(width, *, heads=3, rows=64, seed=7):
    """Heads whose residual layers change something, for targets of `tests.support.engine.tiny`."""
    network = MedusaHeads(MedusaShape(width, heads, 1, rows))
    keys = iter(mx.random.split(mx.random.key(seed), 8 * heads))
    network.update(
        tree_map(
            lambda weight: 0.1 * mx.random.normal(weight.shape, key=next(keys)),
            network.parameters(),
        )
    )
    mx.eval(network.parameters())
    return network


def write_medusa(folder, network, *, layers=1, once=False, prefix="", d2t=None, **said):
    """Write heads as FasterDecoding's code saves them; with `once` without repetitions. `said`:
    other entries of config.json."""
    tensors = {}
    for k, head in enumerate(network.heads):
        for i in range(1 if once else layers):
            tensors[f"{prefix}{k}.{i}.linear.weight"] = head.blocks[0].linear.weight
            tensors[f"{prefix}{k}.{i}.linear.bias"] = head.blocks[0].linear.bias
        tensors[f"{prefix}{k}.{layers}.weight"] = head.output.weight
    folder.mkdir(exist_ok=True)
    if d2t is not None:
        tensors["d2t"] = d2t
    mx.save_safetensors(str(folder / "medusa_lm_head.safetensors"), tensors)
    config = {"medusa_num_heads": 3, "medusa_num_layers": 1, "base_model_name_or_path": "a/b"}
    (folder / "config.json").write_text(json.dumps(config | said))
    return folder


def untrained_medusa(target, *, heads=3, seed=7):
    """Drafts with such heads."""
    width = embedding(target.model)(mx.zeros((1,), dtype=mx.int32)).shape[-1]
    network = medusa_network(width, heads=heads, rows=target.vocabulary, seed=seed)
    return MedusaDrafter(target, network)
