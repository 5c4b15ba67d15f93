"""Answers on disk: a folder of shards, each a safetensors file that is whole or is not there.

Knows files and arrays; nothing of models or training. A shard holds some answers end to end:

    tokens (N,), lengths and prompts (answers,): N tokens in all, those of each, its prompt's
    states (N - answers, layers, width): bfloat16
    top_tokens, top_log_probs (A, 32): A answer tokens in all
    greedy (answers,): 1 where no token was sampled; seconds (1,): what they took
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import mlx.core as mx

from engine.device import fetch
from engine.distil.answers import Answer
from models.errors import Problem

_IN_MEMORY_BYTES = 512 << 20  # of shards that are read at once, and whose answers are mixed


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard's file and what is in it, without its large arrays."""

    path: Path
    tokens: list[int]
    lengths: list[int]
    prompts: list[int]
    greedy: list[int]
    seconds: float

    @property
    def answered(self) -> int:
        """Tokens of answers."""
        return sum(self.lengths) - sum(self.prompts)

    def answer_tokens(self) -> Iterator[int]:
        """The tokens of all its answers."""
        start = 0
        for length, prompt in zip(self.lengths, self.prompts, strict=True):
            yield from self.tokens[start + prompt : start + length]
            start += length


class AnswerStore:
    """The shards in `folder`, which is made where it is not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(".*.safetensors"):
            leftover.unlink()
        self.shards = [_open(path) for path in sorted(folder.glob("*.safetensors"))]

    @property
    def answered(self) -> int:
        """Tokens of answers in all shards."""
        return sum(shard.answered for shard in self.shards)

    @property
    def seconds(self) -> float:
        """What all shards took to answer."""
        return sum(shard.seconds for shard in self.shards)

    def has(self, number: int) -> bool:
        """Whether shard `number` is there."""
        return any(shard.path == self._path(number) for shard in self.shards)

    def write(self, number: int, answers: Sequence[Answer], *, seconds: float) -> None:
        """Add shard `number`. Raises `Problem` where the disk is full, and leaves nothing."""
        partial = self.folder / f".{number:05}.safetensors"
        arrays = {
            "tokens": mx.array([token for one in answers for token in one.tokens]),
            "lengths": mx.array([len(one.tokens) for one in answers]),
            "prompts": mx.array([one.prompt for one in answers]),
            "greedy": mx.array([int(one.greedy) for one in answers]),
            "seconds": mx.array([seconds]),
            "states": mx.concatenate([one.states for one in answers]),
            "top_tokens": mx.concatenate([one.top_tokens for one in answers]),
            "top_log_probs": mx.concatenate([one.top_log_probs for one in answers]),
        }
        try:
            mx.save_safetensors(str(partial), arrays)
            partial.replace(self._path(number))
        except (OSError, RuntimeError) as error:
            partial.unlink(missing_ok=True)
            raise Problem(
                f"The answers cannot be written to {self.folder}: {error}.",
                "Make room on the disk, and go on with --resume.",
            ) from error
        self.shards.append(_open(self._path(number)))

    def mixed(self, shards: Sequence[Shard], *, seed: int) -> Iterator[list[Answer]]:
        """The answers of `shards`, in groups that fit into memory together, in random order."""
        order, random = list(shards), Random(seed)
        random.shuffle(order)
        group: list[Answer] = []
        size_bytes = 0
        for shard in order:
            if group and size_bytes + shard.path.stat().st_size > _IN_MEMORY_BYTES:
                random.shuffle(group)
                yield group
                group, size_bytes = [], 0
            group += read_shard(shard)
            size_bytes += shard.path.stat().st_size
        random.shuffle(group)
        yield group

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:05}.safetensors"


def read_shard(shard: Shard) -> list[Answer]:
    """The answers in a shard."""
    arrays = mx.load(str(shard.path))
    assert isinstance(arrays, dict)
    answers, token, top = [], 0, 0
    for number, (length, prompt) in enumerate(zip(shard.lengths, shard.prompts, strict=True)):
        state, answered = token - number, length - prompt
        answers.append(
            Answer(
                shard.tokens[token : token + length],
                prompt,
                bool(shard.greedy[number]),
                arrays["states"][state : state + length - 1],
                arrays["top_tokens"][top : top + answered],
                arrays["top_log_probs"][top : top + answered],
            )
        )
        token, top = token + length, top + answered
    return answers


def _open(path: Path) -> Shard:
    try:
        arrays = mx.load(str(path))  # lazily: only the small ones are read
        assert isinstance(arrays, dict)
        tokens, lengths, prompts, greedy, seconds = fetch(
            *(arrays[name] for name in ("tokens", "lengths", "prompts", "greedy", "seconds"))
        )
    except (RuntimeError, KeyError, AssertionError) as error:
        raise Problem(f"{path} is damaged.", "Delete it, and go on with --resume.") from error
    return Shard(path, tokens, lengths, prompts, greedy, seconds[0])
