"""`slipstream distil`: the target answers, a head learns from the answers, the best one is kept.

Knows the order of the work and how it is taken up again; what is done is in the modules beside it.
The folder that it makes holds, besides the drafter, `work/`: the plan, the answers and the
checkpoint, until the work is done.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from random import Random
from time import monotonic

import mlx.core as mx

from engine.anatomy import embedding
from engine.distil.answers import Answerer, Asked
from engine.distil.measure import measure
from engine.distil.prompts import read_prompts
from engine.distil.store import AnswerStore, Shard, read_shard
from engine.distil.training import Progress, Trainer, epoch
from engine.head import FittedHead, new_head, save_head, shape_for
from engine.loading import LoadedModel, free_memory_bytes, load
from models.errors import Problem
from models.fingerprint import fingerprint

_TEMPERATURES = (0.0, 0.7, 0.0, 1.0)  # in turn
_BATCH = 96
_ANSWERING_SHARE = 1 / 3  # of the minutes
_EPOCHS = 6  # where tokens are given, not minutes
_LEAST_SHARDS = 4
_HELD_OUT = 48  # greedy answers, from the first shard
_CHECKPOINT_SECONDS = 100.0
_REPORT_SECONDS = 10.0
_LONGEST_PROMPT = 512


@dataclass(frozen=True, slots=True)
class DistilOptions:
    """What to distil. Of `minutes` and `tokens` (of answers), one is given."""

    target: Path
    prompts: tuple[Path, ...]
    out: Path
    minutes: float | None = None
    tokens: int | None = None
    vocabulary: int = 8192
    longest_answer: int = 160
    resume: bool = False
    seed: int = 0


Report = Callable[[str], None]


def distil(options: DistilOptions, report: Report) -> Path:
    """Do all of it, telling `report` a line now and then; returns the drafter's folder.

    Interrupted (KeyboardInterrupt) it stops with the best drafter so far, if there is one.
    Raises `Problem`.
    """
    with suppress(AttributeError, OSError):
        os.nice(10)  # whatever else the machine is used for comes first
    work = options.out / "work"
    _begin(options, work)
    target = load(options.target)
    asked = _questions(options, target)
    store = AnswerStore(work / "answers")
    job = _Job(options, target, store, work / "checkpoint.safetensors", report)
    try:
        job.answer(asked)
        job.train()
    except KeyboardInterrupt:
        if not (options.out / "config.json").is_file():
            raise Problem("Stopped before anything was learned.", "Go on with --resume.") from None
        report(f"Stopped. {options.out} is usable; --resume goes on.")
        return options.out
    shutil.rmtree(work)
    return options.out


def _begin(options: DistilOptions, work: Path) -> None:
    """Make or find the folder, and refuse to mix two different distillations."""
    if (options.minutes is None) == (options.tokens is None):
        raise Problem("How long to work is not clear.", "Give --minutes or --tokens.")
    plan = {name: str(value) for name, value in asdict(options).items() if name != "resume"}
    try:
        if options.resume:
            if not (work / "plan.json").is_file():
                raise Problem(f"There is nothing to go on with in {work}.", "Leave out --resume.")
            if json.loads((work / "plan.json").read_text()) != plan:
                raise Problem(
                    f"{work} was begun with other options.",
                    "Repeat those, or choose another --out.",
                )
        elif options.out.exists() and any(options.out.iterdir()):
            raise Problem(
                f"{options.out} is not empty.", "Go on with --resume, or choose another --out."
            )
        else:
            work.mkdir(parents=True)
            (work / "plan.json").write_text(json.dumps(plan, indent=2))
    except (OSError, ValueError) as error:
        raise Problem(f"{work} cannot be used: {error}.", "Choose another --out.") from error


def _questions(options: DistilOptions, target: LoadedModel) -> list[Asked]:
    """The prompts in tokens, by the target's own chat template where it has one."""
    asked = []
    for number, text in enumerate(read_prompts(options.prompts, seed=options.seed)):
        if target.tokenizer.has_chat_template:
            text = target.tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
            )
        tokens = target.tokenizer.encode(text, add_special_tokens=False)
        if 2 <= len(tokens) <= min(_LONGEST_PROMPT, target.context_length - options.longest_answer):
            asked.append(Asked(tokens, _TEMPERATURES[number % len(_TEMPERATURES)]))
    if len(asked) < 16:
        raise Problem(
            f"Only {len(asked)} of the prompts can be used.", "Give more prompts, and shorter ones."
        )
    return asked


class _Job:
    """The two halves of the work, each of which goes on where it was stopped."""

    def __init__(
        self,
        options: DistilOptions,
        target: LoadedModel,
        store: AnswerStore,
        checkpoint: Path,
        report: Report,
    ) -> None:
        self._options = options
        self._target = target
        self._store = store
        self._checkpoint = checkpoint
        self._report = report
        self._vocabulary: int = target.model(mx.zeros((1, 1), dtype=mx.int32)).shape[-1]
        self._shape = shape_for(target.model, rows=min(options.vocabulary, self._vocabulary))

    def answer(self, asked: list[Asked]) -> None:
        """Let the target answer, a shard at a time, up to the tokens or the minutes."""
        answerer = Answerer(self._target, self._shape.layers)
        size = self._batch_size(asked)
        for number, batch in enumerate(_by_length(asked, size)):
            enough = self._answered_share() >= 1 and len(self._store.shards) >= 2
            if enough or self._checkpoint.is_file():
                break
            if self._store.has(number):
                continue
            self._require_disk(batch)
            began = monotonic()
            answers = answerer.answer(
                batch, longest=self._options.longest_answer, seed=self._options.seed + number
            )
            self._store.write(number, answers, seconds=monotonic() - began)
            answered, seconds = self._store.answered, self._store.seconds
            left = max(0.0, seconds * (1 / max(self._answered_share(), 1e-3) - 1))
            self._report(
                f"answers: {answered:,} tokens, {answered / seconds:.0f}/s, {_time(left)} left"
            )
        if len(self._store.shards) < 2:
            raise Problem(
                "There are too few answers to learn from.", "Give more prompts, or more time."
            )

    def train(self) -> None:
        """Learn, epoch by epoch, and keep the head with the most held-out tokens accepted."""
        held_out, *shards = self._store.shards
        held = [one for one in read_shard(held_out) if one.greedy][:_HELD_OUT]
        table = embedding(self._target.model)
        vectors = table(mx.arange(self._vocabulary)).astype(mx.float32)
        fitted = new_head(self._target.model, self._shape, self._frequent(shards))
        trainer = Trainer(fitted, table, vocabulary=self._vocabulary)
        if self._checkpoint.is_file():
            trainer.restore(self._checkpoint)
        done = trainer.progress
        batches_each = sum(1 for _ in epoch(self._store, shards, seed=0))
        began = saved = told = monotonic()
        before = done.seconds

        while (share := self._trained_share(done, batches_each)) < 1:
            for batch in islice(epoch(self._store, shards, seed=done.epoch), done.step, None):
                trainer.learn(batch, share=share)
                now = monotonic()
                done.seconds = before + now - began
                share = self._trained_share(done, batches_each)
                if now - told > _REPORT_SECONDS:
                    told = now
                    self._tell(done, share)
                if now - saved > _CHECKPOINT_SECONDS:
                    saved = now
                    trainer.save(self._checkpoint)
                if share >= 1:
                    break
            done.epoch, done.step = done.epoch + 1, 0
            length = measure(fitted, held, vectors).length
            self._report(f"epoch {done.epoch}: {length:.3f} tokens a pass on held-out prompts")
            if length > done.best:
                done.best = length
                self._export(fitted)
            done.seconds = before + monotonic() - began
            trainer.save(self._checkpoint)

    def _answered_share(self) -> float:
        """How much of the answering is done, by tokens or by time."""
        if self._options.tokens is not None:
            return self._store.answered / self._options.tokens
        assert self._options.minutes is not None
        return self._store.seconds / (60 * self._options.minutes * _ANSWERING_SHARE)

    def _trained_share(self, done: Progress, batches_each: int) -> float:
        """How much of the training is done, by epochs or by time."""
        if self._options.minutes is None:
            return (done.epoch + done.step / batches_each) / _EPOCHS
        return done.seconds / (60 * self._options.minutes * (1 - _ANSWERING_SHARE))

    def _tell(self, done: Progress, share: float) -> None:
        left = done.seconds * (1 / max(share, 1e-3) - 1)
        self._report(
            f"training: epoch {done.epoch + 1}, {done.tokens:,} tokens, "
            f"{done.tokens / done.seconds:.0f}/s, loss {done.loss:.3f}, {_time(left)} left"
        )

    def _frequent(self, shards: Sequence[Shard]) -> mx.array:
        """The token ids that get a row: the most frequent in the answers, then the lowest."""
        counts = Counter(token for shard in shards for token in shard.answer_tokens())
        ranked = sorted(range(self._vocabulary), key=lambda token: (-counts[token], token))
        return mx.array(sorted(ranked[: self._shape.rows]), dtype=mx.int32)

    def _export(self, fitted: FittedHead) -> None:
        folder = self._target.folder
        save_head(fitted, self._options.out, target=folder.name, fingerprint=fingerprint(folder))

    def _batch_size(self, asked: Sequence[Asked]) -> int:
        """How many prompts at once fit into a quarter of the free memory. Raises `Problem`."""
        positions = max(len(one.tokens) for one in asked) + self._options.longest_answer
        states = 2 * len(self._shape.layers) * self._shape.hidden_size
        caches = 8 * len(self._target.model.layers) * self._shape.cache_width
        free = free_memory_bytes() or 8 << 30
        fits = free // 4 // (positions * (states + caches) + 8 * self._vocabulary)
        if fits < 1:
            raise Problem(
                f"There is too little memory: {free / 1e9:.1f} GB are free.",
                "Close other programs, or choose a smaller target.",
            )
        return min(_BATCH, fits, len(asked) // _LEAST_SHARDS)

    def _require_disk(self, batch: Sequence[Asked]) -> None:
        positions = sum(len(one.tokens) + self._options.longest_answer for one in batch)
        needed = 2 * positions * len(self._shape.layers) * self._shape.hidden_size + (200 << 20)
        free = shutil.disk_usage(self._store.folder).free
        if free < needed:
            raise Problem(
                f"The disk is nearly full: {free / 1e9:.1f} GB are free.",
                "Make room, and go on with --resume; or give fewer --tokens.",
            )


def _by_length(asked: list[Asked], size: int) -> Iterator[list[Asked]]:
    """Batches of prompts of similar length, which waste less; each mixes all the files."""
    for start in range(0, len(asked), 8 * size):
        some = sorted(asked[start : start + 8 * size], key=lambda one: len(one.tokens))
        groups = [some[i : i + size] for i in range(0, len(some), size)]
        Random(start).shuffle(groups)
        yield from groups


def _time(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
