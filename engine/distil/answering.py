"""The target answers until there is enough to learn from; what it answered is on disk at once.

Knows in which order and how many at once are asked, what fits into memory and onto the disk, and
which answers are held out.
"""

import os
import shutil
from collections.abc import Sequence
from math import ceil
from random import Random
from time import monotonic

from engine.distil.answers import Answer, Answerer, Asked
from engine.distil.budget import Budget, Report, left
from engine.distil.store import AnswerStore, Shard, read_shard
from engine.drafters.head_network import HeadShape
from engine.loading import LoadedModel, free_memory_bytes
from models.errors import Problem

_MOST = 96  # prompts at once
_FIRST = 16  # of which it is learned how long they take
_SHARD_SECONDS = 60.0  # what is lost at most
_LEAST_SHARDS = 4
_HELD_OUT = 48  # greedy answers
_HELD_OUT_SHARE = 1 / 6
_MARGIN_BYTES = 200 << 20  # that shall stay free on the disk


class Answering:
    """Asks `target` all of `asked`, in an order of its own, as long as there is time.

    Raises `Problem` for a target that cannot answer in batches, and for too little memory.
    """

    def __init__(
        self,
        target: LoadedModel,
        shape: HeadShape,
        asked: Sequence[Asked],
        *,
        vocabulary: int,
        longest: int,
        seed: int,
    ) -> None:
        self._answerer = Answerer(target, shape.layers)
        self._longest = longest
        self._seed = seed
        self._queue = in_order(asked)
        # Of one position: the states, in memory and on disk; and besides them keys and values.
        self._state_bytes = 2 * len(shape.layers) * shape.hidden_size
        caches = 8 * len(target.model.layers) * shape.cache_width
        positions = max(len(one.tokens) for one in asked) + longest
        fitting = _fitting(positions * (self._state_bytes + caches) + 8 * vocabulary)
        self._most = min(_MOST, fitting, max(1, len(asked) // _LEAST_SHARDS))

    def fill(self, store: AnswerStore, *, budget: Budget, report: Report) -> None:
        """Go on until the budget is spent, or all prompts are answered. Raises `Problem`."""
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

    def _require_disk(self, store: AnswerStore, batch: Sequence[Asked]) -> None:
        positions = sum(len(one.tokens) + self._longest for one in batch)
        free = shutil.disk_usage(store.folder).free
        if free < positions * self._state_bytes + _MARGIN_BYTES:
            raise Problem(
                f"The disk is nearly full: {free / 1e9:.1f} GB are free.",
                "Make room, and go on with --resume; or begin anew with fewer --tokens.",
            )


def in_order(asked: Sequence[Asked]) -> list[Asked]:
    """Prompts of similar length one after another, which wastes less; otherwise mixed."""
    queue: list[Asked] = []
    for start in range(0, len(asked), 8 * _MOST):
        some = sorted(asked[start : start + 8 * _MOST], key=lambda one: len(one.tokens))
        groups = [some[i : i + _MOST] for i in range(0, len(some), _MOST)]
        random = Random(start)
        random.shuffle(groups)
        for group in groups:
            random.shuffle(group)
            queue += group
    return queue


def how_many(store: AnswerStore, share: float, *, most: int) -> int:
    """How many prompts to ask next: not many more than the rest needs, and for a minute."""
    prompts = sum(shard.asked for shard in store.shards)
    if not prompts:
        return min(_FIRST, most)
    in_time = _SHARD_SECONDS * prompts / store.seconds
    needed = prompts * max(1 - share, 0.0) / share
    return min(most, int(in_time) or 1, max(_FIRST // 2, ceil(needed)))


def _fitting(each_bytes: int) -> int:
    """How many prompts at once fit into a quarter of the free memory. Raises `Problem`."""
    require_memory(4 * each_bytes)
    return max(1, _free_bytes() // 4 // each_bytes)


def require_memory(needed_bytes: int) -> None:
    """Raises `Problem` where so much is not free."""
    free = _free_bytes()
    if free < needed_bytes:
        raise Problem(
            f"There is too little memory: {needed_bytes / 1e9:.1f} GB are needed, and "
            f"{free / 1e9:.1f} GB are free.",
            "Close other programs, or choose a smaller target or a smaller --vocabulary.",
        )


def _free_bytes() -> int:
    """Of memory. Where the system does not say, half of what is there is taken to be free."""
    return free_memory_bytes() or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def split(shards: Sequence[Shard]) -> tuple[list[Answer], list[Shard]]:
    """Greedy answers that are held out, and the shards to learn from. Raises `Problem`.

    The first shards are held out, until there are enough greedy answers or a sixth of all.
    """
    whole = sum(len(shard.lengths) for shard in shards)
    held, rest = [*shards[:1]], [*shards[1:]]
    while (
        len(rest) > 1
        and sum(sum(shard.greedy) for shard in held) < _HELD_OUT
        and sum(len(shard.lengths) for shard in [*held, rest[0]]) <= whole * _HELD_OUT_SHARE
    ):
        held.append(rest.pop(0))
    answers = [one for shard in held for one in read_shard(shard) if one.greedy][:_HELD_OUT]
    if not answers or not rest:
        raise Problem(
            "There are too few answers to learn from.", "Give more prompts, and more time."
        )
    return answers, rest
