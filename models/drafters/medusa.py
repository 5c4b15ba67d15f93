"""Medusa's heads, as they are published: numbered, each a residual layer or several and an output.

The residual layers of a head are one module in the published code, called several times; files may
have it once or several times.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from models.drafters.kinds import DrafterDescription
from models.drafters.published import NORM, Published

_OUTPUT = re.compile(r"(?:medusa_head\.)?(\d+)\.(\d+)\.(weight|scales|biases)")
_BLOCK = re.compile(r"(?:medusa_head\.)?(\d+)\.(\d+)\.linear\.(weight|bias|scales|biases)")
_PARTS = ("weight", "bias", "scales", "biases")


@dataclass(frozen=True, slots=True)
class MedusaShape:
    """The sizes: `heads`, each with `layers` residual ones, and `rows` of each output layer."""

    hidden_size: int
    heads: int
    layers: int
    rows: int


def naming(names: Collection[str]) -> Mapping[str, str]:
    """K.I.linear.weight is our heads.K.blocks.I.linear.weight, and K.LAYERS.weight the output."""
    found, layers = {}, 0
    for name in names:
        if block := _BLOCK.fullmatch(name):
            head, index, part = block.groups()
            found[f"heads.{int(head)}.blocks.{int(index)}.linear.{part}"] = name
        elif output := _OUTPUT.fullmatch(name):
            layers = max(layers, min(int(output[2]), len(names)))
            found[f"heads.{int(output[1])}.output.{output[3]}"] = name
        else:
            found[name] = name
    shared = [name for name in found if ".blocks.0.linear." in name]
    for name in shared:
        for index in range(1, layers):
            found.setdefault(name.replace(".blocks.0.", f".blocks.{index}."), found[name])
    return found


def are_heads(names: Collection[str]) -> bool:
    return bool(names) and all(_OUTPUT.fullmatch(name) or ".linear." in name for name in names)


def _outputs(published: Published) -> dict[int, tuple[int, int]]:
    heads = (re.fullmatch(r"heads\.(\d+)\.output\.weight", name) for name in published.names)
    sizes = {int(head[1]): published.matrix(head[0]) for head in heads if head}
    return {head: size for head, size in sizes.items() if size is not None}


def read(published: Published) -> DrafterDescription:
    """Return the description of Medusa heads. They are counted by their tensors, as published
    configs state fewer heads than there are."""
    outputs = _outputs(published)
    heads = len(outputs) or published.number("medusa_num_heads")
    numbered = sorted(outputs) == list(range(len(outputs)))
    if not heads or not numbered or len(set(outputs.values())) > 1:
        raise published.contradiction("its heads are not numbered, or not of one size")
    first, reduced = outputs.get(0), published.has("d2t")
    vocabulary = first[0] if first and not reduced else published.number("vocab_size")
    width = first[1] if first else published.number("hidden_size")
    return published.describe(
        taps=NORM,
        block=heads,
        predictions=heads,
        own_embedding=False,
        own_head=True,
        demands=replace(published.demands(width=width), vocabulary=vocabulary),
    )


def shape_of(published: Published, described: DrafterDescription) -> MedusaShape:
    """The sizes. Raises KeyError, ValueError."""
    outputs = (_OUTPUT.fullmatch(name) for name in published.names.values())
    depths = {int(output[2]) for output in outputs if output and output[3] == "weight"}
    if len(depths) != 1:
        raise ValueError("its tensors are not Medusa heads")
    rows = published.rows("heads.0.output.weight")
    width = published.columns("heads.0.output.weight")
    return MedusaShape(width, described.predictions, depths.pop(), rows)
