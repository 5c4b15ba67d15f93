"""Drafters that read the target's states, or borrow parts of it, draft on rank 0 as by themselves;
those that would read with its layers are refused."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from engine.conversation.loading import LoadedModel
from engine.core.decoder import Decoder
from engine.core.loop import speculate
from engine.core.rounds import RoundDraft, Task
from engine.draft_length.policy import Fixed
from engine.drafters import Drafter, DrafterRefused
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.head_network import head_drafter
from engine.request import Sampling
from models.sharing import Mode
from tests.support.engine import heads, mtp
from tests.support.engine.ranks import Held, Ranks, alone, lead
from tests.support.engine.shared_targets import shared_target
from tests.support.mostly_slow import mostly_slow

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def with_head(target: Decoder, name: str) -> Drafter:
    return head_drafter(target, heads.untrained(shared_target(name)))


def with_mtp(target: Decoder, name: str) -> Drafter:
    return mtp.drafter_by(mtp.untrained(shared_target(name)), target)


DRAFTERS: dict[str, Callable[[Decoder, str], Drafter]] = {"head": with_head, "MTP": with_mtp}


def drafts(target: LoadedModel, drafter: str, name: str) -> tuple[list[int], list[Any]]:
    """What is written greedily, and all that is drafted for it."""
    decoder = target.decoder(target.model)
    drafting = DRAFTERS[drafter](decoder, name)
    tokens = [(5 * n) % 64 for n in range(40)]
    for _ in decoder.prefill(tokens):
        pass
    task = Task(Sampling(temperature=0.0), seed=1, max_tokens=16, ends=frozenset())
    rounds = list(speculate(decoder, drafting, Fixed(3), tokens, task))
    return tokens, [(each.tokens, each.q) for each in rounds if isinstance(each, RoundDraft)]


CASES = [("head", "gpt_oss"), ("MTP", "qwen3_5")]


@pytest.mark.slow
@pytest.mark.parametrize(("drafter", "name"), CASES)
def test_a_drafter_of_states_drafts_as_by_one_process(two: Ranks, drafter: str, name: str) -> None:
    held = Held(partial(shared_target, name), "pipeline")
    ours, _ = two.call(lead, held, drafts, drafter, name)
    theirs = drafts(alone(shared_target(name)), drafter, name)
    assert ours == theirs
    assert len(theirs[1]) > 3


def what_is_said_of_early_exit(target: LoadedModel) -> str:
    with pytest.raises(DrafterRefused) as refused:
        EarlyExitDrafter(target.decoder(target.model), layers=1)
    return refused.value.obstacle


@pytest.mark.parametrize("mode", mostly_slow(["pipeline", "tensor"], quick=["pipeline"]))
def test_a_drafter_that_reads_with_the_layers_is_refused(two: Ranks, mode: Mode) -> None:
    held = Held(partial(shared_target, "llama"), mode)
    assert two.call(lead, held, what_is_said_of_early_exit)[0] == "unsupported"


def layers_and_last_tap(target: LoadedModel) -> tuple[int, int, int]:
    decoder = target.decoder(target.model)
    (last,) = decoder.record((decoder.depth,)).taps
    return len(decoder.model.layers), decoder.depth, int(last)


def test_the_depth_is_that_of_the_whole_target(two: Ranks) -> None:
    held = Held(partial(shared_target, "llama"), "pipeline", (2, 4))
    assert two.call(lead, held, layers_and_last_tap)[0] == (2, 6, 6)
