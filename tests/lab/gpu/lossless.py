"""Greedy texts by drafts of many kinds against plain ones, on the device as it rounds.

Knows the engine's loop and its drafters; `near_ties` knows what may differ.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.batch import can_share
from engine.decoder import Decoder
from engine.draft_length import DraftLengthPolicy
from engine.draft_length.policy import Automatic, Fixed, FixedTree
from engine.drafters import Drafter, NoDrafter
from engine.drafters.cascade import Cascade
from engine.drafters.early_exit import EarlyExitDrafter, first_layers
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.model import ModelDrafter
from engine.drafters.recycling import RecyclingDrafter
from engine.drafters.suffix import SuffixDrafter
from tests.lab.gpu.near_ties import Fork, Rounding, first_fork
from tests.support.engine.heads import untrained_drafter
from tests.support.engine.helpers import Run, now_and_then, task, write
from tests.support.engine.trees import Guessing

ROWS = (2, 5, 9, 17, 25)
_MOST_TIES = 8  # in one text, behind each of which it is compared anew


@dataclass(frozen=True, slots=True)
class PlainText:
    """What plain decoding wrote behind a prompt, and by how much each token came first. Single
    passes, made again, put another token first at `unrepeated` places."""

    text: list[int]
    margins: list[float]
    unrepeated: int


class Target:
    """A model, of which every text is written by a decoder of its own."""

    def __init__(self, model: nn.Module, *, drafting: int) -> None:
        self.model, self._drafting = model, drafting
        self._trial = cache(partial(can_share, model))
        self._shallow = first_layers(model, drafting)
        self._plain: dict[tuple[int, ...], PlainText] = {}

    def decoder(self) -> Decoder:
        return Decoder(self.model, trial=self._trial)

    @property
    def branches(self) -> bool:
        return self._trial()

    def model_drafter(self, target: Decoder) -> Drafter:
        return ModelDrafter(Decoder(self._shallow), vocabulary=target.vocabulary)

    def drafters(self, script: Sequence[int]) -> dict[str, Callable[[Decoder], Drafter]]:
        """By name; `known` knows two thirds of `script`, also in trees."""
        guessing = partial(Guessing, script, wrong=now_and_then(5))
        return {
            "known": lambda target: guessing(vocabulary=target.vocabulary),
            "model": self.model_drafter,
            "suffix": lambda _: SuffixDrafter(),
            "early-exit": lambda target: EarlyExitDrafter(target, layers=self._drafting),
            "recycling": lambda _: RecyclingDrafter(),
            "head": untrained_drafter,
            "lookahead": lambda _: LookaheadDrafter(),
            "suffix+model": lambda target: Cascade(SuffixDrafter(), self.model_drafter(target)),
        }

    def plain(self, prompt: Sequence[int], count: int) -> PlainText:
        """What plain decoding writes: `count` tokens. Written once."""
        key = (*prompt, count)
        if key not in self._plain:
            tokens = list(prompt)
            text = write(self.decoder(), NoDrafter(), Fixed(0), tokens, task(count)).tokens
            single = self._read(prompt, text, 1)
            best = mx.sort(mx.topk(single, 2, axis=-1), axis=-1)
            margins: list[float] = (best[:, 1] - best[:, 0]).tolist()  # type: ignore[assignment]
            self._plain[key] = PlainText(text, margins, _count(mx.argmax(single, -1), text))
        return self._plain[key]

    def roundings(self, prompt: Sequence[int], text: Sequence[int]) -> list[Rounding]:
        """How passes over several rows round along a text."""
        single = self._read(prompt, text, 1)
        return [self._rounding(prompt, text, single, rows) for rows in ROWS]

    def _rounding(
        self, prompt: Sequence[int], text: Sequence[int], single: mx.array, rows: int
    ) -> Rounding:
        block = self._read(prompt, text, rows)
        difference: Any = mx.max(mx.abs(block - single)).item()
        return Rounding(rows, len(text), difference, _count(mx.argmax(block, -1), text))

    def _read(self, prompt: Sequence[int], text: Sequence[int], rows: int) -> mx.array:
        """The logits behind the prompt and each token of the text but the last, (n, vocabulary),
        read by so many rows."""
        decoder, tokens, logits = self.decoder(), [*prompt, *text], []
        for _ in decoder.prefill(list(prompt)):
            pass
        unread = tokens[len(prompt) - 1 : -1]
        for start in range(0, len(unread), rows):
            logits.append(decoder.read(mx.array(unread[start : start + rows])))
            mx.eval(logits[-1])
        return mx.concatenate(logits).astype(mx.float32)


def _count(ids: mx.array, text: Sequence[int]) -> int:
    """At how many places they differ."""
    return sum(a != b for a, b in zip(ids.tolist(), text, strict=True))  # type: ignore[arg-type]


POLICIES: dict[str, Callable[[], DraftLengthPolicy]] = {
    "4": partial(Fixed, 4),
    "tree:8": partial(FixedTree, 8),
    "16": partial(Fixed, 16),
    "auto": Automatic,
    "tree:24": partial(FixedTree, 24),
    "1": partial(Fixed, 1),
}


def matrix(target: Target, prompt: Sequence[int], *, count: int) -> Iterator[dict[str, Any]]:
    """First what plain decoding is, then one case for each drafter and policy."""
    plain = target.plain(prompt, count)
    roundings = target.roundings(prompt, plain.text)
    yield {
        "case": "plain",
        "distinct": len(set(plain.text)),
        "unrepeated": plain.unrepeated,
        "exact ties": sum(margin == 0.0 for margin in plain.margins),
        "reads trees": target.branches,
        "roundings": [asdict(each) for each in roundings],
    }
    script = [*prompt, *plain.text]
    for length, policy in POLICIES.items():
        for name, make in target.drafters(script).items():
            decoder, case = target.decoder(), {"case": name, "length": length}
            try:
                run = write(decoder, make(decoder), policy(), list(prompt), task(count))
                forks = list(_forks(target, prompt, run.tokens, roundings))
            except Exception as error:  # what a device cannot do is a result, too
                yield case | {"fault": f"{type(error).__name__}: {error}"[:500]}
            else:
                yield case | _figures(run, forks)


def _figures(run: Run, forks: Sequence[Fork]) -> dict[str, Any]:
    return {
        "tokens": len(run.tokens),
        "rounds": len(run.rounds),
        "proposed": run.proposed,
        "accepted": run.accepted,
        "trees": sum(bool(verdict.parents) for _, verdict in run.rounds),
        "near ties": sum(fork.near_tie for fork in forks),
        "different": sum(not fork.near_tie for fork in forks),
        "forks": [asdict(fork) for fork in forks],
    }


def _forks(
    target: Target, prompt: Sequence[int], written: Sequence[int], roundings: Sequence[Rounding]
) -> Iterator[Fork]:
    """Where a text leaves the plain one; behind a near tie, what plain decoding would write there.

    Nothing is compared behind a real difference.
    """
    for _ in range(_MOST_TIES):
        plain = target.plain(prompt, len(written))
        fork = first_fork(plain.text, written, margins=plain.margins, roundings=roundings)
        if fork is None:
            return
        yield fork
        prompt, written = [*prompt, *written[: fork.at + 1]], written[fork.at + 1 :]
        if not fork.near_tie or not written:
            return
