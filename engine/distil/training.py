"""Trains a drafter on stored answers, and keeps the version that accepts most held-out tokens.

`Learning` decides when to measure, keep and stop; `Trainer` has the optimizers and the checkpoint.
Does not know where the answers come from.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.optimizers import AdamW, MultiOptimizer, Muon, clip_grad_norm
from mlx.utils import tree_flatten, tree_unflatten

from engine.distil.budget import Reporter, WorkBudget, left
from engine.distil.head_learner import HeadLearner, measure
from engine.distil.loss import make_batch
from engine.distil.store import AnswerStore, RecordedAnswer, Shard
from engine.process.interrupts import uninterrupted
from models.errors import Problem
from models.files import replacing
from models.safetensors_file import check_safetensors

_INNER_RATE, _OUTER_RATE = 0.01, 1e-3  # of the matrices inside, of output rows and vectors
_WARM_UP = 0.03  # of the training
_CLIP = 1.0
_POSITIONS_BY_WIDTH = 2  # of a batch, padding included; Muon's step, too, grows with the width
_CHECKPOINT_SECONDS = 100.0
_REPORT_SECONDS = 10.0


@dataclass(slots=True)
class Progress:
    """The state of training. `loss`: a moving average in nats, over `steps` steps of prediction;
    `best`: the largest acceptance length so far."""

    epoch: int = 0
    step: int = 0  # batches of this epoch
    batches: int = 0  # in all
    tokens: int = 0  # predicted
    seconds: float = 0.0
    loss: float | None = None
    steps: int = 0
    best: float = 0.0


class Trainer:
    """Optimizes the network of `learner`. `vocabulary`: the target's number of logits."""

    def __init__(self, learner: HeadLearner, *, vocabulary: int) -> None:
        self.network = learner.network
        self.progress = Progress()
        self._learner = learner
        rows = mx.full((vocabulary,), -1, dtype=mx.int32)
        rows[learner.kept] = mx.arange(learner.kept.size, dtype=mx.int32)
        self._row_of = rows
        self._muon = Muon(_INNER_RATE, weight_decay=0.0)
        self._adam = AdamW(_OUTER_RATE, betas=[0.9, 0.95], weight_decay=0.0)
        self._optimizer = MultiOptimizer([self._muon, self._adam], [_is_inner_matrix])
        self._optimizer.init(self.network.parameters())
        self._gradient = nn.value_and_grad(self.network, learner.loss)

    def learn(self, answers: Sequence[RecordedAnswer], *, share: float) -> float:
        """Take a step on one batch, with `share` (0 to 1) of the training done; return its loss."""
        rate = min(1.0, share / _WARM_UP + 0.05) * (1 - share)
        self._muon.learning_rate, self._adam.learning_rate = _INNER_RATE * rate, _OUTER_RATE * rate
        batch = make_batch(answers, self._row_of, borrows=self._learner.borrows)
        steps = self._learner.steps(share)
        value, gradients = self._gradient(batch, steps)
        gradients, _ = clip_grad_norm(gradients, _CLIP)
        self._optimizer.update(self.network, gradients)
        mx.eval(value, self.network.parameters(), self._optimizer.state)
        latest = float(value.item())
        average = self.progress.loss if steps == self.progress.steps else None
        self.progress.steps = steps
        self.progress.loss = latest if average is None else average + 0.05 * (latest - average)
        self.progress.step += 1
        self.progress.batches += 1
        self.progress.tokens += len(batch.rank)
        return latest

    def save(self, path: Path) -> None:
        """Write a checkpoint atomically. Raises `Problem`."""
        parts = {
            "network": self.network.parameters(),
            "state": self._optimizer.state,
            "kept": self._learner.kept,
        }
        arrays: dict[str, mx.array] = dict(tree_flatten(parts))
        progress = {"progress": json.dumps(asdict(self.progress))}
        try:
            with replacing(path) as partial:
                mx.save_safetensors(str(partial), arrays, progress)
        except (OSError, RuntimeError) as error:
            raise Problem(
                f"The checkpoint cannot be written to {path.parent}: {error}.",
                "Free some disk space, and continue with --resume.",
            ) from error

    def restore(self, path: Path) -> None:
        """Load a checkpoint. Raises `Problem` if it is damaged."""
        try:
            check_safetensors(path)
            loaded = mx.load(str(path), return_metadata=True)
            assert isinstance(loaded, tuple)
            arrays, metadata = loaded
            progress = Progress(**json.loads(metadata["progress"]))
            parts: Any = tree_unflatten(list(arrays.items()))
            self.network.load_weights(list(dict(tree_flatten(parts["network"])).items()))
            same_rows = mx.array_equal(parts["kept"], self._learner.kept)
            if not same_rows or _shapes(parts["state"]) != _shapes(self._optimizer.state):
                raise ValueError("it belongs to another training")
            self._optimizer.state = parts["state"]
            mx.eval(self.network.parameters(), self._optimizer.state)
        except (RuntimeError, LookupError, ValueError, TypeError, AssertionError, Problem) as error:
            raise Problem(
                f"The checkpoint {path} is damaged, or not of these answers.",
                "Delete it, and continue with --resume: the answers are still there.",
            ) from error
        self.progress = progress


class Learning:
    """Trains `learner` on the answers in `store`.

    `held`: greedy answers to measure with. `keep` is called whenever the learner is better than
    ever before.
    """

    def __init__(
        self,
        learner: HeadLearner,
        store: AnswerStore,
        *,
        vocabulary: int,
        held: Sequence[RecordedAnswer],
        checkpoint: Path,
        keep: Callable[[], None],
        report: Reporter,
    ) -> None:
        self._learner = learner
        self._store = store
        self._held = held
        self._checkpoint = checkpoint
        self._keep = keep
        self._report = report
        self._trainer = Trainer(learner, vocabulary=vocabulary)
        if checkpoint.is_file():
            self._trainer.restore(checkpoint)

    def run(self, shards: Sequence[Shard], budget: WorkBudget) -> None:
        """Train until the budget is spent. Raises `Problem`.

        On KeyboardInterrupt it saves and measures the network, and raises the interrupt again.
        """
        try:
            self._run(shards, budget)
        except KeyboardInterrupt:
            if self._trainer.progress.batches:
                self._report("stopping: measuring the drafter")
                self._trainer.save(self._checkpoint)
                self._assess()
                self._trainer.save(self._checkpoint)
            raise

    def _run(self, shards: Sequence[Shard], budget: WorkBudget) -> None:
        done = self._trainer.progress
        count = sum(len(shard.lengths) for shard in shards)
        self._report(f"training: {count:,} answers to learn from, {len(self._held)} held out")
        batches = sum(1 for _ in epoch(self._store, shards, seed=0))
        before, began = done.seconds, monotonic()
        saved = reported = began

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
                if now - reported > _REPORT_SECONDS:
                    reported = now
                    self._report_progress(trained)
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
        """Measure the drafter, keep it if it is the best, and return its acceptance length."""
        progress = self._trainer.progress
        length = measure(self._learner, self._held).length
        if length > progress.best:
            self._keep()
            progress.best = length
        return length

    def _report_progress(self, share: float) -> None:
        done = self._trainer.progress
        self._report(
            f"training: {share:.0%}, epoch {done.epoch + 1}, {done.tokens:,} tokens, "
            f"{done.tokens / done.seconds:.0f}/s, loss {done.loss:.3f}, "
            f"{left(done.seconds, share)}"
        )


def memory_bytes(weights: int, *, rows: int, width: int) -> int:
    """An estimate of the memory for training a network of `weights` weights that predicts `rows`
    tokens from states of `width` numbers."""
    return 20 * _POSITIONS_BY_WIDTH * width * rows + 60 * weights


def epoch(
    store: AnswerStore, shards: Sequence[Shard], *, seed: int
) -> Iterator[list[RecordedAnswer]]:
    """Yield all answers once, in batches that depend on the seed. Reads shards as needed."""
    for group in store.mixed(shards, seed=seed):
        some = list(batches(group))
        Random(seed).shuffle(some)
        yield from some
        del group, some  # before the next group is read


def batches(answers: Sequence[RecordedAnswer]) -> Iterator[list[RecordedAnswer]]:
    """Yield batches of answers with similar lengths of prompt and answer."""
    batch: list[RecordedAnswer] = []
    longest = (0, 0)
    most = _POSITIONS_BY_WIDTH * answers[0].states.shape[-1] if answers else 0
    for answer in sorted(answers, key=lambda a: (_answered(a) // 32, a.prompt // 16)):
        lengths = max(longest[0], answer.prompt), max(longest[1], _answered(answer))
        if batch and (len(batch) + 1) * sum(lengths) > most:
            yield batch
            batch, lengths = [], (answer.prompt, _answered(answer))
        batch.append(answer)
        longest = lengths
    if batch:
        yield batch


def _answered(answer: RecordedAnswer) -> int:
    """The number of tokens of the answer without its prompt."""
    return len(answer.tokens) - answer.prompt


def _is_inner_matrix(path: str, weight: mx.array) -> bool:
    return weight.ndim == 2 and "output" not in path.split(".")


def _shapes(state: Any) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in dict(tree_flatten(state)).items()}
