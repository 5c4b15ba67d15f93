"""The weights of a drafter that others have trained: from its folder into a network of ours.

Knows files, number types and quantization; nothing of what a network computes.
"""

from pathlib import Path
from statistics import median
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.core.decoder import Decoder
from engine.core.model_parts import embedding
from engine.device import backend, fetch
from engine.drafters import DrafterRefused
from engine.quantized import quantize_as
from models.drafters.folders import PUBLISHED, DrafterFolder
from models.drafters.refusal import refused_as_damaged

Tensors = dict[str, mx.array]


def read_tensors(folder: DrafterFolder) -> Tensors:
    """Return all tensors of a drafter, by the names of our networks. Each is read from the disk
    when it is first used."""
    with refused_as_damaged(folder.path):
        loaded = {name: tensor for file in folder.weights for name, tensor in _load(file).items()}
        return {ours: loaded[name] for ours, name in folder.published.names.items()}


def require_fit(folder: DrafterFolder, target: Decoder) -> None:
    """Raise `DrafterRefused` if the target's sizes are not the ones that the drafter demands."""
    asked, width = folder.description.demands, state_width(target)
    if misfit := asked.misfit(width, layers=target.depth, vocabulary=target.vocabulary):
        raise other_target(f"{folder.name} cannot draft for this target. {misfit}")


def other_target(message: str) -> DrafterRefused:
    """Return the refusal of a drafter whose sizes are not the target's."""
    remedy = "Choose a drafter that was trained for this target."
    return DrafterRefused("other target", message, remedy)


def state_width(target: Decoder) -> int:
    """Return the width of the states of `target`."""
    return int(embedding(target.model)(mx.zeros((1,), dtype=mx.int32)).shape[-1])


def fill(network: nn.Module, tensors: Tensors, target: nn.Module, *, bits: int = PUBLISHED) -> None:
    """Give a network its tensors, exactly one for each parameter, by its name. None is left in
    `tensors`. `target`: the model whose states it reads.

    Linear layers get a bias if there is a tensor for it. Matrices that come with scales stay
    quantized, with the bits and groups that their shapes show; others are held in `bits` bits.
    Where all are to be expanded, they are, and bits would only lose digits.
    """
    for place, module in network.named_modules():
        if f"{place}.bias" in tensors and isinstance(module, nn.Linear):
            module.bias = mx.zeros((module.weight.shape[0],))
    quantize_as(network, tensors)
    network.load_weights(list(tensors.items()))
    tensors.clear()
    backend().prepare(network, bits=bits, like=number_type(target))
    network.eval()
    # All at once, the published and the packed matrices would be in memory together.
    for module in network.modules():
        mx.eval([each for each in module.values() if isinstance(each, mx.array)])


def take_kept(tensors: Tensors, *, rows: int | None = None) -> list[int] | None:
    """Remove the map between the vocabularies from `tensors`. Returns the token of each row of the
    output layer; None if row i is token i.

    `d2t` gives row r the token r + d2t[r]; `t2d` has a truth value for each token of the target.
    `rows`: their number, if it is known. Raises ValueError for a map that contradicts it.
    """
    offsets, known = tensors.pop("d2t", None), tensors.pop("t2d", None)
    if offsets is not None:
        (kept,) = fetch(offsets.astype(mx.int32) + mx.arange(offsets.size))
    elif known is not None:
        kept = [token for token, is_known in enumerate(fetch(known)[0]) if is_known]
    else:
        return None
    if len(kept) != (rows or len(kept)) or len(set(kept)) != len(kept) or min(kept) < 0:
        raise ValueError("its vocabulary map does not fit its rows")
    return kept


def are_centred(tensors: Tensors) -> bool:
    """Whether norms are stored without the 1 that some families add to them. Publishers have not
    added it, converters have: norms near 0 show the first, norms near 1 the second."""
    return median(float(mx.mean(array)) for array in _norms(tensors).values()) < 0.5


def with_ones(tensors: Tensors) -> Tensors:
    """Return the tensors with 1 added to the norms."""
    return tensors | {name: 1.0 + array for name, array in _norms(tensors).items()}


def _norms(tensors: Tensors) -> Tensors:
    return {
        name: array.astype(mx.float32)
        for name, array in tensors.items()
        if name.endswith("norm.weight") and array.ndim == 1
    }


def number_type(target: nn.Module) -> mx.Dtype:
    """Return the type of the states of the model `target`, in which a drafter's numbers are held.

    A product of two types is computed in float32, and a quantized matrix casts its scales again for
    every token: float16 after bfloat16 would read a third more, in twice as many operations.
    """
    return embedding(target)(mx.zeros((1,), dtype=mx.int32)).dtype


def _load(file: Path) -> Tensors:
    tensors: Any = mx.load(str(file))
    return dict(tensors)
