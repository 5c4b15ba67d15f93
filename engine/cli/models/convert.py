"""`slipstream convert`: quantizes a float model, or fuses an adapter into a model.

Knows how mlx-lm quantizes, its mixed recipes, and its adapters. Tensors are read, quantized and
written one after another, so that memory holds one of them at a time. Runs no code of the model and
does not open its tokenizer, whose files are copied.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map_with_path, tree_unflatten
from mlx_lm.convert import MODEL_CONVERSION_DTYPES, mixed_quant_predicate_builder
from mlx_lm.utils import load_adapters, load_config, make_shards, quantize_model, save_config

from engine.conversation.configuration import build_model
from engine.conversation.loading import as_problem
from engine.device import raw_bytes
from models.errors import Problem
from models.files import new_folder
from models.for_libraries import for_libraries
from models.in_words import size
from models.model_folder import ADAPTER_WEIGHTS, ModelFolder, adapted_model, inspect
from models.safetensors_file import SafetensorsWriter, TensorLayout

BITS = (2, 3, 4, 5, 6, 8)
GROUP_SIZES = (32, 64, 128)
RECIPES = {"mixed_2_6": 2, "mixed_3_4": 3, "mixed_3_6": 3, "mixed_4_6": 4}  # to their low bits
SPARE_BYTES = 64_000_000  # on the disk, for the tokenizer, and so that it is not filled
COPIED = (  # never *.py: copied files are never run
    "tokenizer*.json", "tokenizer.model", "*.tiktoken", "special_tokens_map.json",
    "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "chat_template.json",
    "chat_template.jinja", "generation_config.json", "LICENSE*", "NOTICE*",
)  # fmt: skip

_BASE_BYTES = 256_000_000  # Python, MLX and the model's outline
_COPIES = 3  # of the largest tensor: as stored, as stacked or cast, and as quantized
_TYPES = {
    "float32": "F32", "float16": "F16", "bfloat16": "BF16", "bool": "BOOL",
    "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64",
    "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quantization:
    """A way to quantize weights: `bits` each, in groups that share scale and bias.

    With a `recipe` (one of `RECIPES`) layers that matter more get more bits, and `bits` is None.
    """

    bits: int | None = None
    group_size: int = 64
    recipe: str = ""

    @property
    def low_bits(self) -> int:
        """The bits of most weights."""
        return RECIPES[self.recipe] if self.recipe else self.bits or 4

    def check(self) -> None:
        """Raise `Problem` for values that MLX does not support."""
        if self.recipe and self.recipe not in RECIPES:
            raise Problem(
                f"Unknown recipe: {self.recipe!r}.", f"Choose one of {', '.join(RECIPES)}."
            )
        if self.recipe and self.bits is not None:
            raise Problem(f"The recipe {self.recipe} sets the bits itself.", "Leave out --bits.")
        for what, value, choices in (
            ("bits", self.low_bits, BITS),
            ("group size", self.group_size, GROUP_SIZES),
        ):
            if value not in choices:
                raise Problem(
                    f"The {what} cannot be {value}.",
                    f"Choose one of {', '.join(map(str, choices))}.",
                )


def convert(
    source: Path,
    folder: Path,
    quantization: Quantization | None,
    *,
    adapter: Path | None = None,
    available_bytes: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    write_more: Callable[[Path], None] = lambda folder: None,
) -> Path:
    """Quantize the model folder `source` into the new `folder`; return `folder`.

    The LoRA `adapter` is fused into it first. Without a `quantization` weights keep their types.
    `folder` appears complete or not at all. `write_more(folder)` writes more files into it, such as
    an MTP module. `available_bytes`: the memory that may be used; None for no limit.
    `progress(done, total)` is called with bytes written. Raises `Problem` if `source` is not a
    float model that mlx-lm supports, or if memory or disk are too small.
    """
    files = inspect(source)
    if quantization is not None:
        quantization.check()
        _refuse_quantized(files)
    with new_folder(folder) as partial, no_cache():
        model, config = _load(source)
        if adapter is not None:
            _fuse(model, adapter)
        _require_memory(model, source, available_bytes)
        if quantization is not None:
            model, config = _quantize(model, config, quantization, source)
        keep_vision = "vision_tower" in getattr(model, "model", {})
        weights = _tensors(model)
        del model  # now only `weights` holds the tensors
        require_room(partial, weights)
        write_weights(weights, partial, progress)
        save_config(config, partial / "config.json", keep_vision_config=keep_vision)
        copy_files(source, partial)
        write_more(partial)
    return folder


def needed_bytes(model: nn.Module) -> int:
    """Return the peak of memory, in bytes, while a lazily loaded model is converted."""
    sizes = (array.nbytes for array in _tensors(model).values())
    return _BASE_BYTES + _COPIES * max(sizes, default=0)


def _refuse_quantized(source: ModelFolder) -> None:
    config = source.config
    nested = config.get("text_config")
    tables = [config, nested if isinstance(nested, dict) else {}]
    names = ("quantization", "quantization_config", "compression_config")
    found = [table[name] for table in tables for name in names if table.get(name)]
    if not found and not (source.path / "hf_quant_config.json").exists():
        return
    settings = found[0] if found and isinstance(found[0], dict) else {}
    bits, method = settings.get("bits"), settings.get("quant_method")
    kind = f" to {bits} bits" if type(bits) is int else f" ({method})" if method else ""
    raise Problem(
        f"{source.name} is quantized already{kind}.",
        "Use it as it is, or convert the float model that it was made from.",
    )


def _load(source: Path) -> tuple[nn.Module, dict[str, Any]]:
    """Return the model, whose tensors are read when they are used."""
    with (
        as_problem(source) as printed,
        redirect_stdout(printed),
        for_libraries(source) as place,
    ):
        config = load_config(place)
        return build_model(place, config), config


def _fuse(model: nn.Module, adapter: Path) -> None:
    """Fuse an adapter as `mlx_lm.fuse` does. A tensor is computed when it is written."""
    name = adapted_model(adapter)
    if not (adapter / ADAPTER_WEIGHTS).is_file():
        raise Problem(
            f"{adapter} is not an adapter made by mlx-lm: it has no {ADAPTER_WEIGHTS}.",
            "Fuse it with the program that made it, then convert the fused model.",
        )
    remedy = f"Use it with {name}." if name else "Name the model that it was trained on."
    with (
        as_problem(adapter, "does not fit the model", remedy) as printed,
        redirect_stdout(printed),
        for_libraries(adapter) as place,
    ):
        load_adapters(model, str(place))
    fused = [(name, m.fuse()) for name, m in model.named_modules() if hasattr(m, "fuse")]
    model.update_modules(tree_unflatten(fused))


def _quantize(
    model: nn.Module, config: dict[str, Any], quantization: Quantization, source: Path
) -> tuple[nn.Module, dict[str, Any]]:
    """Quantize as `mlx_lm.convert` does. A tensor is computed when it is written."""
    _cast(model, config)
    group_size, bits = quantization.group_size, quantization.low_bits
    try:
        predicate = None
        if quantization.recipe:
            predicate = mixed_quant_predicate_builder(quantization.recipe, model, group_size)
        with redirect_stdout(StringIO()):
            model, config = quantize_model(
                model, config, group_size, bits, quant_predicate=predicate
            )
    except ValueError as error:
        raise Problem(
            f"{source.name} cannot be quantized this way: {str(error).rstrip('.')}.",
            "Choose --bits instead of --recipe." if quantization.recipe else "Choose other --bits.",
        ) from error
    if not any(hasattr(module, "bits") for module in model.modules()):
        raise Problem(
            f"No layer of {source.name} can be split into groups of {group_size} weights.",
            "Choose a smaller --group-size.",
        )
    return model, config


def _cast(model: nn.Module, config: dict[str, Any]) -> None:
    """Cast floats to the type that the config names, in which they were trained."""
    nested = config.get("text_config")
    tables = (config, nested if isinstance(nested, dict) else {})
    names = [table.get(key) for table in tables for key in ("torch_dtype", "dtype")]
    named = next((name for name in names if name in MODEL_CONVERSION_DTYPES), None)
    if named is None:
        return
    dtype = getattr(mx, named)
    may_cast = getattr(model, "cast_predicate", lambda _: True)

    def cast(path: str, array: mx.array) -> mx.array:
        floats = mx.issubdtype(array.dtype, mx.floating)
        return array.astype(dtype) if floats and may_cast(path) else array

    model.update(tree_map_with_path(cast, model.parameters()))


def _require_memory(model: nn.Module, source: Path, available_bytes: int | None) -> None:
    needed = needed_bytes(model)
    if available_bytes is not None and needed > available_bytes:
        raise Problem(
            f"Converting {source.name} needs {size(needed)} of memory; "
            f"{size(available_bytes)} are available.",
            "Close other programs, or download a quantized version.",
        )


def require_room(folder: Path, weights: dict[str, mx.array]) -> None:
    needed = sum(array.nbytes for array in weights.values()) + SPARE_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise Problem(
            f"The model needs {size(needed)} in {folder.parent}; {size(free)} are free.",
            "Free disk space, or convert to another folder.",
        )


def write_weights(
    weights: dict[str, mx.array],
    folder: Path,
    progress: Callable[[int, int], None],
    *,
    stem: str = "model",
) -> None:
    """Write the weight files, whose names begin with `stem`. Empties `weights` to free memory."""
    done, total = 0, sum(array.nbytes for array in weights.values())
    shards: list[dict[str, mx.array]] = make_shards(weights)
    weights.clear()
    for number, shard in enumerate(shards, 1):
        file = stem if len(shards) == 1 else f"{stem}-{number:05d}-of-{len(shards):05d}"
        layouts = {
            name: TensorLayout(_TYPES[str(array.dtype).removeprefix("mlx.core.")], array.shape)
            for name, array in shard.items()
        }
        with SafetensorsWriter(folder / f"{file}.safetensors", layouts) as writer:
            for name in layouts:
                data = raw_bytes(shard.pop(name))
                writer.write(name, data)
                done += data.nbytes
                progress(done, total)


@contextmanager
def no_cache() -> Iterator[None]:
    """Switch off MLX's cache of freed buffers, since each has another size here."""
    before = mx.set_cache_limit(0)
    try:
        yield
    finally:
        mx.set_cache_limit(before)


def _tensors(model: nn.Module) -> dict[str, mx.array]:
    return dict(tree_flatten(model.parameters()))


def copy_files(source: Path, folder: Path) -> None:
    for pattern in COPIED:
        for path in source.glob(pattern):
            if path.is_file():
                shutil.copyfile(path, folder / path.name)
