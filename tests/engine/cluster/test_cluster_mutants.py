"""Ranks that are broken on purpose: none of them goes on silently.

Each mutant leaves a group behind that nobody can use, so each has one of its own. Followers that
forget are shown in one process, too: `test_leader.py`.
"""

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any
from unittest import mock

import mlx.core as mx
import pytest

from engine.cluster import group as collectives
from engine.cluster import orders
from engine.cluster.follower import Follower, OutOfStep
from engine.cluster.group import Group
from engine.cluster.leader import PASSES_BETWEEN_COMPARISONS
from engine.cluster.share import Mode, ModelPart
from engine.conversation.loading import LoadedModel
from engine.core.decoder import Decoder
from engine.core.loop import speculate
from engine.draft_length import DraftCandidate, DraftChoice
from engine.draft_length.policy import Fixed
from engine.drafters.model import ModelDrafter
from tests.support.engine.helpers import PROMPT, task
from tests.support.engine.ranks import CALL_SECONDS, Held, RankFailed, lead, started
from tests.support.engine.tiny import build, noisy

COUNT = 3 * PASSES_BETWEEN_COMPARISONS
TARGET = partial(build, "qwen3_5")


def write(target: LoadedModel) -> list[int]:
    """So many tokens that the ranks are compared within, with drafts that are taken back."""
    decoder, tokens = target.decoder(target.model), list(PROMPT)
    drafter = ModelDrafter(Decoder(noisy(TARGET(), scale=0.1)), vocabulary=decoder.vocabulary)
    with decoder.busy():
        for _ in decoder.prefill(tokens):
            pass
        for _ in speculate(decoder, drafter, Fixed(3), tokens, task(COUNT)):
            pass
    return tokens


def led(group: Group, mode: Mode, broken: Callable[[], AbstractContextManager[Any]]) -> Any:
    """As ever, but for the follower, which is broken."""
    with broken() if group.rank() else nullcontext():
        return lead(group, Held(TARGET, mode), write)


def obeying(skips: Callable[[orders.Order, int], bool]) -> AbstractContextManager[Any]:
    """A follower that does not do what `skips` says, of an order and how many came before it."""
    obey, came = Follower._obey, list[orders.Order]()

    def broken(follower: Follower, order: orders.Order) -> None:
        if not skips(order, sum(type(each) is type(order) for each in came)):
            obey(follower, order)
        came.append(order)

    return mock.patch.object(Follower, "_obey", broken)


def forget_a_rewind() -> AbstractContextManager[Any]:
    return obeying(lambda order, before: isinstance(order, orders.Rewind) and before == 5)


def forget_to_mark() -> AbstractContextManager[Any]:
    """Recurrent layers take back more than they should then."""
    return obeying(lambda order, before: isinstance(order, orders.Mark))


def forget_a_pass() -> AbstractContextManager[Any]:
    return obeying(lambda order, before: isinstance(order, orders.Read) and before == 5)


def forget_to_compare() -> AbstractContextManager[Any]:
    return obeying(lambda order, before: isinstance(order, orders.Compare))


def lose_a_message() -> AbstractContextManager[Any]:
    received, heard = list[int](), collectives.broadcast

    def broken(group: Group, numbers: Sequence[int], *, length: int) -> list[int]:
        received.append(length)
        if len(received) == 8:
            heard(group, numbers, length=length)
        return heard(group, numbers, length=length)

    return mock.patch.object(collectives, "broadcast", broken)


def mishear_a_token() -> AbstractContextManager[Any]:
    read, passes = Follower._read, list[int]()

    def broken(follower: Follower, decoder: Decoder, tokens: tuple[int, ...]) -> None:
        passes.append(len(tokens))
        if len(passes) == 8:
            number = next(n for n, each in follower.decoders.items() if each is decoder)
            follower.texts[number][-len(tokens)] += 1
            tokens = (tokens[0] + 1, *tokens[1:])
        read(follower, decoder, tokens)

    return mock.patch.object(Follower, "_read", broken)


MUTANTS = [
    *(forget_a_rewind, forget_to_mark, forget_a_pass, forget_to_compare, lose_a_message),
    mishear_a_token,
]


NOTICED = ("lost each other", "OutOfStep", "NotAnOrder")


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
@pytest.mark.parametrize("mode", ["pipeline", "tensor"])
def test_mutant_is_noticed(mode: Mode, mutant: Callable[[], AbstractContextManager[Any]]) -> None:
    # In a pipeline both wait for each other where a rank reads less: only a deadline helps.
    waits = mode == "pipeline" and mutant in (forget_a_pass, lose_a_message)
    with started(2) as ranks, pytest.raises(RankFailed) as failed:
        ranks.call(led, mode, mutant, seconds=20.0 if waits else CALL_SECONDS)
    noticed = ("nothing within",) if waits else NOTICED
    assert any(word in said for said in failed.value.failures.values() for word in noticed)


# What was tried first, and what work orders are for: every rank drafts and decides by itself.


class Wavering(Fixed):
    """Chooses lengths as one does that looks at the clock: each rank others."""

    def __init__(self, rank: int) -> None:
        super().__init__(4)
        self._draw = random.Random(rank)

    def choose(self, candidates: Sequence[DraftCandidate], **options: Any) -> DraftChoice:
        return DraftChoice(self._draw.randint(0, 4))


class Unled(Decoder):
    """Reads when its own rank likes to, and compares now and then."""

    def __init__(self, part: ModelPart) -> None:
        super().__init__(part.model)
        self._part, self._text, self._passes = part, list[int](), 0

    def read(self, tokens: mx.array) -> mx.array:
        self._passes += 1
        self._part.settle()
        if self._passes % PASSES_BETWEEN_COMPARISONS == 0 and not collectives.agrees(
            self._part.group, [self._text[: self.length]]
        ):
            raise OutOfStep
        self._text[self.length :] = tokens.tolist()  # type: ignore[arg-type]
        self._part.begin()
        return super().read(tokens)


def unled(group: Group, *, wavers: bool) -> list[int]:
    """Every rank writes the answer by itself."""
    decoder, tokens = Unled(Held(TARGET, "tensor").part(group)), list(PROMPT)
    drafter = ModelDrafter(Decoder(noisy(TARGET(), scale=0.1)), vocabulary=decoder.vocabulary)
    policy = Wavering(group.rank() if wavers else 0)
    for _ in speculate(decoder, drafter, policy, tokens, task(COUNT)):
        pass
    return tokens


@pytest.mark.slow
def test_ranks_that_choose_lengths_by_themselves_are_noticed() -> None:
    with started(2) as ranks:
        one, other = ranks.call(partial(unled, wavers=False))
        assert one == other
        with pytest.raises(RankFailed) as failed:
            ranks.call(partial(unled, wavers=True))
    assert any("OutOfStep" in said for said in failed.value.failures.values())
