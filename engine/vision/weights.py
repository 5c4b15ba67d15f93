"""A tower's weights and settings: from the folder of the whole model into a network of ours.

Knows files, number types and quantization; nothing of what a network computes.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.device import backend
from engine.quantized import quantize_as
from models.errors import Problem
from models.files import read_json_object
from models.model_folder import ModelFolder

Rename = Callable[[str], str | None]  # a tensor's name in the files, to a network's; None for none

_MOST_TOKENS = 1 << 16


@contextmanager
def refused_if_damaged(folder: ModelFolder) -> Iterator[None]:
    """Turn errors inside the block, which reads the folder's files, into a `Problem`."""
    try:
        yield
    except (
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        RuntimeError,
    ) as error:
        why = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise Problem(
            f"The picture settings of {folder.path} are damaged: {' '.join(why.split())[:200]}.",
            "Download the model again, or ask without a picture.",
        ) from error


def processor_settings(folder: ModelFolder) -> Mapping[str, Any]:
    """Return how pictures are prepared for the model: from one of two files. Newer models have the
    second, which may hold the settings in a table of its own. Raises `Problem`."""
    settings: dict[str, Any] = {}
    for name in ("preprocessor_config.json", "processor_config.json"):
        path = folder.path / name
        if path.is_file():
            found = read_json_object(path)
            nested = found.get("image_processor")
            settings |= found | (nested if isinstance(nested, dict) else {})
    return settings


def special_token(folder: ModelFolder, name: str, usual: int) -> tuple[int, str]:
    """Return the id and the text of the token that config.json calls `name`, which is `usual` where
    it does not say. Raises `Problem`."""
    config = folder.config
    number = int(config.get(f"{name}_token_id", config.get(f"{name}_token_index", usual)))
    return number, folder.tokens.tokens[number]


def repeated(token: str, count: int) -> str:
    """Return the text of a picture's rows. Raises `ValueError` for an absurd number of them."""
    if count > _MOST_TOKENS:
        raise ValueError(f"a picture has {count} tokens")
    return token * count


def sizes(folder: ModelFolder, rename: Rename) -> int:
    """Return how many bytes the tower's tensors have; 0 if the folder holds none. Raises
    `Problem`."""
    return sum(layout.size_bytes for name, layout in folder.layouts.items() if rename(name))


def loaded[Network: nn.Module](
    make: Callable[[], Network],
    folder: ModelFolder,
    rename: Rename,
    change: Callable[[str, mx.array], mx.array] = lambda name, tensor: tensor,
) -> Network:
    """Return the network that `make` makes with its tensors, and no others than its own; `change`
    puts a tensor into our layout. Matrices stay quantized, except on the CPU, where all weights
    become float32."""
    network, tensors = make(), dict[str, mx.array]()
    for file in folder.headers:
        read: Any = mx.load(str(file))
        for name, tensor in read.items():
            if ours := rename(name):
                tensors[ours] = change(ours, tensor)
    quantize_as(network, tensors)
    network.load_weights(list(tensors.items()))
    backend().prepare(network)
    network.eval()
    mx.eval(network.parameters())
    return network
