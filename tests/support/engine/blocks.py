"""Block drafters for tests: untrained networks, as they are published, for any tiny model."""

from dataclasses import replace

import mlx.core as mx
from mlx.utils import tree_map_with_path

from engine.core.model_parts import embedding, embedding_scale, output_layer
from engine.drafters.block import BlockDrafter, BoundNetwork
from engine.drafters.dflash import DFlash, DFlash2
from engine.drafters.dspark import (
    ConfidenceHead,
    DSpark,
    GatedMarkovHead,
    MarkovHead,
    RecurrentMarkovHead,
)
from models.drafters.blocks import BlockShape, Rotation, SelectorShape

BLOCK_KINDS = ("dflash", "windows", "dflash2", "dspark", "gated", "recurrent")
RANK = 32


def block_network(target, kind, *, seed=0):
    """A random network whose drafts depend on all that it reads."""
    model, vocabulary = target.model, target.vocabulary
    width = embedding(model)(mx.zeros((1,), dtype=mx.int32)).shape[-1]
    depth = len(model.layers)
    shape = BlockShape(
        hidden_size=width,
        target_width=width,
        taps=(1, depth),
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=2 * width,
        rms_norm_eps=1e-6,
        rotation=Rotation(dims=8, base=1e4),
        windows=(None, None),
        causal=(False, False),
        block_size=6,
        mask_token=vocabulary - 1,
        first_slot=1 if kind in ("dflash", "windows", "dflash2") else 0,
    )
    if kind == "windows":
        shape = replace(shape, windows=(5, 9), causal=(True, True))
    mx.random.seed(seed)
    network = _network(kind, shape, vocabulary)
    network.update(tree_map_with_path(_lively, network.parameters()))
    scale, embed = embedding_scale(model), embedding(model)
    return BoundNetwork(
        network,
        shape,
        embed=lambda ids: embed(mx.minimum(ids, vocabulary - 1)) * scale,
        read_out=output_layer(model),
    )


def block_drafter(target, kind, *, seed=0):
    """Drafts with such a network."""
    return BlockDrafter(target, block_network(target, kind, seed=seed), name=kind)


def _network(kind, shape, vocabulary):
    if kind in ("dflash", "windows"):
        return DFlash(shape)
    if kind == "dflash2":
        candidates = min(4, vocabulary - 1)
        return DFlash2(shape, SelectorShape(2, 4, RANK, candidates, vocabulary))
    width = shape.hidden_size
    markov = MarkovHead(vocabulary, vocabulary, rank=RANK)
    if kind == "gated":
        markov = GatedMarkovHead(vocabulary, vocabulary, rank=RANK, width=width)
    if kind == "recurrent":
        markov = RecurrentMarkovHead(vocabulary, vocabulary, rank=RANK, width=width)
    return DSpark(shape, markov, ConfidenceHead(width + RANK))


def _lively(path, weight):
    """Matrices that enlarge what they are multiplied with, so that drafts vary."""
    if weight.ndim == 1:
        return weight
    return 1.5 * mx.random.normal(weight.shape) / weight.shape[-1] ** 0.5


def logits_of(network):
    """A block's, after a made-up context of states 32 wide."""
    context = network.make_cache()
    shape = (1, 6, len(network.taps), 32)
    network.extend(mx.random.normal(shape, key=mx.random.key(0)), 0, context)
    block = network.block(7, network.most, 6, context)
    return mx.concatenate([block.read(mx.array([7])) for _ in range(network.most)])
