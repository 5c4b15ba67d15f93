"""How a GGUF file scales positions, as mlx-lm's `rope_scaling`.

Knows the scalings, each proven where the file states only what came of it; others are refused.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy
from numpy.typing import NDArray

from models.errors import Problem
from models.gguf.architectures import OTHER_MODEL, Architecture
from models.gguf.file import GgufFile, shown

FACTORS = "rope_freqs.weight"
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"
POSITION_TENSORS = frozenset({FACTORS, LONG, SHORT})


def rope_scaling(
    file: GgufFile, architecture: Architecture, config: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The `rope_scaling` of config.json; None if positions are not scaled.

    Raises Problem for a scaling that mlx-lm does not compute for this architecture.
    """
    prefix = f"{file.metadata['general.architecture']}.rope.scaling"
    kind = file.metadata.get(f"{prefix}.type", "none")
    if FACTORS in file.tensors:
        kind = "llama3"
    elif file.tensors.keys() & {LONG, SHORT}:
        kind = "longrope"
    factor = file.metadata.get(f"{prefix}.attn_factor", 1.0)
    if kind == "none" and factor == 1.0:
        return None
    if (
        not isinstance(kind, str)
        or kind not in architecture.scalings
        or (kind != "longrope" and factor != 1.0)
    ):
        raise Problem(f"{file.path.name} uses {shown(kind)} position scaling.", OTHER_MODEL)
    named = {"rope_type": kind, "type": kind}
    if kind == "llama3":
        return named | _llama3(file, config)
    if kind == "longrope":
        return named | _longrope(file, prefix, config)
    scaling: dict[str, Any] = {**named, "factor": file.number(f"{prefix}.factor", 1.0)}
    if kind == "yarn":
        scaling["original_max_position_embeddings"] = file.integer(
            f"{prefix}.original_context_length"
        )
        for name in ("beta_fast", "beta_slow"):
            if f"{prefix}.yarn_{name}" in file.metadata:
                scaling[name] = file.number(f"{prefix}.yarn_{name}")
        if file.metadata.get(f"{prefix}.yarn_log_multiplier"):
            scaling["mscale"] = 1.0
            scaling["mscale_all_dim"] = file.number(f"{prefix}.yarn_log_multiplier")
    return scaling


def _llama3(file: GgufFile, config: Mapping[str, Any]) -> dict[str, Any]:
    """The Llama 3 parameters that give the factors (head_dim / 2), checked by computing them."""
    factors, half = _floats(file, FACTORS), config["head_dim"] // 2
    if factors is not None and factors.size == half:
        scaling = {
            "factor": float(factors.max()),
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }
        wavelengths = 2 * numpy.pi * config["rope_theta"] ** (numpy.arange(half) / half)
        smooth = numpy.clip((8192 / wavelengths - 1.0) / 3.0, 0.0, 1.0)
        expected = 1 / ((1 - smooth) / scaling["factor"] + smooth)
        if numpy.allclose(factors, expected, rtol=1e-3):
            return scaling
    raise Problem(f"{file.path.name} scales positions in a way that is not Llama 3's.", OTHER_MODEL)


def _longrope(file: GgufFile, prefix: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Phi's factors for long and short texts, with the factor of attention that follows."""
    rotated = file.integer(f"{prefix.split('.')[0]}.rope.dimension_count", config["head_dim"])
    long, short = (_floats(file, name) for name in (LONG, SHORT))
    original = file.integer(f"{prefix}.original_context_length")
    longer = config["max_position_embeddings"] / max(1, original)
    if long is not None and short is not None and long.size == short.size == rotated // 2:
        expected = 1.0
        if longer > 1 and original > 1:
            expected = math.sqrt(1 + math.log(longer) / math.log(original))
        if math.isclose(file.number(f"{prefix}.attn_factor", expected), expected, rel_tol=1e-3):
            return {"long_factor": long.tolist(), "short_factor": short.tolist()}
    raise Problem(f"{file.path.name} scales positions in a way that is not Phi's.", OTHER_MODEL)


def _floats(file: GgufFile, name: str) -> NDArray[numpy.float32] | None:
    """The positive finite numbers of a float32 tensor; None if it is none."""
    tensor = file.tensors.get(name)
    if tensor is None or tensor.type != 0 or len(tensor.shape) != 1:
        return None
    values: NDArray[numpy.float32] = file.rows(tensor, 0, 1).view(numpy.float32).ravel()
    return values if numpy.isfinite(values).all() and (values > 0).all() else None
