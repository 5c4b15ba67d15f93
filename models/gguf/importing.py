"""Imports a GGUF file as an ordinary MLX model folder that mlx-lm loads too.

The front door: read and check the header, plan the folder, write it next to its place, rename.
weights.py says what a format becomes, config.py what an architecture needs, tokenizer.py makes the
tokenizer. The file is read by our own bounds-checked reader and NumPy
alone: neither MLX's native GGUF loader nor any other native parser sees it, so an untrusted
file can be imported in any process. MLX is not imported at all.
"""

import json
import math
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from numpy.typing import NDArray

from models.errors import Problem
from models.files import new_folder
from models.gguf.architectures import EMBEDDING, HEAD, OTHER_MODEL, Architecture
from models.gguf.config import architecture_of, mlx_config
from models.gguf.file import FETCH_AGAIN, GgufFile, GgufTensor, read_gguf
from models.gguf.tensors import Piece, pieces
from models.gguf.tokenizer import tokenizer_files
from models.gguf.weights import FLOATS, GROUP_SIZE, bits_for, mode_for, pack_rows
from models.in_words import size
from models.safetensors_file import SafetensorsWriter, TensorLayout

CHUNK_WEIGHTS = 1 << 23  # this many weights are converted at a time
SPARE_BYTES = 64_000_000  # for the tokenizer, and so that the disk is not filled completely
TIED_SIMILARITY = 0.95  # two quantizations of one matrix are above 0.98, two matrices below 0.7
_NO_NUMBER = 255  # as an exponent of mxfp4
_NUMPY_TYPES: dict[str, numpy.dtype[Any]] = {"F16": numpy.dtype("<f2"), "F32": numpy.dtype("<f4")}


def import_gguf(
    source: Path, destination: Path, *, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Convert the GGUF file `source` into the new model folder `destination`, and return it.

    `progress(done, total)` is called with bytes of the source's tensors. The folder appears
    complete or not at all. At most one tensor is in memory.

    Raises Problem if the file is broken or of a kind that is not supported, if `destination`
    exists already, or if the disk has no room.
    """
    if destination.exists():  # fail before minutes of reading
        raise Problem(f"{destination} exists already.", "Delete it, or import to another folder.")
    file = read_gguf(source)
    config, architecture = mlx_config(file), architecture_of(file)
    planned, config["tie_word_embeddings"] = _plan(file, architecture, config)
    float_type = _float_type(file, architecture, planned)
    config |= _quantization(planned)
    layouts = {
        name: layout for piece in planned for name, layout in _layouts(piece, float_type).items()
    }
    documents = tokenizer_files(file.metadata) | {
        "config.json": _json(config),
        "generation_config.json": _json(
            {key: config[key] for key in config if key.endswith("_token_id")}
        ),
    }
    with new_folder(destination) as folder:
        _require_room(folder, sum(layout.size_bytes for layout in layouts.values()))
        for name, text in documents.items():
            (folder / name).write_text(text, encoding="utf-8")
        with SafetensorsWriter(folder / "model.safetensors", layouts) as writer:
            _write_weights(file, planned, float_type, writer=writer, progress=progress)
    return destination


def _plan(
    file: GgufFile, architecture: Architecture, config: Mapping[str, Any]
) -> tuple[list[Piece], bool]:
    """Return the pieces to write, in order, and whether the output layer is the token embedding."""
    found = pieces(file, architecture, config)
    tied = HEAD not in found
    if HEAD in file.tensors and architecture.head != "always" and _same_matrix(file):
        # Qwen2 files hold the one matrix twice; the copy with more bits serves for both.
        tied = True
        better = max(EMBEDDING, HEAD, key=lambda name: file.tensors[name].size_bytes)
        found[EMBEDDING] = replace(found[EMBEDDING], source=file.tensors[better])
        found.pop(HEAD, None)
    elif HEAD in file.tensors and architecture.head == "never":
        raise Problem(f"{file.path.name} has an output layer of its own.", OTHER_MODEL)
    readable: set[GGMLQuantizationType] = set()
    for piece in found.values():
        tensor = piece.source
        if tensor.type not in readable:  # fail now, not after minutes of converting
            _floats(file, tensor, 0, 1)
            readable.add(tensor.type)
        if _is_quantized(piece) and (piece.is_small or len(piece.shape) < 2):
            raise _unreadable(file, tensor)
    return list(found.values()), tied


def _is_quantized(piece: Piece) -> bool:
    return piece.source.type not in FLOATS


def _layouts(piece: Piece, float_type: str) -> dict[str, TensorLayout]:
    if not _is_quantized(piece):
        return {piece.name: TensorLayout(float_type, piece.shape)}
    kind, (*rows, columns) = piece.source.type, piece.shape
    groups = (*rows, columns // GROUP_SIZE)
    weight = {piece.name: TensorLayout("U32", (*rows, columns * bits_for(kind) // 32))}
    if mode_for(kind) != "affine":
        return weight | {f"{piece.module}.scales": TensorLayout("U8", groups)}
    return weight | {
        f"{piece.module}.{part}": TensorLayout(float_type, groups) for part in ("scales", "biases")
    }


def _same_matrix(file: GgufFile) -> bool:
    embedding, head = file.tensors[EMBEDDING], file.tensors[HEAD]
    if embedding.shape != head.shape:
        return False
    rows = embedding.shape[0]
    samples = sorted({rows * index // 64 for index in range(64)})
    ours, theirs = (
        numpy.concatenate([_floats(file, tensor, row, row + 1) for row in samples])
        for tensor in (embedding, head)
    )
    length = float(numpy.linalg.norm(ours) * numpy.linalg.norm(theirs))
    return float((ours * theirs).sum()) > TIED_SIMILARITY * length


def _floats(file: GgufFile, tensor: GgufTensor, start: int, stop: int) -> NDArray[numpy.float32]:
    """Rows of any tensor as float32, (stop - start, columns)."""
    rows = file.rows(tensor, start, stop)
    try:
        values: NDArray[numpy.float32] = dequantize(rows, tensor.type)
    except NotImplementedError as error:
        raise _unreadable(file, tensor) from error
    return values


def _unreadable(file: GgufFile, tensor: GgufTensor) -> Problem:
    return Problem(
        f"Tensor {tensor.name} in {file.path.name} is stored as {tensor.type.name}.",
        "Use a file in a common format such as Q4_0, Q4_K_M, Q8_0 or F16.",
    )


def _float_type(file: GgufFile, architecture: Architecture, planned: list[Piece]) -> str:
    """Return the one float type of the folder, in which MLX will compute.

    Matrices decide. It is float32 if one of them is; bfloat16 if all are, or if the activations
    need its range; float32 if only some are bfloat16. Otherwise all are float16, or quantized with
    scales in float16: then it is float16, unless a small tensor is out of its range.
    """
    kinds = {piece.source.type for piece in planned if not piece.is_small}
    if GGMLQuantizationType.F32 in kinds:
        return "F32"
    if kinds == {GGMLQuantizationType.BF16} or architecture.float_type == "BF16":
        return "BF16"
    if GGMLQuantizationType.BF16 in kinds:
        return "F32"
    largest = max(
        float(numpy.abs(_floats(file, piece.source, 0, piece.source.rows)).max(initial=0))
        for piece in planned
        if piece.is_small
    )
    return "F16" if largest < float(numpy.finfo(numpy.float16).max) else "F32"


def _quantization(planned: list[Piece]) -> dict[str, Any]:
    """The config's `quantization`: the commonest one, and each module that has another."""
    quantized = {piece.module: piece for piece in planned if _is_quantized(piece)}
    if not quantized:
        return {}
    settings = {
        module: (bits_for(piece.source.type), mode_for(piece.source.type))
        for module, piece in quantized.items()
    }
    weights: Counter[tuple[int, str]] = Counter()
    for module, piece in quantized.items():
        weights[settings[module]] += math.prod(piece.shape)
    ((common, _),) = weights.most_common(1)
    named = {"": common} | {name: own for name, own in settings.items() if own != common}
    written = {
        module: {"group_size": GROUP_SIZE, "bits": bits, "mode": mode}
        for module, (bits, mode) in named.items()
    }
    return {"quantization": written.pop("") | written}


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _require_room(folder: Path, size_bytes: int) -> None:
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < size_bytes + SPARE_BYTES:
        raise Problem(
            f"The model needs {size(size_bytes + SPARE_BYTES)} in {folder}, "
            f"and {size(free_bytes)} are free.",
            "Make room on the disk, or import to another folder.",
        )


def _write_weights(
    file: GgufFile,
    planned: list[Piece],
    float_type: str,
    *,
    writer: SafetensorsWriter,
    progress: Callable[[int, int], None] | None,
) -> None:
    done, total = 0, sum(piece.source.size_bytes for piece in planned)
    for piece in planned:
        for name, array in _converted(file, piece, float_type).items():
            writer.write(name, array.data)
        done += piece.source.size_bytes
        if progress is not None:
            progress(done, total)


def _converted(file: GgufFile, piece: Piece, float_type: str) -> dict[str, NDArray[Any]]:
    """The arrays that `_layouts` announces, in that order, each as rows."""
    rows, columns = piece.source.rows, piece.source.shape[-1]
    step = max(1, CHUNK_WEIGHTS // columns)
    parts: list[tuple[NDArray[Any], ...]] = []
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        if not _is_quantized(piece):
            values = _floats(file, piece.source, start, stop) - numpy.float32(piece.offset)
            parts.append((_stored(values, float_type),))
            continue
        packed = pack_rows(file.rows(piece.source, start, stop), piece.source.type)
        if packed.biases is None:
            finite = bool((packed.scales < _NO_NUMBER).all())
            parts.append((packed.weight, packed.scales))
        else:
            scales, biases = (_stored(x, float_type) for x in (packed.scales, packed.biases))
            finite = _is_finite(scales, float_type) and _is_finite(biases, float_type)
            parts.append((packed.weight, scales, biases))
        if not finite:
            raise Problem(
                f"Tensor {piece.source.name} in {file.path.name} has infinite weights.",
                FETCH_AGAIN,
            )
    arrays = [numpy.concatenate(part) for part in zip(*parts, strict=True)]
    if piece.heads:
        arrays = [_unpermuted(array, piece.heads) for array in arrays]
    return dict(zip(_layouts(piece, float_type), arrays, strict=True))


def _stored(values: NDArray[numpy.float32], float_type: str) -> NDArray[Any]:
    """float32 values in the folder's float type; bfloat16 as its raw bytes."""
    if float_type == "BF16":
        raw: NDArray[Any] = quantize(values, GGMLQuantizationType.BF16)
        return raw.reshape(values.shape[0], -1)
    with numpy.errstate(over="ignore"):  # what overflows is found and refused
        return values.astype(_NUMPY_TYPES[float_type])


def _is_finite(stored: NDArray[Any], float_type: str) -> bool:
    if float_type == "BF16":  # an exponent of ones alone
        return not (stored.view("<u2") & 0x7F80 == 0x7F80).any()
    return bool(numpy.isfinite(stored).all())


def _unpermuted(rows: NDArray[Any], heads: int) -> NDArray[Any]:
    """Undo llama.cpp's interleaving of each head's two halves: (head, d/2, 2) to (head, 2, d/2).

    Whole rows move, so packed rows and their scales are moved alike.
    """
    split = rows.reshape(heads, -1, 2, rows.shape[-1]).swapaxes(1, 2)
    return numpy.ascontiguousarray(split).reshape(rows.shape)
