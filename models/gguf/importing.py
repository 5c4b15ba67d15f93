"""Imports a GGUF file as an ordinary MLX model folder that mlx-lm loads too.

The front door: read and check the header, plan the folder, write it beside its place, rename.
weights.py says what a format becomes, config.py what an architecture needs, tokenizer.py makes the
tokenizer. The file is read by our own bounds-checked reader and NumPy
alone: neither MLX's native GGUF loader nor any other native parser sees it, so an untrusted
file can be imported in any process. MLX is not imported at all.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from numpy.typing import NDArray

from models.errors import Problem
from models.files import new_folder
from models.gguf.config import EMBEDDING, HEAD, mlx_config, mlx_names
from models.gguf.file import FETCH_AGAIN, GgufFile, GgufTensor, read_gguf
from models.gguf.tokenizer import tokenizer_files
from models.gguf.weights import FLOATS, GROUP_SIZE, bits_for, pack_rows
from models.in_words import size
from models.safetensors_file import SafetensorsWriter, TensorLayout

CHUNK_WEIGHTS = 1 << 23  # this many weights are converted at a time
SPARE_BYTES = 64_000_000  # for the tokenizer, and so that the disk is not filled completely
TIED_SIMILARITY = 0.95  # two quantizations of one matrix are above 0.98, two matrices below 0.7
_NUMPY_TYPES: dict[str, numpy.dtype[Any]] = {"F16": numpy.dtype("<f2"), "F32": numpy.dtype("<f4")}


@dataclass(frozen=True)
class _Piece:
    """A tensor of the source, and its new name. `heads` is set if its rows must be un-permuted."""

    source: GgufTensor
    name: str
    heads: int | None

    @property
    def module(self) -> str:
        return self.name.removesuffix(".weight")

    @property
    def quantized(self) -> bool:
        return self.source.type not in FLOATS

    def layouts(self, float_type: str) -> dict[str, TensorLayout]:
        shape = self.source.shape
        if not self.quantized:
            return {self.name: TensorLayout(float_type, shape)}
        rows, columns = shape
        groups = (rows, columns // GROUP_SIZE)
        return {
            self.name: TensorLayout("U32", (rows, columns * bits_for(self.source.type) // 32)),
            f"{self.module}.scales": TensorLayout(float_type, groups),
            f"{self.module}.biases": TensorLayout(float_type, groups),
        }


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
    config = mlx_config(file)
    pieces, tied = _plan(file, config)
    float_type = _float_type(file, pieces)
    config["tie_word_embeddings"] = tied
    config |= _quantization(pieces)
    layouts = {
        name: layout for piece in pieces for name, layout in piece.layouts(float_type).items()
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
            _write_weights(file, pieces, float_type, writer=writer, progress=progress)
    return destination


def _plan(file: GgufFile, config: Mapping[str, Any]) -> tuple[list[_Piece], bool]:
    """What to write, in order, and whether the output layer is the token embedding."""
    names = mlx_names(file, config)
    tied = HEAD not in names
    if not tied and _same_matrix(file):
        # Qwen2 files hold the one matrix twice; the copy with more bits serves for both.
        tied = True
        better = max(EMBEDDING, HEAD, key=lambda name: file.tensors[name].size_bytes)
        embedding = names.pop(EMBEDDING)
        del names[HEAD]
        names[better] = embedding
    llama = config["model_type"] == "llama"
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    pieces = []
    readable: set[GGMLQuantizationType] = set()
    for name, (mlx_name, shape) in names.items():
        tensor = file.tensors[name]
        if tensor.type not in readable:  # fail now, not after minutes of converting
            _floats(file, tensor, 0, 1)
            readable.add(tensor.type)
        if tensor.type not in FLOATS and len(shape) != 2:
            raise _unreadable(file, tensor)
        part = name.split(".")[-2]
        pieces.append(_Piece(tensor, mlx_name, heads.get(part) if llama else None))
    return pieces, tied


def _same_matrix(file: GgufFile) -> bool:
    """Whether token embedding and output layer are two quantizations of the same weights."""
    embedding, head = file.tensors[EMBEDDING], file.tensors[HEAD]
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


def _float_type(file: GgufFile, pieces: list[_Piece]) -> str:
    """The one float type of the folder, which is also the type that MLX computes in.

    Matrices decide: float16 where they are quantized (scales are float16 in the file) or
    float16, bfloat16 where they are all that, float32 where one type of 16 bits cannot hold
    all of them. Norms and Qwen2's biases, float32 in most files, follow if they are in range.
    """
    kinds = {piece.source.type for piece in pieces if len(piece.source.shape) == 2}
    if kinds == {GGMLQuantizationType.BF16}:
        return "BF16"
    if kinds & {GGMLQuantizationType.BF16, GGMLQuantizationType.F32}:
        return "F32"
    largest = max(
        float(numpy.abs(_floats(file, piece.source, 0, 1)).max(initial=0))
        for piece in pieces
        if len(piece.source.shape) == 1
    )
    return "F16" if largest < float(numpy.finfo(numpy.float16).max) else "F32"


def _quantization(pieces: list[_Piece]) -> dict[str, Any]:
    """The config's `quantization`: the commonest width, and each module that has another."""
    widths = {piece.module: bits_for(piece.source.type) for piece in pieces if piece.quantized}
    if not widths:
        return {}
    weights: Counter[int] = Counter()
    for piece in pieces:
        if piece.quantized:
            weights[widths[piece.module]] += piece.source.shape[0] * piece.source.shape[1]
    ((common, _),) = weights.most_common(1)
    return {
        "quantization": {"group_size": GROUP_SIZE, "bits": common, "mode": "affine"}
        | {
            module: {"group_size": GROUP_SIZE, "bits": bits, "mode": "affine"}
            for module, bits in widths.items()
            if bits != common
        }
    }


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
    pieces: list[_Piece],
    float_type: str,
    *,
    writer: SafetensorsWriter,
    progress: Callable[[int, int], None] | None,
) -> None:
    done, total = 0, sum(piece.source.size_bytes for piece in pieces)
    for piece in pieces:
        for name, array in _converted(file, piece, float_type).items():
            writer.write(name, array.data)
        done += piece.source.size_bytes
        if progress is not None:
            progress(done, total)


def _converted(file: GgufFile, piece: _Piece, float_type: str) -> dict[str, NDArray[Any]]:
    """The arrays that `piece.layouts` announces, in that order."""
    shape = piece.source.shape
    rows = shape[0] if len(shape) == 2 else 1
    step = max(1, CHUNK_WEIGHTS // shape[-1])
    parts: list[tuple[NDArray[Any], ...]] = []
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        if piece.quantized:
            packed = pack_rows(file.rows(piece.source, start, stop), piece.source.type)
            scales, biases = (_stored(x, float_type) for x in (packed.scales, packed.biases))
            if not (numpy.isfinite(scales).all() and numpy.isfinite(biases).all()):
                raise Problem(
                    f"Tensor {piece.source.name} in {file.path.name} has infinite weights.",
                    FETCH_AGAIN,
                )
            parts.append((packed.weight, scales, biases))
        else:
            parts.append((_stored(_floats(file, piece.source, start, stop), float_type),))
    arrays = [numpy.concatenate(part) for part in zip(*parts, strict=True)]
    if piece.heads is not None:
        arrays = [_unpermuted(array, piece.heads) for array in arrays]
    return dict(zip(piece.layouts(float_type), arrays, strict=True))


def _stored(values: NDArray[numpy.float32], float_type: str) -> NDArray[Any]:
    """float32 values in the folder's float type; bfloat16 as its raw bytes."""
    if float_type == "BF16":
        raw: NDArray[Any] = quantize(values, GGMLQuantizationType.BF16)
        return raw.reshape(values.shape[0], -1)
    with numpy.errstate(over="ignore"):  # what overflows is found and refused
        return values.astype(_NUMPY_TYPES[float_type])


def _unpermuted(rows: NDArray[Any], heads: int) -> NDArray[Any]:
    """Undo llama.cpp's interleaving of each head's two halves: (head, d/2, 2) to (head, 2, d/2).

    Whole rows move, so packed rows and their scales are moved alike.
    """
    split = rows.reshape(heads, -1, 2, rows.shape[-1]).swapaxes(1, 2)
    return numpy.ascontiguousarray(split).reshape(rows.shape)
