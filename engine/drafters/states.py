"""Drafts from the target's hidden states (EAGLE, arXiv 2401.15077), token by token.

For each committed token but the last a network reads the target's states of the token with the
token that came next. Then it continues from its own states, one drafted token at a time, or all of
a tree's that have the same depth; these are forgotten after the round, when the target's are there.
Which network it is, `StateNetwork` leaves open.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from engine.core.cache import copy_of
from engine.core.decoder import Decoder
from engine.device import wait
from engine.draft_length import LONGEST, DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.drafters.chain import DraftRequest, draft_chain
from engine.drafters.levels import ALTERNATIVES, ReadLevel, draft_tree
from engine.drafters.rows import Rows
from engine.request import Sampling
from engine.tree import Tree
from models.drafters.kinds import Tap
from models.limits import PREFILL_ROWS

Mask = Literal["causal"] | mx.array | None


class StateNetwork(Protocol):
    """A network that continues hidden states.

    Entry i is computed from the state of token i and the embedding of token i + 1.

    `width` is the target's, w the network's own, and n may be any number of entries.
    """

    @property
    def taps(self) -> tuple[Tap, ...]:
        """The layers whose states are read."""

    @property
    def rows(self) -> Rows | None:
        """The rows of its output layer; None if each of the target's tokens has its own."""

    def begin(self, states: mx.array) -> mx.array:
        """Return its first states from the target's, (1, n, taps, width) to (1, n, w)."""

    def go_on(self, state: mx.array) -> mx.array:
        """Return its first states from its own earlier ones, (b, n, w) to (b, n, w)."""

    def __call__(self, begun: mx.array, tokens: mx.array, mask: Mask, cache: list[Any]) -> mx.array:
        """Return the next states, (b, n, w), from the `begun` states of each token, (b, n, w), and
        the `tokens` after them, (b, n).

        In a chain b is 1: n entries are appended to the caches, which know their positions. In a
        tree n is 1: each of b branches appends an entry, and sees the entries that `mask` shows it;
        the caches are then `Level`s.
        """

    def logits(self, state: mx.array) -> mx.array:
        """Return the logits of the tokens after `tokens`: (b, n, w) to (b, n, rows)."""

    def make_cache(self) -> list[KVCache]:
        """Return empty caches, one for each layer."""


class Level:
    """Takes the place of a layer's cache while a network reads one level of a tree, each token of
    it as a branch. All branches have the same position; each sees the entries before the tree, and
    the entries on its own path.

    Attribute: `offset`, their position.
    """

    def __init__(self, cache: KVCache, tree: Tree, *, rows: int, committed: int) -> None:
        """The level is the last `rows` tokens of `tree`; `cache` holds the others, after
        `committed` entries."""
        self._cache = cache
        self._committed, self._depths = committed, mx.array(tree.depths)
        self._before = mx.array(tree.before)[-rows:]
        self.offset = committed + tree.height - 1

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append (branches, heads, 1, dim); returns all entries, (branches, heads, entries, dim),
        the same for every branch."""
        branches = keys.shape[0]
        held = self._cache.update_and_fetch(keys.swapaxes(0, 2), values.swapaxes(0, 2))
        every_keys, every_values = (mx.broadcast_to(a, (branches, *a.shape[1:])) for a in held)
        return every_keys, every_values

    def make_mask(self, rows: int = 1, window_size: int | None = None, **_: Any) -> mx.array:
        """Return the mask of the branches, (branches, 1, 1, entries), as truth values. Call it
        before the entries are appended."""
        seen = mx.pad(self._before, [(0, 0), (self._committed, 0)], constant_values=True)
        if window_size is not None:
            positions = [mx.arange(self._committed), self._committed + self._depths]
            seen = seen & (mx.concatenate(positions) > self.offset - window_size)
        return seen[:, None, None]


class StateDrafter(Drafter):
    """Drafts for `target`, whose hidden states are recorded from now on."""

    def __init__(self, target: Decoder, network: StateNetwork, *, name: str) -> None:
        self.name = name
        self._network = network
        self._states = target.record(network.taps)
        self._rows = network.rows or Rows(target.vocabulary)
        self._last = target.vocabulary - 1  # which is read in place of ids beyond the vocabulary
        self._cache = network.make_cache()
        self._base = 0  # the position of the cache's first entry
        self._read = 0  # entries from the target's states; those after are from its own

    def fork(self, target: Decoder) -> Drafter:
        other = type(self)(target, self._network, name=self.name)
        if target.length:
            other._cache = [copy_of(cache) for cache in self._cache]
            other._base, other._read = self._base, self._read
        return other

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        self._forget_drafted()
        while self._next_position() < min(len(tokens) - 1, self._states.end):
            wait(self._read_target(tokens, rows=PREFILL_ROWS))
            yield self._base + self._read

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        position = self._base + self._read
        behind = max(min(len(tokens) - 1, self._states.end) - position - 1, 0)
        return (DraftCandidate(self.name, LONGEST, behind=behind, alternatives=ALTERNATIVES),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        self._take_back(min(len(tokens) - 1, self._states.end))  # at least one is to be read
        if self._states.end == self._states.first:
            return None
        asked = DraftRequest(tokens, choice, sampling, key, self._rows, self.name)
        if choice.tree is not None:
            return draft_tree(self._level_reader(tokens), asked)
        return draft_chain(self._reader(tokens), asked, unread=tokens[-1:])

    def accept(self, path: Sequence[int]) -> None:
        self._forget_drafted()

    def rewind(self, length: int) -> None:
        self._take_back(length)

    def _take_back(self, length: int) -> None:
        """Take back the entries of all but the first `length` tokens, and the entry of the last of
        these, as another token may follow it."""
        entries = max(0, min(self._read, length - 1 - self._base))
        self._read = entries
        self._forget_drafted()

    def _logits(self, state: mx.array) -> mx.array:
        """Return the logits of `self._rows`: (b, n, w) to (b, n, rows)."""
        return self._network.logits(state)

    def _reader(self, tokens: list[int]) -> Callable[[mx.array], mx.array]:
        """Return a function that gives the logits, (1, rows), of the tokens after `tokens`, in
        turn. It is called with the token before each, (1,)."""
        state: mx.array | None = None

        def read(inputs: mx.array) -> mx.array:
            nonlocal state
            state = self._catch_up(tokens) if state is None else self._step(state, inputs)
            return self._logits(state)[0]

        return read

    def _level_reader(self, tokens: list[int]) -> ReadLevel:
        """Return a `ReadLevel` for a tree after `tokens`."""
        states = mx.zeros(())  # of the newest committed token, then of the tokens that are read
        committed = 0

        def read(level: mx.array, tree: Tree) -> mx.array:
            nonlocal states, committed
            rows = level.size
            if not rows:
                states = self._catch_up(tokens)
                committed = self._cache[0].offset
                return self._logits(states)[0]
            begun = self._network.go_on(states[mx.array(tree.parents[-rows:]) + 1])
            caches = [Level(each, tree, rows=rows, committed=committed) for each in self._cache]
            state = self._network(begun, level[:, None], caches[0].make_mask(), caches)
            states = mx.concatenate([states, state])
            return self._logits(state)[:, 0]

        return read

    def _forget_drafted(self) -> None:
        for cache in self._cache:
            cache.trim(cache.offset - self._read)

    def _next_position(self) -> int:
        """Return the next position to read. If states in between are missing, all is read again."""
        position = self._base + self._read
        if self._read == 0 or not self._states.first <= position <= self._states.end:
            self._cache, self._read = self._network.make_cache(), 0
            position = self._base = self._states.first
        return position

    def _read_target(self, tokens: list[int], rows: int) -> mx.array:
        """Read up to `rows` of the target's states; returns the network's, (1, n, w)."""
        start = self._next_position()
        end = min(start + rows, len(tokens) - 1, self._states.end)
        begun = self._network.begin(self._states.between(start, end)[None])
        after = mx.minimum(mx.array([tokens[start + 1 : end + 1]]), self._last)
        state = self._network(begun, after, "causal" if end - start > 1 else None, self._cache)
        self._read += end - start
        return state

    def _catch_up(self, tokens: list[int]) -> mx.array:
        """Read the committed tokens; returns the last state, (1, 1, w).

        If the target has not read all of them, as a recurrent target that took back a round, the
        network continues from its own states.
        """
        while True:
            state = self._read_target(tokens, rows=PREFILL_ROWS)[:, -1:]
            position = self._base + self._read
            if position >= min(len(tokens) - 1, self._states.end):
                break
        for token in tokens[position + 1 :]:
            state = self._step(state, mx.array([token]))
        return state

    def _step(self, state: mx.array, token: mx.array) -> mx.array:
        return self._network(self._network.go_on(state), token[None], None, self._cache)
