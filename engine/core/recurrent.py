"""Records the inputs of recurrent layers, to compute the state after any row of a round again.

A recurrent state cannot be cut: it does not hold the inputs that it was computed from. So a `Tape`
records them for the passes of one round: the inputs of the recurrences, and the rows of the short
convolutions. The state after a row is the recurrence once more, over the rows up to there, from the
marked state: one short scan per layer, and no pass through the weights. The model's own functions
compute it, so it rounds as if those rows had been read alone. Functions that round by the number of
rows are called row by row within a round, as in plain decoding.

mlx-lm's models call their recurrences by name. `Recurrences` puts stand-ins under those names
during a pass, and finds by identity which call made which entry of a cache. If anything else made
an entry, nothing is recorded, and the round is taken back as a whole.

Knows mlx-lm's recurrences; nothing of attention, of lengths, or of verdicts.
"""

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.cache import ArraysCache

from models.limits import ROUND_ROWS

State = mx.array | None
# (rows, the state before the pass) -> the state after the first `rows` rows of the pass
StateAfter = Callable[[int, State], State]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A recurrence of mlx-lm: (rows, state before them) -> (outputs, state after them).

    `rows` names the arguments that have a row per token, on axis `axis`; `state` names the state.
    `in_blocks`: it computes many rows in blocks, and rounds otherwise than row by row.
    """

    rows: tuple[str, ...]
    axis: int = 1
    state: str = "state"
    in_blocks: bool = False


# By the name that models call: a function of their module, or a method.
_KINDS = {
    # Gated delta networks: Qwen3-Next, Qwen3.5, Kimi Linear, OLMo Hybrid, Ling 3
    "gated_delta_update": _Kind(("q", "k", "v", "a", "b", "mask")),
    # Mamba 2: Nemotron-H, Granite 4, PLaMo 2
    "ssm_update": _Kind(("hidden_states", "B", "C", "dt", "mask"), in_blocks=True),
    # Mamba 1, row by row: (batch, width); Jamba: (batch, rows, width)
    "ssm_step": _Kind(("x",)),
    # Lightning attention: Ling 2.5, Ring
    "recurrent_gla": _Kind(("q", "k", "v"), axis=2, state="h", in_blocks=True),
}


class Tape:
    """The recorded passes of a round, with `rows` rows in all.

    Rounds are short: a pass that would make the tape longer than `MOST_ROWS` is not recorded.
    """

    MOST_ROWS = ROUND_ROWS

    def __init__(self) -> None:
        self._passes: list[_Pass] = []

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self._passes)

    def cut(self, rows: int) -> None:
        """Keep the first `rows` rows only."""
        kept = list[_Pass]()
        for each in self._passes:
            if rows > 0:
                kept.append(_Pass(min(rows, each.rows), each.after))
            rows -= each.rows
        self._passes = kept

    def add(self, recorded: "_Pass") -> None:
        self._passes.append(recorded)

    def replay(self, states: Sequence[State], rows: int) -> list[State]:
        """The states after the first `rows` rows, from `states` at the mark; not yet computed."""
        states = list(states)
        for each in self._passes:
            if rows <= 0:
                break
            taken = min(rows, each.rows)
            states = [after(taken, state) for after, state in zip(each.after, states, strict=True)]
            rows -= taken
        return states


@dataclass(frozen=True, slots=True)
class _Pass:
    """A pass over `rows` rows. `after` has, for each state of the caches, the function that
    computes it."""

    rows: int
    after: tuple[StateAfter, ...]


class Recurrences:
    """Records the inputs of a model's recurrences on a tape."""

    def __init__(self, model: nn.Module) -> None:
        self._places = [(nn.Conv1d, "__call__"), *_places(model)]

    @contextmanager
    def recording(self, tape: Tape | None, caches: Sequence[Any], *, rows: int) -> Iterator[None]:
        """Record a pass over `rows` rows, made inside the block, which changes `caches`."""
        if tape is None or tape.rows + rows > tape.MOST_ROWS:
            yield
            return
        seen = _Seen()
        originals = [vars(owner)[name] for owner, name in self._places]
        try:
            for (owner, name), original in zip(self._places, originals, strict=True):
                stand_in = seen.convolution if owner is nn.Conv1d else seen.recurrence
                setattr(owner, name, stand_in(original, name))
            yield
        finally:
            for (owner, name), original in zip(self._places, originals, strict=True):
                setattr(owner, name, original)
        recorded = seen.match(states_of(caches), rows)
        if recorded:
            tape.add(recorded)


def states_of(caches: Sequence[Any]) -> list[State]:
    """All states of the recurrent ones among `caches`, layer by layer."""
    return [state for cache in caches if isinstance(cache, ArraysCache) for state in cache.cache]


def _places(model: nn.Module) -> list[tuple[Any, str]]:
    """The (owner, name) pairs under which the model's classes look up their recurrences."""
    kinds = {kind for module in model.modules() for kind in type(module).__mro__}
    modules = {sys.modules.get(kind.__module__) for kind in kinds} - {None}
    owners = [*kinds, *modules]
    return [(owner, name) for owner in owners for name in _KINDS if name in vars(owner)]


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a recurrence, without its state."""

    function: Callable[..., Any]
    kind: _Kind
    inputs: dict[str, Any]

    @property
    def rows(self) -> int:
        """The number of tokens that it reads; 1 if its inputs have no axis for tokens."""
        first: mx.array = self.inputs[self.kind.rows[0]]
        return first.shape[self.kind.axis] if first.ndim > 2 else 1

    def run(self, rows: int, state: State) -> tuple[mx.array, mx.array]:
        """The outputs of the first `rows` rows, from `state` on, and the state after them."""
        if not self.kind.in_blocks or rows == 1:
            return self._run(0, rows, state)
        outputs = list[mx.array]()
        for row in range(rows):
            output, state = self._run(row, row + 1, state)
            outputs.append(output)
        assert state is not None, "no rows"
        return mx.concatenate(outputs, axis=self.kind.axis), state

    def _run(self, start: int, end: int, state: State) -> tuple[mx.array, mx.array]:
        inputs = dict(self.inputs)
        if end - start < self.rows:
            where = (slice(None),) * self.kind.axis + (slice(start, end),)
            given = (name for name in self.kind.rows if inputs.get(name) is not None)
            inputs |= {name: inputs[name][where] for name in given}
        output, state = self.function(**inputs, **{self.kind.state: state})
        return output, state


@dataclass(slots=True)
class _Scan:
    """Calls that pass a state on to each other, and the `result` of the last one."""

    result: mx.array
    calls: list[_Call] = field(default_factory=list)


class _Seen:
    """The calls of a pass, as the stand-ins saw them."""

    def __init__(self) -> None:
        self._scans: dict[int, _Scan] = {}  # by the identity of the state that came out
        self._convolved: list[mx.array] = []

    def convolution(self, original: Callable[..., Any], _: str) -> Callable[..., Any]:
        def call(module: nn.Module, inputs: mx.array) -> Any:
            self._convolved.append(inputs)
            return original(module, inputs)

        return call

    def recurrence(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        kind, signature = _KINDS[name], inspect.signature(original)

        def call(*arguments: Any, **options: Any) -> Any:
            inputs = dict(signature.bind(*arguments, **options).arguments)
            state = inputs.pop(kind.state, None)
            made = _Call(original, kind, inputs)
            output, after = made.run(made.rows, state)
            scan = self._scans.pop(id(state), None) or _Scan(after)
            scan.result = after
            scan.calls.append(made)
            self._scans[id(after)] = scan
            return output, after

        return call

    def match(self, states: Sequence[State], rows: int) -> _Pass | None:
        """The pass that made `states`, or None if the calls do not explain one of them.

        A recurrence's state is found by identity. The other states are the last rows that the short
        convolutions read, in the order of the layers.
        """
        convolved = iter(self._convolved)
        after = list[StateAfter]()
        for state in states:
            scan = self._scans.get(id(state))
            if scan is not None and sum(call.rows for call in scan.calls) == rows:
                after.append(_scanned(scan.calls))
                continue
            inputs = next(convolved, None)
            if state is None or inputs is None or not _ends_with(inputs, state, rows):
                return None
            after.append(_windowed(inputs, inputs.shape[1] - rows))
        return None if next(convolved, None) is not None else _Pass(rows, tuple(after))


def _ends_with(inputs: mx.array, state: mx.array, rows: int) -> bool:
    """Whether the shapes allow that `state` is the end of `inputs`, which has `rows` rows more."""
    if inputs.ndim != 3 or state.ndim != 3 or inputs.dtype != state.dtype:
        return False
    batch, positions, channels = inputs.shape
    return state.shape == (batch, positions - rows, channels)


def _scanned(calls: Sequence[_Call]) -> StateAfter:
    def after(rows: int, state: State) -> State:
        for call in calls:
            if rows <= 0:
                break
            _, state = call.run(min(rows, call.rows), state)
            rows -= call.rows
        return state

    return after


def _windowed(inputs: mx.array, kept: int) -> StateAfter:
    return lambda rows, _: mx.contiguous(inputs[:, rows : rows + kept])
