"""The safetensors format: checking a file, and writing one tensor at a time.

Knows headers and offsets and nothing about models. The library's own writer needs every tensor in
memory at once; this one streams.
"""

import json
import math
import reprlib
import struct
from collections.abc import Buffer, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from models.errors import Problem, unreadable
from models.files import sync

MAXIMUM_HEADER_BYTES = 100_000_000  # the format's own limit
MAXIMUM_DIMENSIONS = 64  # multiplying millions of numbers would take hours
BITS_PER_ELEMENT = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


@dataclass(frozen=True)
class TensorLayout:
    """Element type (as safetensors names it, e.g. "F16") and shape of one tensor."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * BITS_PER_ELEMENT[self.dtype] // 8


@dataclass(frozen=True)
class StoredTensor:
    """The place of a tensor: these bytes after the header of its file."""

    layout: TensorLayout
    start: int
    stop: int


def check_safetensors(path: Path) -> dict[str, TensorLayout]:
    """The tensors of the file at `path`; reads the header only.

    Raises Problem unless the header is sound, the tensors lie end to end and fill the file.
    """
    try:
        size_bytes = path.stat().st_size
        with path.open("rb") as file:
            header_bytes = header_size(file.read(8), size_bytes, file_name=path.name)
            header = file.read(header_bytes)
    except OSError as error:
        raise unreadable(path, error) from error
    tensors = read_header(header, size_bytes - 8 - header_bytes, file_name=path.name)
    return {name: tensor.layout for name, tensor in tensors.items()}


def header_size(prefix: bytes, size_bytes: int, *, file_name: str) -> int:
    """The size of the header of a file of `size_bytes` that begins with `prefix`, 8 bytes.

    Raises Problem if it cannot be.
    """
    if len(prefix) < 8:
        raise _broken(file_name, "it is only a few bytes long")
    (header_bytes,) = struct.unpack("<Q", prefix)
    if header_bytes > min(size_bytes - 8, MAXIMUM_HEADER_BYTES):
        raise _broken(file_name, "it ends inside its header")
    return int(header_bytes)


def read_header(data: bytes, tensor_bytes: int, *, file_name: str) -> dict[str, StoredTensor]:
    """Return the tensors that a header lists, in their order. `tensor_bytes`: the bytes after it.

    Raises Problem unless they lie end to end and fill the file.
    """
    try:
        header = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise _broken(file_name, "its header is not valid JSON") from error
    if not isinstance(header, dict):
        raise _broken(file_name, "its header is not a table")
    header.pop("__metadata__", None)
    found = {name: _stored(file_name, name, entry) for name, entry in header.items()}
    end = 0
    for name, tensor in sorted(found.items(), key=_place):
        if tensor.start != end:
            place = f"tensor {ascii(name)[:120]} begins at {tensor.start}, not at {end}"
            raise _broken(file_name, place)
        end = tensor.stop
    if end != tensor_bytes:
        raise _broken(file_name, f"its tensors need {end:,} bytes of {tensor_bytes:,}")
    return dict(sorted(found.items(), key=_place))


def _place(named: tuple[str, StoredTensor]) -> tuple[int, int, str]:
    name, tensor = named
    return tensor.start, tensor.stop, name


def _stored(file_name: str, name: str, entry: Any) -> StoredTensor:
    """Return the tensor of an entry of the header. Raises Problem if the entry is malformed."""
    if isinstance(entry, dict):
        dtype: Any = entry.get("dtype")
        shape: Any = entry.get("shape")
        offsets: Any = entry.get("data_offsets")
        sound = isinstance(dtype, str) and _whole(shape) and _whole(offsets)
        if sound and len(shape) <= MAXIMUM_DIMENSIONS and len(offsets) == 2:
            bits = math.prod(shape) * BITS_PER_ELEMENT.get(dtype, -1)
            if bits >= 0 and bits == (offsets[1] - offsets[0]) * 8:
                return StoredTensor(TensorLayout(dtype, tuple(shape)), *offsets)
    raise _broken(file_name, f"tensor {ascii(name)[:120]} is described as {reprlib.repr(entry)}")


def _whole(value: Any) -> bool:
    return isinstance(value, list) and all(
        type(number) is int and 0 <= number < 2**63 for number in value
    )


def _broken(file_name: str, why: str) -> Problem:
    return Problem(
        f"The weights in {file_name} are damaged: {why}.", "Download or import the model again."
    )


class SafetensorsWriter:
    """Writes a safetensors file whose layout is known beforehand, one tensor after another.

    Attributes: path; remaining, the tensors still to be written, in their order in the file.
    """

    def __init__(self, path: Path, layouts: Mapping[str, TensorLayout]) -> None:
        self.path = path
        self.remaining = dict(layouts)
        entries: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
        end = 0
        for name, layout in layouts.items():
            start, end = end, end + layout.size_bytes
            entries[name] = {
                "dtype": layout.dtype,
                "shape": list(layout.shape),
                "data_offsets": [start, end],
            }
        header = json.dumps(entries, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 8)
        self._file = path.open("xb")
        self._file.write(struct.pack("<Q", len(header)) + header)

    def write(self, name: str, data: Buffer) -> None:
        """Append the next tensor: `name` must be the next of the layout, `data` fill it exactly."""
        expected = next(iter(self.remaining))
        layout = self.remaining.pop(expected)
        size_bytes = memoryview(data).nbytes
        if name != expected or size_bytes != layout.size_bytes:
            raise ValueError(f"expected {expected} ({layout}), got {name} of {size_bytes} bytes")
        self._file.write(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._file as file:
            if kind is None:
                if self.remaining:
                    raise ValueError(f"{len(self.remaining)} tensors were not written")
                file.flush()
                sync(file.fileno())
