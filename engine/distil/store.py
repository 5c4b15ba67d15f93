"""Answers on disk: a folder of shards, each a safetensors file that is written atomically.

Knows files and arrays; nothing of models or training. A shard holds some answers end to end:

    tokens (N,): of all answers, with their prompts
    lengths, prompts (answers,): tokens of each answer with its prompt; tokens of its prompt
    states (N - answers, layers, width): bfloat16
    top_tokens, top_log_probs (A, 32): at each of the A answer tokens
    greedy (answers,): 1 if no token was sampled
    asked (1,): number of prompts, answered or not; seconds (1,): of answering

Its file's name is the number of its first prompt.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import mlx.core as mx
import numpy as np

from engine.device import fetch
from models.errors import Problem
from models.files import locked, replacing
from models.safetensors_file import check_safetensors

_IN_MEMORY_BYTES = 512 << 20  # of shards that are read together, and whose answers are mixed


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """A prompt and its answer: n `tokens`, the first `prompt` of them the prompt's.

    `states` (n - 1, layers, width): of all tokens except the last, which was never read.
    `top_tokens`, `top_log_probs` (n - prompt, 32): the target's likeliest at each answer token.
    """

    tokens: list[int]
    prompt: int
    greedy: bool
    states: mx.array
    top_tokens: mx.array
    top_log_probs: mx.array


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard's file and its content, without the large arrays."""

    path: Path
    tokens: list[int]
    lengths: list[int]
    prompts: list[int]
    greedy: list[int]
    asked: int
    seconds: float

    @property
    def answered(self) -> int:
        """Tokens of answers."""
        return sum(self.lengths) - sum(self.prompts)

    def likeliest_tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """The likeliest tokens at each answer token, and their log probabilities: (A, 32) each."""
        arrays = mx.load(str(self.path))
        assert isinstance(arrays, dict)
        log_probs = arrays["top_log_probs"].astype(mx.float32)
        return np.array(arrays["top_tokens"]), np.array(log_probs)


class AnswerStore:
    """The shards in `folder`, which is created if it does not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shards: list[Shard] = []
        with self._usable():
            folder.mkdir(parents=True, exist_ok=True)
            self._read()

    @contextmanager
    def growing(self) -> Iterator[None]:
        """While shards are added: first those are read that other processes have added. Raises
        `Problem` if another adds some now."""
        with ExitStack() as held:
            with self._usable():
                held.enter_context(locked(self.folder, seconds=0))
                for leftover in self.folder.glob(".*.safetensors"):
                    leftover.unlink()
                self._read()
            yield

    def _read(self) -> None:
        paths = sorted(self.folder.glob("[!.]*.safetensors"))
        self.shards = [_open(path) for path in paths]

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Problem(
                f"{self.folder} cannot be used: {error.strerror or error}.",
                "Let other distillations finish, or choose another --out.",
            ) from error

    @property
    def answered(self) -> int:
        """Tokens of answers in all shards."""
        return sum(shard.answered for shard in self.shards)

    @property
    def seconds(self) -> float:
        """The seconds that answering took for all shards."""
        return sum(shard.seconds for shard in self.shards)

    @property
    def asked(self) -> int:
        """The number of prompts asked so far, which is the number of the next prompt."""
        return max((int(shard.path.stem) + shard.asked for shard in self.shards), default=0)

    def write(
        self, first: int, answers: Sequence[RecordedAnswer], *, asked: int, seconds: float
    ) -> None:
        """Add a shard: the answers to `asked` prompts, from number `first` on.

        Raises `Problem` if the disk is full, and then leaves no file.
        """
        path = self.folder / f"{first:07}.safetensors"
        arrays = {
            "tokens": mx.array([token for answer in answers for token in answer.tokens]),
            "lengths": mx.array([len(answer.tokens) for answer in answers]),
            "prompts": mx.array([answer.prompt for answer in answers]),
            "greedy": mx.array([int(answer.greedy) for answer in answers]),
            "asked": mx.array([asked]),
            "seconds": mx.array([seconds]),
            "states": mx.concatenate([answer.states for answer in answers]),
            "top_tokens": mx.concatenate([answer.top_tokens for answer in answers]),
            "top_log_probs": mx.concatenate([answer.top_log_probs for answer in answers]),
        }
        try:
            with replacing(path) as partial:
                mx.save_safetensors(str(partial), arrays)
        except (OSError, RuntimeError) as error:
            raise Problem(
                f"The answers cannot be written to {self.folder}: {error}.",
                "Free some disk space, and continue with --resume.",
            ) from error
        self.shards.append(_open(path))

    def mixed(self, shards: Sequence[Shard], *, seed: int) -> Iterator[list[RecordedAnswer]]:
        """Yield the answers of `shards` in random order, in groups that fit into memory."""
        random = Random(seed)
        for group in _groups(shards, random):
            yield _shuffled(group, random)  # without a reference, so that it can be freed


def read_shard(shard: Shard) -> list[RecordedAnswer]:
    """Read the answers in a shard."""
    arrays = mx.load(str(shard.path))
    assert isinstance(arrays, dict)
    answers, token, top = [], 0, 0
    for number, (length, prompt) in enumerate(zip(shard.lengths, shard.prompts, strict=True)):
        state, answered = token - number, length - prompt
        answers.append(
            RecordedAnswer(
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


def likeliest(shards: Sequence[Shard], *, vocabulary: int, count: int) -> mx.array:
    """The `count` token ids with the most probability in the target's answers, in order of id.

    Summed probabilities predict better than counts of written tokens: they cover 0.3 % more of the
    held-out tokens.
    """
    mass = np.zeros(vocabulary)
    for shard in shards:
        tokens, log_probs = shard.likeliest_tokens()
        mass += np.bincount(tokens.ravel(), np.exp(log_probs.ravel()), minlength=vocabulary)
    ranked = np.argsort(-mass, kind="stable")
    return mx.array(np.sort(ranked[:count]).astype(np.int32))


def _groups(shards: Sequence[Shard], random: Random) -> Iterator[list[Shard]]:
    """Yield all shards in random order, in groups that fit into memory, or of one shard."""
    group: list[Shard] = []
    size_bytes = 0
    for shard in random.sample(shards, len(shards)):
        shard_bytes = shard.path.stat().st_size
        if group and size_bytes + shard_bytes > _IN_MEMORY_BYTES:
            yield group
            group, size_bytes = [], 0
        group.append(shard)
        size_bytes += shard_bytes
    if group:
        yield group


def _shuffled(group: Sequence[Shard], random: Random) -> list[RecordedAnswer]:
    answers = [answer for shard in group for answer in read_shard(shard)]
    random.shuffle(answers)
    return answers


def _open(path: Path) -> Shard:
    try:
        shapes = {name: layout.shape for name, layout in check_safetensors(path).items()}
        arrays = mx.load(str(path))  # lazily: only the small ones are read
        assert isinstance(arrays, dict)
        names = ("tokens", "lengths", "prompts", "greedy", "asked", "seconds")
        tokens, lengths, prompts, greedy, (asked,), (seconds,) = fetch(
            *(arrays[name] for name in names)
        )
        if not path.stem.isdecimal() or not _adds_up(shapes, lengths, prompts):
            raise ValueError("its arrays do not fit together")
    except (RuntimeError, KeyError, ValueError, TypeError, AssertionError, Problem) as error:
        raise Problem(f"{path} is damaged.", "Delete it, and continue with --resume.") from error
    return Shard(path, tokens, lengths, prompts, greedy, asked, seconds)


def _adds_up(shapes: dict[str, tuple[int, ...]], lengths: list[int], prompts: list[int]) -> bool:
    """Whether the lengths of the arrays fit the answers in them."""
    count, answered = len(lengths), sum(lengths) - sum(prompts)
    return (
        shapes["prompts"] == shapes["greedy"] == (count,)
        and shapes["tokens"] == (sum(lengths),)
        and shapes["states"][0] == sum(lengths) - count
        and shapes["top_tokens"] == shapes["top_log_probs"]
        and shapes["top_tokens"][0] == answered
        and all(0 < prompt < length for prompt, length in zip(prompts, lengths, strict=True))
    )
