"""Reads the caches of a prompt's beginning from disk into a decoder, and writes them to disk.

A prompt about documents begins as the last one about them did. Its caches are kept in blocks of
`PREFILL_ROWS` tokens, as the prefill reads them. They are used as far as the next prompt is the
same, token for token, so they are what a fresh prefill would make: bit for bit if a row does not
depend on the rows beside it, and otherwise because the same rows are read together.

Only caches that hold every position are kept: not recurrent states, nor windows that have moved.
`Unkept` says why nothing is kept. Hidden states and a drafting model's own caches are not kept: a
head starts behind the prefix. Knows caches and files; no text.
"""

import hashlib
import json
import platform
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import cached_property
from importlib import metadata
from time import time_ns

import mlx.core as mx
import mlx_lm
import numpy as np

from engine.conversation.kept_blocks import KeptBlocks, block_names, used_ns
from engine.conversation.loading import LoadedModel
from engine.core.cache import Timeline
from engine.core.decoder import Decoder
from engine.cpu.blas import choose_blas
from engine.device import backend, raw_bytes
from models.errors import Problem
from models.limits import PREFILL_ROWS
from models.safetensors_file import TensorLayout

FEWEST_BLOCKS = 2  # fewer are read about as fast as they are found
_VERSION = 1
_TYPES = {
    mx.float32: ("F32", np.uint32),
    mx.float16: ("F16", np.uint16),
    mx.bfloat16: ("BF16", np.uint16),
    mx.uint32: ("U32", np.uint32),
}


class Unkept(Enum):
    """Why nothing is kept of a prompt; the value says it in a line."""

    LAYERS = "This model cannot take up again what it has read: it reads documents anew each time."
    NO_FILES = "The files of this model cannot be told from others: it reads documents anew."
    ON_SEVERAL_MACS = "What several Macs have read together is not kept: documents are read anew."
    NO_ROOM = (
        "The disk has no room for what was read of the documents, or may not be written to: they "
        "are read anew."
    )


class KeptPrefixes:
    """The prefixes of one target in `blocks`."""

    def __init__(self, blocks: KeptBlocks, target: LoadedModel, decoder: Decoder) -> None:
        self.blocks = blocks
        self._target, self._decoder = target, decoder

    def of(
        self,
        prompt: Sequence[int],
        documents: frozenset[str],
        *,
        decoder: Decoder,
        held: int,
        before: "KeptPrefix | None",
    ) -> "KeptPrefix | None":
        """The prefix of a prompt that `decoder` is about to read, and whose first `held` tokens it
        holds. None without `documents`.

        Where the prompt goes on behind the prefix of the last prompt, that is its prefix: `before`.
        """
        if not documents:
            return None
        if before and before.documents == documents and 0 < before.length <= held:
            return before
        return KeptPrefix(self, decoder, prompt, documents=documents)

    @cached_property
    def depends_on(self) -> str:
        """Everything but the tokens that the content of a prefix depends on. Raises Problem."""
        folder, matrices = self._target.folder, choose_blas()
        states = [(path.name, path.stat()) for path in sorted(folder.headers)]
        described = [
            _VERSION,
            metadata.version("slipstream"),
            folder.fingerprint,
            [(name, state.st_size, state.st_mtime_ns) for name, state in states],
            hashlib.sha256(json.dumps(dict(folder.config)).encode()).hexdigest(),
            self._target.precision,
            mx.__version__,  # type: ignore[attr-defined] # its stubs lack it
            mlx_lm.__version__,
            backend().name,
            str(mx.device_info()["device_name"]),
            platform.mac_ver()[0],  # whose kernels are the system's
            str(matrices),
            matrices.threads,
            self._decoder.block,
        ]
        return json.dumps(described)

    def layouts(self, *, quantized: bool) -> list[TensorLayout] | None:
        """The tensors of a block; None if this model's caches cannot be kept."""
        settings = self._decoder.timeline.quantized
        timeline = Timeline.of(self._decoder.model, quantized=settings, block=self._decoder.block)
        self._decoder.model(mx.zeros((1, 1), dtype=mx.int32), cache=timeline.layers)  # not computed
        if quantized:
            timeline.length = settings.start if settings else 0
            timeline.open()
        held = timeline.held(0, 1)
        if held is None or any(part.dtype not in _TYPES or part.ndim != 4 for part in held):
            return None
        shapes = [(*part.shape[:2], PREFILL_ROWS, part.shape[3]) for part in held]
        names = [_TYPES[part.dtype][0] for part in held]
        return [TensorLayout(name, shape) for name, shape in zip(names, shapes, strict=True)]


class KeptPrefix:
    """The beginning of one prompt about documents. Read before the rest of the prompt, and written
    to disk once there is time, a block at a time.

    Attributes: `documents`, their digests; `unkept`, why nothing is kept; None if nothing speaks
    against it.
    """

    def __init__(
        self, of: KeptPrefixes, decoder: Decoder, tokens: Sequence[int], documents: frozenset[str]
    ) -> None:
        self.documents = documents
        self.unkept: Unkept | None = None
        self._of, self._blocks, self._decoder = of, of.blocks, decoder
        self._tokens = list(tokens[: (len(tokens) - 1) // PREFILL_ROWS * PREFILL_ROWS])
        self._to_write: Iterator[bool] | None = None

    @property
    def length(self) -> int:
        """The number of tokens in whole blocks."""
        return len(self._tokens)

    def start(self, common: int) -> int:
        """The place to read on from, where the decoder holds `common` tokens: the beginning of a
        block rather than `common` if a block that is read in two parts could not be kept."""
        whole = self._decoder.as_afresh(common)
        near = common - whole < PREFILL_ROWS
        return whole if near and self.length - whole >= FEWEST_BLOCKS * PREFILL_ROWS else common

    def read(self, held: int) -> Iterator[int]:
        """Read the kept blocks into the decoder, if they have more than the `held` tokens that it
        has. Yields the number of tokens as it grows."""
        settings = self._decoder.timeline.quantized
        if held >= self.length:
            return
        if settings is None:
            yield from self._read(held, self.length, quantized=False)
            return
        if self.length > settings.start:
            yield from self._read(max(held, settings.start), self.length, quantized=True)
        if self._decoder.length <= settings.start:
            yield from self._read(held, min(self.length, settings.start), quantized=False)

    def _read(self, held: int, most: int, *, quantized: bool) -> Iterator[int]:
        """As `read`, for one form of caches: more than `held` and up to `most` tokens."""
        found = self._blocks.find(self._names(quantized=quantized)[: most // PREFILL_ROWS])
        if len(found) * PREFILL_ROWS <= held:
            return
        layouts = self._of.layouts(quantized=quantized) or ()
        parts: list[list[mx.array]] = [[] for _ in layouts]
        length = 0
        for path in found:
            tensors = self._blocks.read(path, layouts)
            if tensors is None:
                break
            for part, tensor, layout in zip(parts, tensors, layouts, strict=True):
                part.append(_array(tensor, layout))
            length += PREFILL_ROWS
            if length > held:
                yield length
        if length > held:
            arrays = list[mx.array]()
            for part in parts:
                arrays.append(mx.concatenate(part, axis=2))
                mx.eval(arrays[-1])
                part.clear()
            self._decoder.fill(length, arrays, quantized=quantized)

    def write(self) -> bool:
        """Write the next block that is not on disk and that the decoder holds now. Returns whether
        there may be more to write."""
        if self._to_write is None:
            self._to_write = self._writing()
        try:
            return next(self._to_write, False)
        except OSError:
            self.unkept = Unkept.NO_ROOM
            return False

    def _writing(self) -> Iterator[bool]:
        timeline = self._decoder.timeline
        quantized = timeline.is_quantized
        length = self._decoder.as_afresh(self.length) // PREFILL_ROWS * PREFILL_ROWS
        if length < FEWEST_BLOCKS * PREFILL_ROWS:
            return
        layouts, names = self._of.layouts(quantized=quantized), self._names(quantized=quantized)
        if not layouts or timeline.held(0, 1) is None:
            self.unkept = Unkept.LAYERS
            return
        if quantized and timeline.quantized and length <= timeline.quantized.start:
            return  # the blocks before are of use to prompts that read on from there
        block_bytes = sum(layout.size_bytes for layout in layouts)
        most = self._blocks.most_bytes // block_bytes
        if most < FEWEST_BLOCKS:
            self.unkept = Unkept.NO_ROOM
            return
        names = names[: min(length // PREFILL_ROWS, most)]
        began_ns = time_ns()  # before those that are there are used again
        there = len(self._blocks.find(names))
        if len(names) - there < FEWEST_BLOCKS:
            return
        folder = self._blocks.begin(sorted(self.documents))
        for i in range(there, len(names)):
            held = timeline.held(i * PREFILL_ROWS, (i + 1) * PREFILL_ROWS)
            if held is None or self._decoder.as_afresh(self.length) < (i + 1) * PREFILL_ROWS:
                return
            path = folder / f"{names[i]}.safetensors"
            used = used_ns(i, now=began_ns)
            if not self._blocks.write(path, layouts, map(raw_bytes, held), used_ns=used):
                return
            yield True

    def _names(self, *, quantized: bool) -> list[str]:
        if self._decoder.group:
            self.unkept = Unkept.ON_SEVERAL_MACS
            return []
        settings = self._decoder.timeline.quantized
        try:
            of = f"{self._of.depends_on} {settings if quantized else 'as they are'}"
        except (Problem, OSError):
            self.unkept = Unkept.NO_FILES
            return []
        return block_names(of, self._tokens, rows=PREFILL_ROWS)


def _array(data: memoryview, layout: TensorLayout) -> mx.array:
    kind, (_, raw) = next(each for each in _TYPES.items() if each[1][0] == layout.dtype)
    return mx.array(np.frombuffer(data, raw).reshape(layout.shape)).view(kind)
