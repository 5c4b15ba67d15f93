"""Reads the caches of a prompt's beginning from disk into a decoder, and writes them to disk.

A prompt about documents begins as the last one about them did, and an agent's prompts begin with
the same instructions: its system prompt and its tools. Their caches are kept in blocks of
`PREFILL_ROWS` tokens, as the prefill reads them. They are used as far as the next prompt is the
same, token for token, so a fresh prefill would give the same caches: bit for bit if a row does not
depend on the other rows of its pass, and otherwise because the same rows are read together.

Of a prompt about documents all blocks are kept, of other prompts the blocks of the instructions.
The rest differs in the next prompt and is not worth its bytes: a model of 8 billion parameters has
147 kB for each token, so instructions of 18,000 tokens take 2.7 GB, once, and an hour of an agent's
work as much again and again.

Sliding windows and recurrent states cannot be cut, so they are kept at one place: the last border
of blocks that the next prompt will also have. `Unkept` says why nothing is kept. Hidden states and
a drafting model's own caches are not kept: a head starts after the prefix. Knows caches and files;
no text.
"""

import hashlib
import json
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from functools import cached_property, partial
from importlib import metadata
from pathlib import Path
from time import time_ns

import mlx.core as mx
import mlx_lm
from mlx_lm.models.cache import QuantizedKVCache

from engine.conversation.kept_blocks import KeptBlocks, block_names, state_name, used_ns
from engine.conversation.loading import LoadedModel
from engine.core import cache_arrays
from engine.core.decoder import Decoder
from engine.device import backend
from engine.virtual_ids import is_virtual
from models.errors import Problem
from models.limits import PREFILL_ROWS

FEWEST_BLOCKS = 2  # fewer are read about as fast as they are found
_VERSION = 2


class Unkept(Enum):
    """Why nothing is kept of a prompt; the value says it in a line."""

    LAYERS = (
        "This model's caches cannot be saved, so documents and long instructions are read again "
        "each time."
    )
    NO_FILES = (
        "This model's files cannot be identified, so documents and long instructions are read "
        "again each time."
    )
    ON_SEVERAL_MACS = (
        "Prompts read on several Macs cannot be saved, so documents and long instructions are "
        "read again each time."
    )
    NO_ROOM = (
        "The disk has no room for the prompt cache, or cannot be written to, so documents and "
        "long instructions are read again each time."
    )


class KeptPrefixes:
    """The prefixes of one target in `blocks`."""

    def __init__(self, blocks: KeptBlocks, target: LoadedModel, decoder: Decoder) -> None:
        self.blocks = blocks
        self._target, self._decoder = target, decoder

    @property
    def has_states(self) -> bool:
        """Whether there is more to keep than keys and values of every position."""
        return cache_arrays.has_states(self._decoder.timeline)

    @cached_property
    def depends_on(self) -> str:
        """Everything but the tokens that the content of a prefix depends on. Raises Problem."""
        folder, device = self._target.folder, backend()
        described = [
            _VERSION,
            metadata.version("slipstream"),
            folder.fingerprint,
            folder.file_states,
            hashlib.sha256(json.dumps(dict(folder.config)).encode()).hexdigest(),
            self._target.precision,
            mx.__version__,  # type: ignore[attr-defined] # its stubs lack it
            mlx_lm.__version__,
            device.name,
            str(mx.device_info()["device_name"]),
            platform.mac_ver()[0],  # whose kernels are the system's
            device.matrices,
            device.threads,
            self._decoder.block,
        ]
        return json.dumps(described)


class KeptPrefix:
    """The beginning of one prompt. Read before the rest of the prompt, and written to disk once
    there is time, a block at a time.

    Attributes: `documents`, the digests of the documents in the prompt; `unkept`, why nothing is
    kept; None unless something prevents it.
    """

    def __init__(
        self,
        of: KeptPrefixes,
        decoder: Decoder,
        tokens: Sequence[int],
        documents: frozenset[str],
        recurring: Callable[[], int],
    ) -> None:
        """`recurring`: how many tokens another question about the same documents, or after the same
        instructions, will begin with, too."""
        self.documents = documents
        self.unkept: Unkept | None = None
        self._of, self._blocks, self._decoder = of, of.blocks, decoder
        self._tokens = list(tokens[: whole_blocks(tokens, len(tokens) - 1, rows=PREFILL_ROWS)])
        self._recurring = recurring
        self._folder = self._made()
        self._to_write: Iterator[bool] | None = None

    def _made(self) -> Path | None:
        """Make the folder of the blocks, before the prompt is read. A document that is deleted
        later takes it along, and then nothing is written."""
        if self.length < FEWEST_BLOCKS * PREFILL_ROWS or not self._of_caches(quantized=False):
            return None
        try:
            return self._blocks.begin(sorted(self.documents))
        except OSError:
            self.unkept = Unkept.NO_ROOM
            return None

    def goes_on(self, documents: frozenset[str], held: int) -> bool:
        """Whether a prompt about the same documents goes on after this prefix, as `held` tokens of
        it are read: then this is its prefix, too."""
        return self.documents == documents and 0 < self.length <= held

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
        states = [] if state is None else self._arrays(state)
        if states is None:
            return
        blocks, length = list[list[mx.array]](), 0
        for path in found:
            arrays = self._arrays(path)
            if arrays is None:
                break
            blocks.append(arrays)
            length += PREFILL_ROWS
            if held < length < end and not has_states:  # states are of use with all blocks
                yield length
        if length > held and (length == end or not has_states):
            parts, whole = [list(part) for part in zip(*blocks, strict=True)], list[mx.array]()
            blocks.clear()  # so that memory holds only one part twice
            for part in parts:
                whole.append(mx.concatenate(part, axis=2))
                mx.eval(whole[-1])
                part.clear()
            self._decoder.fill(length, whole, states, quantized=quantized)
            yield length

    def _arrays(self, path: Path) -> list[mx.array] | None:
        """The arrays in a file, in their order; None if it is damaged or gone."""
        if not self._blocks.is_whole(path):
            return None
        with suppress(OSError, RuntimeError):  # another process deleted it
            return cache_arrays.load(path)
        return None

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
        quantized = any(isinstance(layer, QuantizedKVCache) for layer in timeline.layers)
        blocks = self._decoder.as_afresh(self.most) // PREFILL_ROWS
        length = blocks * PREFILL_ROWS
        names = self._names(quantized=quantized)[:blocks] if blocks >= FEWEST_BLOCKS else []
        folder = self._folder
        if not names or folder is None:
            return
        if any(part.ndim != 4 for part in cache_arrays.held(timeline, 0, 1)) or (
            cache_arrays.states(timeline, timeline.length) is None
        ):
            self.unkept = Unkept.LAYERS
            return
        states = cache_arrays.states(timeline, length)
        if states is None or (has_states and length < self.border):
            return  # the states at the border are gone
        if quantized and timeline.quantized and length <= timeline.quantized.start:
            return  # the blocks before are of use to prompts that read on from there
        block_bytes = sum(array.nbytes for array in cache_arrays.held(timeline, 0, PREFILL_ROWS))
        room = self._blocks.most_bytes - sum(array.nbytes for array in states)
        room //= max(block_bytes, 1)
        if room < (blocks if has_states else FEWEST_BLOCKS):
            self.unkept = Unkept.NO_ROOM
            return
        names = names[:room]
        began_ns = time_ns()  # before the blocks on disk are used again
        on_disk, whole = len(self._blocks.find(names)), len(self._blocks.find(names, state=True))
        if whole > len(names) if has_states else len(names) - on_disk < FEWEST_BLOCKS:
            return

        def write(i: int, name: str, arrays: Sequence[mx.array]) -> bool:
            return self._blocks.write(
                folder / f"{name}.safetensors",
                partial(cache_arrays.save, arrays),
                size_bytes=sum(array.nbytes for array in arrays),
                used_ns=used_ns(i, now=began_ns),
            )

        for i in range(on_disk, len(names)):
            first, end = i * PREFILL_ROWS, (i + 1) * PREFILL_ROWS
            if self._decoder.as_afresh(length) < end:
                return
            if not write(i, names[i], cache_arrays.held(timeline, first, end)):
                return
            yield True
        if has_states:
            write(len(names) - 1, state_name(names[-1]), states)
            yield True

    def _names(self, *, quantized: bool) -> list[str]:
        of = self._of_caches(quantized=quantized)
        return block_names(of, self._tokens, rows=PREFILL_ROWS) if of else []

    def _of_caches(self, *, quantized: bool) -> str:
        """Everything but the tokens that these caches depend on; empty where they are not kept."""
        if self._decoder.group:
            self.unkept = Unkept.ON_SEVERAL_MACS
            return ""
        settings = self._decoder.timeline.quantized
        try:
            return f"{self._of.depends_on} {settings if quantized else 'as they are'}"
        except (Problem, OSError):
            self.unkept = Unkept.NO_FILES
            return ""


def whole_blocks(tokens: Sequence[int], most: int, *, rows: int) -> int:
    """The greatest multiple of `rows` up to `most` at which `tokens` can be cut: not in a
    picture."""
    end = min(most, len(tokens)) // rows * rows
    while 0 < end < len(tokens) and is_virtual(tokens[end - 1]) and is_virtual(tokens[end]):
        end -= rows
    return end
