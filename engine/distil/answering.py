"""Lets the target answer prompts in batches until there is enough to learn from.

`Answerer` answers one batch, and records the target's distribution at every token. `Answering`
decides the order of the prompts and the size of batches, so that they fit into memory and onto the
disk. `split` holds some answers out. Every batch is written to disk at once.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from random import Random
from time import monotonic

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, KVCache, make_prompt_cache

from engine.conversation.loading import LoadedModel
from engine.core.model_parts import TapHook
from engine.core.sampling import highest_ids
from engine.device import fetch
from engine.distil.budget import Reporter, WorkBudget, left
from engine.distil.store import AnswerStore, RecordedAnswer, Shard, read_shard
from engine.drafters.head_network import HeadShape
from models.errors import Problem
from models.in_words import size
from models.memory.machine import this_machine

LIKELIEST = 32  # tokens of each distribution that are kept
_PREFILL_POSITIONS = 4096  # read at once, over all prompts
_MOST = 96  # prompts at once
_FIRST = 16  # prompts of the first batch, which shows how long they take
_SHARD_SECONDS = 60.0  # the most work that an interruption loses
_LEAST_SHARDS = 4
_HELD_OUT = 48  # greedy answers
_HELD_OUT_SHARE = 1 / 6
_MARGIN_BYTES = 200 << 20  # to be left free on the disk


@dataclass(frozen=True, slots=True)
class TokenizedPrompt:
    """A prompt in tokens, and the temperature to answer it with."""

    tokens: list[int]
    temperature: float


class Answerer:
    """Answers prompts in batches, and records the states after `layers` of `target`.

    Raises `Problem` if the target's caches cannot be batched, as they are recurrent or sliding.
    """

    def __init__(self, target: LoadedModel, layers: Sequence[int]) -> None:
        self._target = target
        self._hook, self._taps = TapHook(target.model, layers), tuple(layers)
        self._caches = len(make_prompt_cache(target.model))
        if any(type(cache) is not KVCache for cache in make_prompt_cache(target.model)):
            raise Problem(
                f"{target.folder.name} has layers other than full attention.",
                "Distilling works for full-attention targets so far; draft with lookup.",
            )

    def answer(
        self, prompts: Sequence[TokenizedPrompt], *, longest: int, seed: int
    ) -> list[RecordedAnswer]:
        """Answer each prompt with up to `longest` tokens; empty answers are left out."""
        lengths = [len(prompt.tokens) for prompt in prompts]
        padding = [max(lengths) - length for length in lengths]
        caches = [BatchKVCache(padding) for _ in range(self._caches)]
        rows = list(range(len(prompts)))  # of the batch, still being answered
        written: list[list[int]] = [[] for _ in prompts]
        states: list[list[mx.array]] = [[] for _ in prompts]
        likeliest: list[list[tuple[mx.array, mx.array]]] = [[] for _ in prompts]

        logits, read = self._prefill(
            [[0] * p + prompt.tokens for p, prompt in zip(padding, prompts, strict=True)], caches
        )
        for row, skipped in enumerate(padding):
            states[row].append(read[row, skipped:])
        for key in mx.random.split(mx.random.key(seed), longest):
            temperatures = mx.array([prompts[row].temperature for row in rows])
            chosen, top, log_probs = _choose(logits, temperatures, key)
            (tokens,) = fetch(chosen)
            for place, (row, token) in enumerate(zip(rows, tokens, strict=True)):
                written[row].append(token)
                likeliest[row].append((top[place], log_probs[place]))
            going = [
                place
                for place, (row, token) in enumerate(zip(rows, tokens, strict=True))
                if token not in self._target.ends and len(written[row]) < longest
            ]
            if not going:
                break
            if len(going) < len(rows):
                rows = [rows[place] for place in going]
                for cache in caches:
                    cache.filter(mx.array(going))
                chosen = chosen[mx.array(going)]
            logits, read = self._pass(chosen[:, None], caches)
            mx.eval(logits, read)
            for place, row in enumerate(rows):
                states[row].append(read[place])
        answers = []
        for row, prompt in enumerate(prompts):
            if len(written[row]) > 1:
                tops, log_tops = zip(*likeliest[row], strict=True)
                answer = RecordedAnswer(
                    [*prompt.tokens, *written[row]],
                    len(prompt.tokens),
                    prompt.temperature == 0,
                    mx.concatenate(states[row]).reshape(
                        len(prompt.tokens) + len(written[row]) - 1, len(self._taps), -1
                    ),
                    mx.stack(list(tops)),
                    mx.stack(list(log_tops)),
                )
                mx.eval(answer.states, answer.top_tokens, answer.top_log_probs)
                answers.append(answer)
        return answers

    def _prefill(
        self, padded: list[list[int]], caches: list[BatchKVCache]
    ) -> tuple[mx.array, mx.array]:
        """The last logits (batch, vocabulary) and all states (batch, n, layers * width)."""
        tokens = mx.array(padded)
        step, last = max(1, _PREFILL_POSITIONS // len(padded)), tokens.shape[1] - 1
        reads = []
        for start in range(0, last, step):
            _, read = self._pass(tokens[:, start : min(start + step, last)], caches)
            mx.eval(read)  # not the logits, which would take more memory than all the rest
            reads.append(read)
        logits, read = self._pass(tokens[:, last:], caches)
        mx.eval(logits, read)
        return logits, mx.concatenate([*reads, read], axis=1)

    def _pass(self, tokens: mx.array, caches: list[BatchKVCache]) -> tuple[mx.array, mx.array]:
        with self._hook.open():
            logits = self._target.model(tokens, cache=caches)[:, -1]
        states = [self._hook.seen[tap] for tap in self._taps]
        return logits, mx.concatenate(states, axis=-1).astype(mx.bfloat16)


def _choose(
    logits: mx.array, temperatures: mx.array, key: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """Return next tokens (batch,), the likeliest tokens (batch, 32) and their log probabilities.

    Samples are drawn from the likeliest tokens only: all tokens would take half of the time.
    """
    logits = logits.astype(mx.float32)
    top = highest_ids(logits, min(LIKELIEST, logits.shape[-1] - 1))
    whole = mx.logsumexp(logits, axis=-1, keepdims=True)
    top_log_probs = mx.take_along_axis(logits, top, axis=-1) - whole
    scaled = top_log_probs / mx.maximum(temperatures, 1e-6)[:, None]
    drawn = mx.random.categorical(scaled, key=key)
    sampled = mx.take_along_axis(top, drawn[:, None], axis=-1)[:, 0]
    chosen = mx.where(temperatures > 0, sampled, mx.argmax(logits, axis=-1))
    return chosen.astype(mx.int32), top.astype(mx.int32), top_log_probs.astype(mx.float16)


class Answering:
    """Asks `target` all `prompts`, in the order of `in_order`, until the budget is spent.

    Raises `Problem` if the target cannot answer in batches, or if there is too little memory.
    """

    def __init__(
        self,
        target: LoadedModel,
        shape: HeadShape,
        prompts: Sequence[TokenizedPrompt],
        *,
        vocabulary: int,
        longest: int,
        seed: int,
    ) -> None:
        self._answerer = Answerer(target, shape.layers)
        self._longest = longest
        self._seed = seed
        self._queue = in_order(prompts)
        # For each position: states, in memory and on disk; keys and values, in memory.
        self._state_bytes = 2 * len(shape.layers) * shape.hidden_size
        caches = 8 * len(target.model.layers) * shape.cache_width
        positions = max(len(prompt.tokens) for prompt in prompts) + longest
        fitting = _fitting(positions * (self._state_bytes + caches) + 8 * vocabulary)
        self._most = min(_MOST, fitting, max(1, len(prompts) // _LEAST_SHARDS))

    def fill(self, store: AnswerStore, *, budget: WorkBudget, report: Reporter) -> None:
        """Ask until the budget is spent or all prompts are answered. Raises `Problem`."""
        with store.growing():
            position = store.asked
            while position < len(self._queue):
                share = budget.answered(tokens=store.answered, seconds=store.seconds)
                if share >= 1 and len(store.shards) > 1:
                    return
                batch = self._queue[position : position + how_many(store, share, most=self._most)]
                self._require_disk(store, batch)
                began = monotonic()
                answers = self._answerer.answer(
                    batch, longest=self._longest, seed=self._seed + position
                )
                if answers:
                    seconds = monotonic() - began
                    store.write(position, answers, asked=len(batch), seconds=seconds)
                    share = budget.answered(tokens=store.answered, seconds=store.seconds)
                    report(
                        f"answering: {min(share, 1):.0%}, {store.answered:,} tokens, "
                        f"{store.answered / store.seconds:.0f}/s, {left(store.seconds, share)}"
                    )
                position += len(batch)
            report(f"answering: all {position:,} prompts are answered, {store.answered:,} tokens")

    def _require_disk(self, store: AnswerStore, batch: Sequence[TokenizedPrompt]) -> None:
        positions = sum(len(prompt.tokens) + self._longest for prompt in batch)
        free = shutil.disk_usage(store.folder).free
        if free < positions * self._state_bytes + _MARGIN_BYTES:
            raise Problem(
                f"The disk is nearly full: {size(free)} are free.",
                "Free some space and continue with --resume, or start again with fewer --tokens.",
            )


def in_order(prompts: Sequence[TokenizedPrompt]) -> list[TokenizedPrompt]:
    """Shuffle prompts in groups of similar length, which need less padding."""
    queue: list[TokenizedPrompt] = []
    for start in range(0, len(prompts), 8 * _MOST):
        some = sorted(prompts[start : start + 8 * _MOST], key=lambda prompt: len(prompt.tokens))
        groups = [some[i : i + _MOST] for i in range(0, len(some), _MOST)]
        random = Random(start)
        random.shuffle(groups)
        for group in groups:
            random.shuffle(group)
            queue += group
    return queue


def how_many(store: AnswerStore, share: float, *, most: int) -> int:
    """The size of the next batch: not many more than needed, and a minute of work at most."""
    prompts = sum(shard.asked for shard in store.shards)
    if not prompts:
        return min(_FIRST, most)
    in_time = _SHARD_SECONDS * prompts / store.seconds
    needed = prompts * max(1 - share, 0.0) / share
    return min(most, int(in_time) or 1, max(_FIRST // 2, ceil(needed)))


def _fitting(each_bytes: int) -> int:
    """The number of prompts that fit into a quarter of the free memory. Raises `Problem`."""
    require_memory(4 * each_bytes)
    return max(1, this_machine().available_bytes // 4 // each_bytes)


def require_memory(needed_bytes: int) -> None:
    """Raise `Problem` if less than `needed_bytes` are free."""
    free = this_machine().available_bytes
    if free < needed_bytes:
        raise Problem(
            f"There is too little memory: {size(needed_bytes)} are needed, and "
            f"{size(free)} are free.",
            "Close other programs, or choose a smaller target or a smaller --vocabulary.",
        )


def split(shards: Sequence[Shard]) -> tuple[list[RecordedAnswer], list[Shard]]:
    """Return the held-out greedy answers, and the shards to learn from. Raises `Problem`.

    The first shards are held out, until they have enough greedy answers or a sixth of all answers.
    """
    whole = sum(len(shard.lengths) for shard in shards)
    held, rest = [*shards[:1]], [*shards[1:]]
    while (
        len(rest) > 1
        and sum(sum(shard.greedy) for shard in held) < _HELD_OUT
        and sum(len(shard.lengths) for shard in [*held, rest[0]]) <= whole * _HELD_OUT_SHARE
    ):
        held.append(rest.pop(0))
    answers = [answer for shard in held for answer in read_shard(shard) if answer.greedy][
        :_HELD_OUT
    ]
    if not answers or not rest:
        raise Problem(
            "There are too few answers to learn from.", "Give more prompts, and more time."
        )
    return answers, rest
