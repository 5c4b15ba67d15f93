"""The weights of a drafter that others have trained: from its folder into a network of ours.

Knows files, number types and quantization; nothing of what a network computes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.cpu import weights as cpu
from engine.cpu.rotary import with_rotary
from engine.device import backend
from engine.drafters import DrafterRefused
from engine.model_parts import embedding

Tensors = dict[str, mx.array]

_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def read_tensors(folder: Path) -> Tensors:
    """All tensors of a folder, by name; each is read from the disk when it is first used."""
    files = sorted(folder.glob("*.safetensors"))
    if not files and any(path for pattern in _PICKLED for path in folder.glob(pattern)):
        raise DrafterRefused(
            "unsupported",
            f"The drafter in {folder} is pickled: to read its weights is to run a program.",
            "Choose one whose weights are .safetensors files.",
        )
    if not files:
        raise damaged(folder, "it has no weights")
    with refused_as_damaged(folder):
        return {name: tensor for file in files for name, tensor in _load(file).items()}


def columns(tensors: Mapping[str, mx.array], name: str, config: Mapping[str, Any]) -> int:
    """How many columns the matrix `name`.weight has, as if it were not quantized."""
    if f"{name}.scales" not in tensors:
        return tensors[f"{name}.weight"].shape[1]
    quantization = config.get("quantization", {})
    own = quantization.get(name)
    group = (own if isinstance(own, Mapping) else quantization)["group_size"]
    return tensors[f"{name}.scales"].shape[1] * int(group)


def fill(network: nn.Module, tensors: Mapping[str, mx.array], target: nn.Module) -> None:
    """Give a network the tensors that its parameters are named after: each one, and no others. It
    reads states of the model `target`.

    Linear layers get a bias where there is one. Matrices that come with scales stay quantized, by
    as many bits and in such groups as their shapes tell, where they are not to be expanded.
    """
    modules = dict(network.named_modules())
    for name in tensors:
        place, _, kind = name.rpartition(".")
        module = modules.get(place)
        if kind == "bias" and isinstance(module, nn.Linear):
            module.bias = mx.zeros((module.weight.shape[0],))

    def quantized(name: str, module: nn.Module) -> bool | dict[str, Any]:
        scales, packed = tensors.get(f"{name}.scales"), tensors.get(f"{name}.weight")
        if scales is None or packed is None or not hasattr(module, "to_quantized"):
            return False
        width = module.weight.shape[-1]
        group_size, bits = width // scales.shape[-1], packed.shape[-1] * 32 // width
        mode = "nvfp4" if group_size == 16 else f"mxfp{bits}"
        if f"{name}.biases" in tensors:
            mode = "affine"
        return {"group_size": group_size, "bits": bits, "mode": mode}

    nn.quantize(network, class_predicate=quantized)
    network.load_weights(list(tensors.items()))
    expand(network)
    suit(network, target)
    network.eval()
    mx.eval(network.parameters())


def expand(network: nn.Module) -> None:
    """On the CPU all weights become float32, as a target's do (see `engine.loading`)."""
    if backend().own_functions:
        with_rotary(network)
        cpu.expand(network)


def suit(network: nn.Module, target: nn.Module) -> None:
    """Elsewhere than on the CPU all numbers become of the type of the states of the model `target`.

    Of two types a product is computed in float32, and a quantized one casts its scales anew for
    every token: float16 behind bfloat16 would read a third more, in twice as many operations.
    """
    if not backend().own_functions:
        network.set_dtype(embedding(target)(mx.zeros((1,), dtype=mx.int32)).dtype)


def narrow(network: nn.Module) -> None:
    """Of a network that came in 8 bits and was expanded keep half of the bits: it has no more of
    them that matter."""
    if backend().own_functions:
        cpu.narrow(network)


def damaged(folder: Path, why: str) -> DrafterRefused:
    """The refusal of a folder whose files contradict each other or cannot be read."""
    why = " ".join(why.split())[:200].rstrip(".")
    message = f"The drafter in {folder} is damaged: {why}."
    return DrafterRefused("damaged", message, "Fetch it again, or choose another drafter.")


@contextmanager
def refused_as_damaged(folder: Path) -> Iterator[None]:
    """What goes wrong meanwhile, while the folder's files are read, is their fault."""
    try:
        yield
    except KeyError as error:
        raise damaged(folder, f"{error.args[0]} is missing") from error
    except (
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        RuntimeError,
    ) as error:
        raise damaged(folder, str(error) or type(error).__name__) from error


def _load(file: Path) -> Tensors:
    tensors: Any = mx.load(str(file))
    return dict(tensors)
