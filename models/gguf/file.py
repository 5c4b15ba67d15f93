"""Reads the header of a GGUF file from an unknown source.

Knows the container: metadata, tensor descriptions, where each tensor's bytes are. Refuses to
know what any of it means. Every length, count and offset is checked against the size of the
file before it is used, so a hostile or broken file costs a `Problem`, never memory, an endless
loop or a crash in native code. (The `gguf` package's reader trusts the counts it finds, and
MLX's own GGUF loader has crashed on short files; neither is handed an unchecked file here.)
"""

import math
import mmap
import os
import re
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from models.errors import Problem, unreadable
from models.gguf.ollama import as_llama_cpp_writes

MAGIC = b"GGUF"
MAXIMUM_NAME_BYTES = 65_535
MAXIMUM_DIMENSIONS = 4
DEFAULT_ALIGNMENT = 32
FETCH_AGAIN = "Download the file again, and compare its size with the one the publisher states."

_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})(\.gguf)", re.ASCII | re.IGNORECASE | re.DOTALL)
_MAXIMUM_PARTS = 1_000
_STRING, _ARRAY = 8, 9
_LENGTH = struct.Struct("<Q")
_KINDS = ("<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?", "<u8", "<i8", "<f8")
_SCALARS: dict[int, numpy.dtype[Any]] = dict(
    zip((*range(8), 10, 11, 12), map(numpy.dtype, _KINDS), strict=True)
)


@dataclass(frozen=True)
class GgufTensor:
    """A tensor in the file at `path`: `shape` is as NumPy has it, `offset` is absolute."""

    path: Path
    name: str
    type: GGMLQuantizationType
    shape: tuple[int, ...]
    offset: int
    size_bytes: int

    @property
    def rows(self) -> int:
        """The product of all lengths but the last: 1 for a tensor of one dimension."""
        return math.prod(self.shape[:-1])


@dataclass(frozen=True)
class GgufFile:
    """A checked header: every tensor's bytes lie inside their file and overlap no other's.

    Of a model that is split over several files, `path` is the first; tensors are of all.
    """

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]

    def integer(self, key: str, default: int | None = None, *, maximum: int = 2**31) -> int:
        """The whole number stored under `key`, 0 or more. Raises Problem if missing or odd."""
        value = self.metadata.get(key, default)
        if type(value) is not int or not 0 <= value <= maximum:
            raise self.odd(key, value)
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """The positive finite number stored under `key`. Raises Problem if it is missing or odd."""
        value = self.metadata.get(key)
        if value is None and default is not None:
            return default
        if (type(value) is int or type(value) is float) and 0 < value < float("inf"):
            return float(value)
        raise self.odd(key, value)

    def odd(self, key: str, value: object) -> Problem:
        """Return the Problem of a value in the metadata that no model has."""
        return Problem(
            f"The GGUF file states {shown(value)} for {key}.",
            "The file is damaged or unusual: get it from another publisher.",
        )

    def rows(self, tensor: GgufTensor, start: int, stop: int) -> NDArray[numpy.uint8]:
        """The raw bytes of rows start..stop: shape (stop - start, bytes per row)."""
        row_bytes = tensor.size_bytes // tensor.rows
        try:
            data = numpy.fromfile(
                tensor.path,
                dtype=numpy.uint8,
                count=(stop - start) * row_bytes,
                offset=tensor.offset + start * row_bytes,
            )
        except OSError as error:
            raise unreadable(tensor.path, error) from error
        if data.size < (stop - start) * row_bytes:
            raise _broken(self.path, "it was cut short while it was being read")
        return data.reshape(stop - start, row_bytes)


def is_gguf(path: Path) -> bool:
    """Whether it is a GGUF file, by its name, or by its first bytes where it has no such name."""
    if not os.path.isfile(path):  # which is false for a name that is too long
        return False
    if path.suffix.lower() == ".gguf":
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def part_names(name: str) -> list[str]:
    """Return all file names of the model whose first file is called `name`; empty for a later
    file."""
    named = _PART.fullmatch(name)
    if named is None:
        return [name]
    stem, number, count, suffix = named.groups()
    if int(number) != 1 or not 1 <= int(count) <= _MAXIMUM_PARTS:
        return []
    return [f"{stem}-{part:05}-of-{count}{suffix}" for part in range(1, int(count) + 1)]


def parts(path: Path) -> list[Path]:
    """Return all files of the model whose first file is `path`; empty for a later file."""
    return [path.with_name(name) for name in part_names(path.name)]


def read_gguf(path: Path, *, lists_of_strings: bool = True) -> GgufFile:
    """Read and check the headers of the GGUF file at `path` and of its other parts.

    No tensor data is read. Without `lists_of_strings` the tokens and merges, which are most of the
    header, are neither read nor checked, and are not in the metadata.
    Raises Problem if it is missing, or is not a complete, consistent GGUF file.
    """
    first = _read_one(path, lists_of_strings=lists_of_strings)
    count = first.integer("split.count", 0)
    if count <= 1:
        return as_llama_cpp_writes(first)
    files = parts(path)
    if first.integer("split.no", 0) != 0 or len(files) != count:
        raise Problem(
            f"{path.name} is one of the {count} files of a model that was split.",
            f"Name the first, which ends in -00001-of-{count:05}.gguf. Keep all in one folder.",
        )
    tensors = dict(first.tensors)
    for number, part in enumerate(files[1:], start=1):
        later = _read_one(part, lists_of_strings=lists_of_strings)
        if later.integer("split.no", 0) != number or later.integer("split.count", 0) != count:
            raise _broken(part, f"it is not part {number + 1} of {count}")
        if twice := tensors.keys() & later.tensors.keys():
            raise _broken(part, f"tensor {shown(min(twice))} is in another part, too")
        tensors |= later.tensors
    if first.integer("split.tensors.count", len(tensors)) != len(tensors):
        raise _broken(path, f"its parts have {len(tensors)} tensors, and it states another number")
    return as_llama_cpp_writes(replace(first, tensors=tensors))


def _read_one(path: Path, *, lists_of_strings: bool) -> GgufFile:
    if not path.is_file():
        raise Problem(f"The file {path} was not found.", "Check the path of the GGUF file.")
    try:
        size_bytes = path.stat().st_size
        with path.open("rb") as file:
            if size_bytes < 24 or file.read(4) != MAGIC:
                raise _broken(path, "it does not begin like one")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Header(path, data, lists_of_strings=lists_of_strings).read()
    except OSError as error:
        raise unreadable(path.name, error) from error


def shown(value: object) -> str:
    """A value from the file, short enough and harmless enough for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _broken(path: Path, why: str) -> Problem:
    return Problem(f"{path.name} is not a usable GGUF file: {why}.", FETCH_AGAIN)


class _Header:
    """A position in the mapped file that cannot move past its end."""

    def __init__(self, path: Path, data: mmap.mmap, *, lists_of_strings: bool) -> None:
        self.path = path
        self.data = data
        self.lists_of_strings = lists_of_strings
        self.offset = len(MAGIC)

    def read(self) -> GgufFile:
        version = self.number("<I")
        if version not in (2, 3):
            big_endian = version and version & 0xFFFF == 0
            kind = "big-endian" if big_endian else f"version {version}"
            raise Problem(
                f"{self.path.name} is a {kind} GGUF file, which is not supported.",
                "Use a little-endian GGUF file of version 2 or 3.",
            )
        tensor_count, metadata_count = self.number("<Q"), self.number("<Q")
        self.require(metadata_count * 13, "its metadata")  # a key, a type and one byte at least
        metadata: dict[str, Any] = {}
        for _ in range(metadata_count):
            key = self.string("a metadata key", limit=MAXIMUM_NAME_BYTES)
            if key in metadata:
                raise _broken(self.path, f"it has the metadata key {shown(key)} twice")
            metadata[key] = self.value(key, self.number("<I"))
        metadata = {key: value for key, value in metadata.items() if value is not None}
        self.require(tensor_count * 32, "its tensor descriptions")
        described = [self.described_tensor() for _ in range(tensor_count)]
        alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
            raise _broken(self.path, f"its alignment is {shown(alignment)}")
        start = -(-self.offset // alignment) * alignment
        return GgufFile(self.path, metadata, self.placed(described, start))

    def require(self, count: int, what: str) -> None:
        if count > len(self.data) - self.offset:
            raise _broken(self.path, f"it ends inside {what}, or states an impossible size for it")

    def take(self, count: int, what: str) -> bytes:
        self.require(count, what)
        self.offset += count
        return self.data[self.offset - count : self.offset]

    def number(self, layout: str) -> int:
        (value,) = struct.unpack(layout, self.take(struct.calcsize(layout), "its header"))
        return int(value)

    def string(self, what: str, *, limit: int | None = None) -> str:
        length = self.number("<Q")
        if limit is not None and length > limit:
            raise _broken(self.path, f"{what} is {length} bytes long")
        try:
            return self.take(length, what).decode()
        except UnicodeDecodeError as error:
            raise _broken(self.path, f"{what} is not valid UTF-8") from error

    def value(self, key: str, kind: int) -> Any:
        if kind == _STRING:
            return self.string(shown(key))
        if kind == _ARRAY:
            return self.array(key)
        return self.scalars(key, kind, 1)[0]

    def array(self, key: str) -> list[Any] | None:
        """The list; None for strings that are skipped."""
        kind, count = self.number("<I"), self.number("<Q")
        if kind != _STRING:
            return self.scalars(key, kind, count)
        self.require(count * 8, shown(key))
        if self.lists_of_strings:
            return [self.string(shown(key)) for _ in range(count)]
        self.pass_over(count, shown(key))
        return None

    def pass_over(self, count: int, what: str) -> None:
        """Skip strings, reading only the length of each."""
        length_at, data, offset = _LENGTH.unpack_from, self.data, self.offset
        try:
            for _ in range(count):
                offset += 8 + length_at(data, offset)[0]
        except (struct.error, OverflowError):  # past the end
            offset = len(data) + 1
        self.require(offset - self.offset, what)
        self.offset = offset

    def scalars(self, key: str, kind: int, count: int) -> list[Any]:
        if kind not in _SCALARS:
            raise _broken(self.path, f"{shown(key)} has the unknown type {kind}")
        data = self.take(count * _SCALARS[kind].itemsize, shown(key))
        return list(numpy.frombuffer(data, dtype=_SCALARS[kind]).tolist())

    def described_tensor(self) -> GgufTensor:
        """One tensor description; its offset is still relative to the start of the data."""
        name = self.string("a tensor name", limit=MAXIMUM_NAME_BYTES)
        dimensions = self.number("<I")
        if not 1 <= dimensions <= MAXIMUM_DIMENSIONS:
            raise _broken(self.path, f"tensor {shown(name)} has {dimensions} dimensions")
        shape = tuple(reversed([self.number("<Q") for _ in range(dimensions)]))
        number, offset = self.number("<I"), self.number("<Q")
        try:
            kind = GGMLQuantizationType(number)
        except ValueError as error:
            raise Problem(
                f"{self.path.name} holds tensor {shown(name)} in the unknown format {number}.",
                "Use a file in a common format such as Q4_0, Q4_K_M, Q8_0 or F16.",
            ) from error
        block, block_bytes = GGML_QUANT_SIZES[kind]
        elements = math.prod(shape)
        if elements == 0 or shape[-1] % block:
            raise _broken(self.path, f"tensor {shown(name)} has the shape {list(shape)}")
        size_bytes = elements // block * block_bytes
        return GgufTensor(self.path, name, kind, shape, offset, size_bytes)

    def placed(self, described: list[GgufTensor], start: int) -> dict[str, GgufTensor]:
        """The tensors by name with absolute offsets, inside the file and apart from each other."""
        tensors: dict[str, GgufTensor] = {}
        end = start
        for tensor in sorted(described, key=lambda tensor: tensor.offset):
            offset = start + tensor.offset
            if tensor.name in tensors:
                raise _broken(self.path, f"it has the tensor {shown(tensor.name)} twice")
            if offset < end:
                raise _broken(self.path, f"tensor {shown(tensor.name)} overlaps another")
            end = offset + tensor.size_bytes
            if end > len(self.data):
                raise _broken(self.path, f"it ends before tensor {shown(tensor.name)} does")
            tensors[tensor.name] = replace(tensor, offset=offset)
        return tensors
