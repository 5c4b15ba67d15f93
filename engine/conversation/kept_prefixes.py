"""Reads the caches of a prompt's beginning from disk into a decoder, and writes them to disk.

A prompt about documents begins as the last one about them did, and an agent's prompts begin with
the same instructions: its system prompt and its tools. Their caches are kept in blocks of
`PREFILL_ROWS` tokens, as the prefill reads them. They are used as far as the next prompt is the
same, token for token, so they are what a fresh prefill would make: bit for bit if a row does not
depend on the rows beside it, and otherwise because the same rows are read together.

Of a prompt about documents all blocks are kept, of another one those of its instructions. What
differs in the next prompt is not worth its bytes: a model of 8 billion parameters has 147 kB for
each token, so instructions of 18,000 tokens take 2.7 GB, once, and an hour of an agent's work as
much again and again.

Sliding windows and recurrent states cannot be cut, so they are kept at one place: the last border
of blocks that the next prompt will also have. `Unkept` says why nothing is kept. Hidden states and
a drafting model's own caches are not kept: a head starts after the prefix. Knows caches and files;
no text.
"""

import hashlib
import json
import platform
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import cached_property
from importlib import metadata
from pathlib import Path
from time import time_ns

import mlx.core as mx
import mlx_lm
import numpy as np

from engine.conversation.kept_blocks import KeptBlocks, block_names, state_name, used_ns
from engine.conversation.loading import LoadedModel
from engine.core.cache import Timeline
from engine.core.decoder import Decoder
from engine.cpu.blas import choose_blas
from engine.device import backend, raw_bytes
from engine.virtual_ids import whole_blocks
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

    LAYERS = (
        "This model cannot take up again what it has read: documents and long instructions are "
        "read anew each time."
    )
    NO_FILES = (
        "The files of this model cannot be told from others: documents and long instructions are "
        "read anew."
    )
    ON_SEVERAL_MACS = (
        "What several Macs have read together is not kept: documents and long instructions are "
        "read anew."
    )
    NO_ROOM = (
        "The disk has no room for what was read of documents and long instructions, or may not be "
        "written to: they are read anew."
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
        recurring: Callable[[], int],
        decoder: Decoder,
        held: int,
        before: "KeptPrefix | None",
    ) -> "KeptPrefix":
        """The prefix of a prompt that `decoder` is about to read, and whose first `held` tokens it
        holds. `recurring`: how many tokens another question about the same `documents`, or after
        the same instructions, will begin with, too.

        Where the prompt goes on after the prefix of the last prompt, that is its prefix: `before`.
        """
        if before and before.documents == documents and 0 < before.length <= held:
            return before
        return KeptPrefix(self, decoder, prompt, documents=documents, recurring=recurring)

    @property
    def has_states(self) -> bool:
        """Whether there is more to keep than keys and values of every position."""
        return self._decoder.timeline.has_states

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
        timeline, settings = self._probe(), self._decoder.timeline.quantized
        if quantized:
            timeline.length = settings.start if settings else 0
            timeline.open()
        held = timeline.held(0, 1)
        if any(part.ndim != 4 for part in held):
            return None
        return _layouts(held, [PREFILL_ROWS] * len(held))

    def state_layouts(self, length: int) -> list[TensorLayout] | None:
        """The tensors of what is held after `length` tokens beside the blocks; None if that cannot
        be kept."""
        states = self._probe().states(1)
        return None if states is None else _layouts(states, self._decoder.timeline.seen(length))

    def _probe(self) -> Timeline:
        """A timeline that has read a token, which is not computed."""
        decoder = self._decoder
        timeline = Timeline.of(
            decoder.model, quantized=decoder.timeline.quantized, block=decoder.block
        )
        decoder.model(mx.zeros((1, 1), dtype=mx.int32), cache=timeline.layers)
        timeline.advance(1)
        return timeline


class KeptPrefix:
    """The beginning of one prompt. Read before the rest of the prompt, and written to disk once
    there is time, a block at a time.

    Attributes: `documents`, the digests of those that it is about; `unkept`, why nothing is kept;
    None if nothing speaks against it.
    """

    def __init__(
        self,
        of: KeptPrefixes,
        decoder: Decoder,
        tokens: Sequence[int],
        documents: frozenset[str],
        recurring: Callable[[], int],
    ) -> None:
        self.documents = documents
        self.unkept: Unkept | None = None
        self._of, self._blocks, self._decoder = of, of.blocks, decoder
        self._tokens = list(tokens[: whole_blocks(tokens, len(tokens) - 1, rows=PREFILL_ROWS)])
        self._recurring = recurring
        self._to_write: Iterator[bool] | None = None

    @property
    def length(self) -> int:
        """The number of tokens in whole blocks."""
        return len(self._tokens)

    @cached_property
    def border(self) -> int:
        """The last border of blocks that the next prompt will have too; 0 if it comes too soon."""
        if self.length < FEWEST_BLOCKS * PREFILL_ROWS:
            return 0
        border = whole_blocks(self._tokens, self._recurring(), rows=PREFILL_ROWS)
        return border if border >= FEWEST_BLOCKS * PREFILL_ROWS else 0

    @property
    def most(self) -> int:
        """The number of tokens that are to be kept."""
        return self.length if self.documents and not self._of.has_states else self.border

    @property
    def stop(self) -> int:
        """The length at which states are to be marked while the prompt is read; 0 for none."""
        return self.border if self._of.has_states and not self._decoder.group else 0

    def start(self, common: int) -> int:
        """The place to read on from, where the decoder holds `common` tokens: the beginning of a
        block rather than `common` if a block that is read in two parts could not be kept."""
        whole = self._decoder.as_afresh(common)
        if common == whole or common - whole >= PREFILL_ROWS:
            return common
        return whole if self.most - whole >= FEWEST_BLOCKS * PREFILL_ROWS else common

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
        names = self._names(quantized=quantized)[: most // PREFILL_ROWS]
        has_states = self._of.has_states
        found = self._blocks.find(names, state=has_states)
        state = found.pop() if has_states and found else None
        end = len(found) * PREFILL_ROWS
        if end <= held:
            return
        states = self._tensors(state, self._of.state_layouts(end)) if state else []
        if states is None:
            return
        layouts = self._of.layouts(quantized=quantized)
        parts: list[list[mx.array]] = [[] for _ in layouts or ()]
        length = 0
        for path in found:
            tensors = self._tensors(path, layouts)
            if tensors is None:
                break
            for part, tensor in zip(parts, tensors, strict=True):
                part.append(tensor)
            length += PREFILL_ROWS
            if length > held and not has_states:  # which are of use once all are read
                yield length
        if length > held and (length == end or not has_states):
            arrays = list[mx.array]()
            for part in parts:
                arrays.append(mx.concatenate(part, axis=2))
                mx.eval(arrays[-1])
                part.clear()
            self._decoder.fill(length, arrays, states, quantized=quantized)

    def _tensors(self, path: Path, layouts: list[TensorLayout] | None) -> list[mx.array] | None:
        """The tensors in a file; None if it does not have them."""
        if layouts is None or (tensors := self._blocks.read(path, layouts)) is None:
            return None
        return [_array(*each) for each in zip(tensors, layouts, strict=True)]

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
        timeline, has_states = self._decoder.timeline, self._of.has_states
        quantized = timeline.is_quantized
        blocks = self._decoder.as_afresh(self.most) // PREFILL_ROWS
        length = blocks * PREFILL_ROWS
        names = self._names(quantized=quantized)[:blocks] if blocks >= FEWEST_BLOCKS else []
        if not names:
            return
        layouts, states = self._of.layouts(quantized=quantized), timeline.states(length)
        state_layouts = self._of.state_layouts(length)
        if layouts is None or state_layouts is None:
            self.unkept = Unkept.LAYERS
            return
        if states is None or (has_states and length < self.border):
            return  # what is at the border is no longer known
        if quantized and timeline.quantized and length <= timeline.quantized.start:
            return  # the blocks before are of use to prompts that read on from there
        block_bytes = sum(layout.size_bytes for layout in layouts)
        state_bytes = sum(layout.size_bytes for layout in state_layouts)
        room = (self._blocks.most_bytes - state_bytes) // max(block_bytes, 1)
        if room < (blocks if has_states else FEWEST_BLOCKS):
            self.unkept = Unkept.NO_ROOM
            return
        names = names[:room]
        began_ns = time_ns()  # before those that are there are used again
        there, whole = len(self._blocks.find(names)), len(self._blocks.find(names, state=True))
        if whole > len(names) if has_states else len(names) - there < FEWEST_BLOCKS:
            return
        folder = self._blocks.begin(sorted(self.documents))

        def write(i: int, name: str, layouts: list[TensorLayout], arrays: list[mx.array]) -> bool:
            path, used = folder / f"{name}.safetensors", used_ns(i, now=began_ns)
            return self._blocks.write(path, layouts, map(raw_bytes, arrays), used_ns=used)

        for i in range(there, len(names)):
            if self._decoder.as_afresh(length) < (i + 1) * PREFILL_ROWS:
                return
            held = timeline.held(i * PREFILL_ROWS, (i + 1) * PREFILL_ROWS)
            if not write(i, names[i], layouts, held):
                return
            yield True
        if has_states:
            write(len(names) - 1, state_name(names[-1]), state_layouts, states)
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


def _layouts(
    arrays: Sequence[mx.array], positions: Sequence[int | None]
) -> list[TensorLayout] | None:
    """The layouts of arrays that have so many positions in place of those that they have; None if a
    number type is not known."""
    if any(array.dtype not in _TYPES for array in arrays):
        return None
    layouts = list[TensorLayout]()
    for array, count in zip(arrays, positions, strict=True):
        shape = array.shape if count is None else (*array.shape[:2], count, array.shape[3])
        layouts.append(TensorLayout(_TYPES[array.dtype][0], shape))
    return layouts


def _array(data: memoryview, layout: TensorLayout) -> mx.array:
    kind, (_, raw) = next(each for each in _TYPES.items() if each[1][0] == layout.dtype)
    return mx.array(np.frombuffer(data, raw).reshape(layout.shape)).view(kind)
