"""A head learns, epoch by epoch, and the one with the most held-out tokens accepted is kept.

Knows when to measure, to keep and to stop; how it learns is in `engine.distil.training`.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from time import monotonic

import mlx.nn as nn

from engine.distil.answers import Answer
from engine.distil.budget import Budget, Report, left
from engine.distil.interrupts import uninterrupted
from engine.distil.measure import measure
from engine.distil.store import AnswerStore, Shard
from engine.distil.training import Trainer, epoch
from engine.drafters.head_network import FittedHead

_CHECKPOINT_SECONDS = 100.0
_REPORT_SECONDS = 10.0


class Learning:
    """Trains `fitted` on what is in `store`.

    `embedding` is the target's; `held` are greedy answers to measure with; `keep` is called
    whenever the head is better than it ever was.
    """

    def __init__(
        self,
        fitted: FittedHead,
        embedding: nn.Module,
        store: AnswerStore,
        *,
        vocabulary: int,
        held: Sequence[Answer],
        checkpoint: Path,
        keep: Callable[[], None],
        report: Report,
    ) -> None:
        self._fitted = fitted
        self._embedding = embedding
        self._store = store
        self._held = held
        self._checkpoint = checkpoint
        self._keep = keep
        self._report = report
        self._trainer = Trainer(fitted, embedding, vocabulary=vocabulary)
        if checkpoint.is_file():
            self._trainer.restore(checkpoint)

    def run(self, shards: Sequence[Shard], budget: Budget) -> None:
        """Until the budget is spent. Raises `Problem`.

        Interrupted, it keeps what it has learned, and raises KeyboardInterrupt again.
        """
        try:
            self._run(shards, budget)
        except KeyboardInterrupt:
            if self._trainer.progress.batches:
                self._report("stopping: measuring what was learned")
                self._trainer.save(self._checkpoint)
                self._assess()
                self._trainer.save(self._checkpoint)
            raise

    def _run(self, shards: Sequence[Shard], budget: Budget) -> None:
        done = self._trainer.progress
        count = sum(len(shard.lengths) for shard in shards)
        self._report(f"training: {count:,} answers to learn from, {len(self._held)} held out")
        batches = sum(1 for _ in epoch(self._store, shards, seed=0))
        before, began = done.seconds, monotonic()
        saved = told = began

        def share() -> float:
            done.seconds = before + monotonic() - began
            return budget.trained(
                epochs=done.epoch + min(1.0, done.step / batches),
                seconds=done.seconds,
                answering_seconds=self._store.seconds,
            )

        while share() < 1:
            for batch in islice(epoch(self._store, shards, seed=done.epoch), done.step, None):
                with uninterrupted():
                    self._trainer.learn(batch, share=min(1.0, share()))
                trained, now = share(), monotonic()
                if trained >= 1:
                    break
                if now - told > _REPORT_SECONDS:
                    told = now
                    self._tell(trained)
                if now - saved > _CHECKPOINT_SECONDS:
                    saved = now
                    self._trainer.save(self._checkpoint)
            done.epoch, done.step = done.epoch + 1, 0
            length = self._assess()
            self._report(f"epoch {done.epoch}: {length:.3f} tokens a pass on held-out prompts")
            share()
            saved = monotonic()
            self._trainer.save(self._checkpoint)

    def _assess(self) -> float:
        """Measure the head, and keep it if it is the best; returns its acceptance length."""
        progress = self._trainer.progress
        length = measure(self._fitted, self._held, self._embedding).length
        if length > progress.best:
            self._keep()
            progress.best = length
        return length

    def _tell(self, share: float) -> None:
        done = self._trainer.progress
        self._report(
            f"training: {share:.0%}, epoch {done.epoch + 1}, {done.tokens:,} tokens, "
            f"{done.tokens / done.seconds:.0f}/s, loss {done.loss:.3f}, "
            f"{left(done.seconds, share)}"
        )
