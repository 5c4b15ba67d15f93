"""A model that reads a sequence of tokens and can take some back: target and drafting model alike.

Knows a model and its caches; nothing of sampling, of text, or of who verifies whom.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from time import perf_counter
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from engine.core import cache_arrays
from engine.core.cache import QuantizedCaches, Timeline
from engine.core.model_parts import HiddenStates, StateRecorder, recording, standing_in
from engine.core.recurrent import Recurrences
from engine.core.sights import Sight, Sights, lowered, read_sight, sights_in
from engine.core.split_attention import LEAST_KEYS, as_alone, in_parts
from engine.device import backend, begin, unproven
from engine.virtual_ids import is_virtual
from models.drafters.kinds import Tap
from models.errors import Problem
from models.limits import CACHE_BLOCK, PREFILL_ROWS, ROUND_ROWS

CHUNK_SECONDS = 1.0
_MOST_UNREAD = 8
IN_PARTS = {"scaled_dot_product_attention": in_parts}
_AS_ALONE = {"scaled_dot_product_attention": as_alone}
# Of a pass that is begun before its draft is waited for. MLX lets ten command buffers be under way,
# and a full one has some 40 operations, or 40 million elements of inputs: these fill eight.
_FIRST_ELEMENTS = 320_000_000
_FIRST_LAYERS = 10  # of some 30 operations
_POOL_TOKENS = 256  # after these MLX's pool is freed: it holds caches' old buffers


class Decoder:
    """Reads the committed tokens of one conversation.

    Its caches always hold a prefix of them: `length` tokens. The rest is unread, and comes first
    in the next pass: usually just the last token, which the model wrote itself.

    Attributes: `model`; `device`, which computes its passes; `depth`, the number of
    its layers, in all processes together; `timeline`, its caches; `block`, the tokens by which they
    grow; `recorder` of its hidden states; `vocabulary`, the number of its logits; `chunk_seconds`,
    see `prefill`; `group`, the processes that read together, and how; empty if this one reads
    alone; `sights`, the pictures that may be in its text; `promise`, how exact its passes are.
    `trial` finds out whether the model can read trees.
    """

    group = ""

    def __init__(
        self,
        model: nn.Module,
        *,
        quantized: QuantizedCaches | None = None,
        block: int = CACHE_BLOCK,
        trial: Callable[[], bool] = lambda: False,
        sights: Sights | None = None,
    ) -> None:
        self.model = model
        self.sights = sights
        self.device = backend()
        self.depth = len(model.layers)
        self.block = block
        self._trial = trial
        self.promise = unproven()
        self._recurrences = Recurrences(model)
        weights: Any = tree_flatten(model.parameters())
        self._weights_per_layer = sum(each.size for _, each in weights) / max(1, self.depth)
        probe: mx.array = model(mx.zeros((1, 1), dtype=mx.int32))  # for its shape; never computed
        self.vocabulary: int = probe.shape[-1]
        self._begin(self._timeline(quantized))

    def _timeline(self, quantized: QuantizedCaches | None) -> Timeline:
        """Make empty caches."""
        exact = self.device.exact_rows
        return Timeline.of(self.model, quantized=quantized, block=self.block, exact_rows=exact)

    def _begin(self, timeline: Timeline) -> None:
        """Begin a conversation whose tokens in `timeline` have been read."""
        self.timeline = timeline
        self._shown: list[tuple[int, Sight]] = []  # in the text that was last read, with places
        self.recorder = StateRecorder(self.model)
        self._timed = self.device.chunks(PREFILL_ROWS)
        self.chunk_seconds = CHUNK_SECONDS
        self._in_blocks = 0
        self._pool_freed_at = 0

    def another(self) -> "Decoder":
        """A decoder with caches of its own, for another conversation with the same model."""
        other = copy(self)  # with all that was found out about the model, which takes long
        other._begin(self._timeline(self.timeline.quantized))
        return other

    def copy(self) -> tuple["Decoder", list[HiddenStates]]:
        """Another decoder that has read the same tokens, and its recordings. A drafter that uses
        them must hold them, as for `record`."""
        other = self.another()
        other.timeline, other._in_blocks = self.timeline.copy(), self._in_blocks
        other._shown = list(self._shown)
        return other, self.recorder.copy_to(other.recorder)

    @cached_property
    def shares(self) -> bool:
        """Whether decoders of the model can share passes: tried when it is first asked."""
        return self._trial()

    @property
    def branches(self) -> bool:
        """Whether the model can read trees. A tree is one pass, however many rows are exact."""
        return not self.promise.now.in_parts and self.shares

    @property
    def length(self) -> int:
        """Return the number of committed tokens that the caches hold."""
        return self.timeline.length

    def as_afresh(self, length: int) -> int:
        """Return how many of the first `length` tokens were read as `prefill` reads a new prompt.
        Kernels that round by the number of rows must have read blocks of `PREFILL_ROWS`."""
        held = min(length, self.length)
        return held if self._timed else min(self._border_before(held), self._in_blocks)

    def _border_before(self, length: int) -> int:
        """Return the last border of blocks up to `length`, or the start of a picture around it."""
        border = length // PREFILL_ROWS * PREFILL_ROWS
        around = (start for start, sight in self._shown if start < border < start + len(sight.ids))
        return next(around, border)

    @property
    def lower(self) -> int:
        """Return how much lower than its place the next token's position is, after pictures."""
        return sum(sight.lower for start, sight in self._shown if start < self.length)

    def record(self, taps: Sequence[Tap]) -> HiddenStates:
        """The hidden states at `taps` of all tokens that are read from now on. They are taken back
        with the tokens.

        They are recorded while someone holds them. Raises `Problem` if the model has no such
        layers.
        """
        return self.recorder.record(taps, length=self.length)

    def read(self, tokens: mx.array) -> mx.array:
        """Read `tokens` (n,) in one pass; return logits (n, vocabulary), not yet computed.

        A token id beyond the vocabulary is read as the vocabulary's last token.
        """
        tokens, before = mx.minimum(tokens, self.vocabulary - 1), self.length
        with (
            lowered(self.model, self.lower),
            self.one_pass(tokens.size) as caches,
            recording([(self.recorder, before, tokens.size)]),
        ):
            logits: mx.array = self.model(tokens[None], cache=caches)[0]
        return logits

    def begin(self, logits: mx.array) -> None:
        """Let a GPU begin with the latest pass, which gave `logits`: with as many layers as MLX
        begins without a wait. The rest begins with the choice of a token from the logits."""
        if not self.device.beside_host:
            return
        layers = self.timeline.layers
        first = min(int(_FIRST_ELEMENTS / max(self._weights_per_layer, 1.0)), _FIRST_LAYERS)
        begin(logits if first >= len(layers) else layers[max(first, 1)].state)

    def read_draft(self, tokens: mx.array) -> mx.array:
        """Read `tokens` as `read` does, in as many passes as make each row exact."""
        most = self.promise.now.rows or tokens.size
        if tokens.size <= most:
            return self.read(tokens)
        starts = range(0, tokens.size, most)
        return mx.concatenate([self.read(tokens[start : start + most]) for start in starts])

    def _see(self, sight: Sight) -> mx.array:
        """Read a picture in one pass, as `read` does tokens."""
        seen, before, rows = sight.look(), self.length, len(sight.ids)
        position = before - self.lower
        with self.one_pass(rows) as caches, recording([(self.recorder, before, rows)]):
            return read_sight(self.model, sight, seen, caches, position=position)

    @contextmanager
    def one_pass(self, rows: int) -> Iterator[list[Any]]:
        """Lend the caches for a pass over `rows` tokens.

        If the pass fails, nothing was read.
        """
        before, caches, tape = self.length, self.timeline.open(), self.timeline.tape
        self.timeline.advance(rows)
        try:
            with (
                self._recurrences.recording(tape, caches, rows=rows),
                standing_in(self.model, self._stand_ins(before + rows)),
            ):
                yield caches
        except BaseException:
            self.rewind(before)  # some layers may have read, some not
            raise

    def _stand_ins(self, length: int) -> Mapping[str, Callable[..., Any]]:
        """The functions that a pass up to `length` calls in the place of mlx-lm's, by name."""
        if own := self.device.stand_ins(self._weights_per_layer):
            return own
        if getattr(self.model, "attends_alone", False):
            return _AS_ALONE
        return IN_PARTS if length >= LEAST_KEYS else {}

    def prefill(self, tokens: list[int], *, most: int = PREFILL_ROWS) -> Iterator[int]:
        """Read all of `tokens` but the last, in chunks. Yields the length after each.

        On a GPU a chunk has `most` tokens, up to the next multiple of `PREFILL_ROWS`. On the CPU it
        has as many tokens as can be read in about `chunk_seconds`, so that the user can watch it
        and stop it. A picture is a chunk of its own.
        """
        self._look_for_pictures(tokens)
        self.timeline.forget()
        block = self.length  # its beginning
        while self.length < len(tokens) - 1:
            before, began = self.length, perf_counter()
            end = self._read_on(tokens, self._timed.rows if self._timed else most)
            mx.eval([layer.state for layer in self.timeline.layers])
            mx.clear_cache()
            if self._timed and not is_virtual(tokens[before]):
                rows, seconds = self.length - before, perf_counter() - began
                self._timed.read(rows, seconds, wanted=self.chunk_seconds)
            if self.length == end:
                if block == self._in_blocks:
                    self._in_blocks = end
                block = end
            yield self.length

    def _look_for_pictures(self, tokens: list[int]) -> None:
        """Find the pictures in the text to be read. If the caches end inside a picture, take all of
        its rows back."""
        self._shown = sights_in(tokens, self.sights or {})
        for start, sight in self._shown:
            if start < self.length < start + len(sight.ids):
                self.rewind(start)

    def _read_on(self, tokens: list[int], most: int) -> int:
        """Read the next chunk, of up to `most` tokens or of a picture; returns where it ends at the
        latest."""
        border = self.length // PREFILL_ROWS * PREFILL_ROWS + PREFILL_ROWS
        end = len(tokens) - 1 if self._timed else min(len(tokens) - 1, border)
        for start, sight in self._shown:
            if start == self.length:
                self._see(sight)
                return start + len(sight.ids)
            if start > self.length:
                end, border = min(end, start), min(border, start)
                break
        rows = min(end - self.length, most, self.timeline.room(exact=most < PREFILL_ROWS))
        chunk = tokens[self.length : self.length + rows]
        if self.sights is not None and any(map(is_virtual, chunk)):
            raise Problem(
                "A picture in the prompt is no longer available.",
                "Send its message with the picture again.",
            )
        self.read(mx.array(chunk))
        return border

    def fill(
        self, length: int, held: Sequence[mx.array], states: Sequence[mx.array], *, quantized: bool
    ) -> None:
        """Hold the first `length` tokens from the arrays that `cache_arrays.held` and `states` gave
        of them. Hidden states of these tokens are not recorded."""
        self.rewind(0)
        cache_arrays.fill(self.timeline, length, held, states, quantized=quantized)
        self._in_blocks = length

    def begin_round(self, tokens: list[int]) -> int:
        """Prepare for a round that can be taken back. Returns the rows that are left for a draft.

        Recurrent caches that cannot be computed again take back whole rounds, so rejections leave
        more and more unread tokens. Those are read for good before they slow down every pass.
        """
        exact = self.promise.now.rows > 0
        if len(tokens) - self.length > min(_MOST_UNREAD, self.timeline.room(exact=exact)):
            for _ in self.prefill(tokens, most=self.promise.now.rows or PREFILL_ROWS):
                pass
        if abs(len(tokens) - self._pool_freed_at) >= _POOL_TOKENS:
            self.free_pool(len(tokens))
        self.timeline.mark()
        rows = min(self.timeline.room(exact=exact), ROUND_ROWS)  # a tape records no more
        return rows - (len(tokens) - self.length)

    def free_pool(self, length: int) -> None:
        """Free the buffers that MLX keeps for later, with `length` tokens committed. Without this,
        the caches that an 8B model outgrows in 4,000 tokens would fill 7 GB of a GPU's pool."""
        mx.clear_cache()
        self._pool_freed_at = length

    def bookmark(self) -> None:
        """Keep this position for later calls of `rewind`, such as the end of a prompt."""
        self.timeline.bookmark()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Mark a run of passes. Afterwards the followers of a cluster may sleep."""
        yield

    def keep(self, length: int, positions: Sequence[int]) -> None:
        """Keep the first `length` tokens that were read, and after them an accepted path: those at
        `positions`, which rise."""
        if list(positions) != list(range(length, length + len(positions))):
            self.timeline.move(positions, length)
            self.recorder.move(positions, length)
        self.rewind(length + len(positions))

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` tokens, or a few more: see `Timeline.rewind`."""
        self.timeline.rewind(length)
        self.recorder.cut(self.length)
        if self.length < self._in_blocks:
            self._in_blocks = self._border_before(self.length)
