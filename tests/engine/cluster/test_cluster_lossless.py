"""Losslessness on several ranks: whole conversations are those of one process, token for token.

With a pipeline nothing rounds in another way; with tensor parallelism sums do, which tiny float32
models show in no token. What the ranks hold afterwards is compared with fresh replays, on each of
them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest

from engine.cluster.follower import Follower
from engine.cluster.group import Group
from engine.cluster.leader import Leader
from engine.cluster.share import Mode
from engine.conversation.loading import LoadedModel
from engine.conversation.session import Session
from engine.core.cache import QuantizedCaches
from engine.core.decoder import Decoder
from engine.draft_length.policy import Automatic, Fixed
from engine.drafters import Drafter, NoDrafter
from engine.drafters.cascade import Cascade
from engine.drafters.copying import LookupDrafter, SuffixDrafter
from engine.drafters.head_network import head_drafter
from engine.drafters.model import ModelDrafter
from engine.events import Done, Event
from engine.request import ChatMessage, Request, Sampling
from tests.support.engine.heads import untrained
from tests.support.engine.helpers import contents
from tests.support.engine.ranks import Held, Ranks, alone, leading, started
from tests.support.engine.sessions import VOCABULARY, tokens_of
from tests.support.engine.shared_targets import SHARED_TARGETS
from tests.support.engine.tiny import build, noisy

MODES = ("pipeline", "tensor")
ARCHITECTURES = ("llama", "qwen2", "qwen3", "qwen3_5", "gpt_oss", "deepseek_v3")
DRAFTERS = {
    "greedy": ("none", "lookup", "model", "head"),
    "repeatable": ("suffix", "model", "automatic"),
}
SAMPLINGS = {
    "greedy": Sampling(),
    "repeatable": Sampling(
        temperature=0.9, top_p=0.95, repetition_penalty=1.1, seed=5, repeatable=True
    ),
}
ONE_ROW_IN_ANOTHER_WAY = ("deepseek_v3",)  # its attention rounds so in one process, too
FOUR = {"num_hidden_layers": 8, "linear_num_key_heads": 4}


def target(architecture: str, ranks: int) -> nn.Module:
    """A tiny model that so many ranks can hold together."""
    sizes = dict(SHARED_TARGETS[architecture])
    if ranks == 4:
        sizes |= FOUR
        if architecture != "deepseek_v3":
            sizes["num_key_value_heads"] = 4
    return build(architecture, sizes=sizes, vocabulary=VOCABULARY)


@dataclass(frozen=True, slots=True)
class Cell:
    """How a conversation is written."""

    drafter: str = "none"
    sampling: str = "greedy"
    length: int = 4
    quantized: QuantizedCaches | None = None


def begin(target: LoadedModel, whole: nn.Module, cell: Cell) -> Session:
    """A session that never ends by itself. `whole`: what drafts, disturbed, or is drafted for."""
    session = Session(replace(target, ends=frozenset()), quantized=cell.quantized)
    decoder = session.decoder

    def model() -> Drafter:
        return ModelDrafter(Decoder(noisy(whole)), vocabulary=decoder.vocabulary)

    drafters: dict[str, Any] = {
        "none": NoDrafter,
        "lookup": LookupDrafter,
        "suffix": SuffixDrafter,
        "model": model,
        "head": lambda: head_drafter(decoder, untrained(whole)),
        "automatic": lambda: Cascade(LookupDrafter(), model()),
    }
    session.drafter = drafters[cell.drafter]()
    session.policy = Automatic() if cell.drafter == "automatic" else Fixed(cell.length)
    return session


def converse(session: Session, sampling: str) -> list[list[int]]:
    """Two turns, and another second question, whose answer is first closed, then cancelled."""

    def request(count: int) -> Request:
        return Request(max_tokens=count, sampling=SAMPLINGS[sampling])

    def stream(messages: Sequence[ChatMessage], count: int, **options: Any) -> Iterator[Event]:
        return session.answer(messages, request(count), **options)

    first = [ChatMessage("user", "one two three one two three one two")]
    second = [*first, ChatMessage("assistant", "one two"), ChatMessage("user", "and then two?")]
    edited = [*second[:2], ChatMessage("user", "and then?" + " three two one" * 12)]
    answers = [tokens_of(list(stream(first, 30))), tokens_of(list(stream(second, 24)))]
    closed = stream(edited, 24)
    begun = list(islice(closed, 12))
    closed.close()  # type: ignore[attr-defined] # it is a generator
    asked = iter(range(5))
    cut = list(stream(edited, 24, cancelled=lambda: next(asked, None) is None))
    answers.append(tokens_of(list(stream(edited, 24))))
    for part in (tokens_of(begun), tokens_of(cut)):
        assert answers[-1][: len(part)] == part
    assert isinstance(cut[-1], Done)
    assert cut[-1].reason == "cancelled"
    return answers


def conversations(group: Group, held: Held, cells: Sequence[Cell], apart: float) -> list[Any]:
    """For `Ranks.call`: what is answered, on rank 0. Afterwards each rank finds in its caches what
    reading the same text afresh makes of others, no more than `apart`."""
    part, answers = held.part(group), list[Any]()
    for cell in cells:
        if group.rank() > 0:
            follower = Follower(part)
            follower.run(lambda: True)
            old, new = follower.decoders.values()
            assert len({tuple(text) for text in follower.texts.values()}) == 1
        else:
            leader = Leader(part)
            session = begin(leading(leader), held.model(), cell)
            answers.append(converse(session, cell.sampling))
            old, new = session.decoder, session.decoder.another()
            for _ in new.prefill([*session._tokens[: old.length], 0]):
                pass
            leader.quit()
        assert old.length == new.length > 0
        for ours, afresh in zip(old.timeline.layers, new.timeline.layers, strict=True):
            pairs = zip(contents(ours), contents(afresh), strict=True)
            assert all(mx.allclose(a, b, 0.0, apart) for a, b in pairs), f"{cell}: {afresh}"
    return answers


@cache
def plain(architecture: str, ranks: int, sampling: str) -> list[list[int]]:
    """What one process answers without drafts."""
    whole = target(architecture, ranks)
    return converse(begin(alone(whole), whole, Cell(sampling=sampling)), sampling)


@pytest.fixture(scope="module")
def ranks(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    with started(request.param) as ranks:
        yield ranks


def test_conversation_on_two_ranks(two: Ranks, on_the_cpu: None) -> None:
    check(two, "pipeline", "qwen3_5", [Cell("model")])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "mode", "architecture", "sampling"),
    [
        (ranks, mode, architecture, sampling)
        for ranks, sampling, modes, architectures in (
            (2, "greedy", MODES, ARCHITECTURES),
            (2, "repeatable", MODES, ("llama", "qwen3_5")),
            (3, "greedy", MODES, ("llama",)),
            (3, "greedy", ("pipeline",), ("qwen3_5",)),
            (4, "repeatable", ("pipeline",), ("llama",)),  # in turns: two cores hold that
        )
        for mode in modes
        for architecture in architectures
    ],
    indirect=["ranks"],
)
def test_every_drafter_and_architecture(
    ranks: Ranks, mode: Mode, architecture: str, sampling: str, on_the_cpu: None
) -> None:
    check(ranks, mode, architecture, [Cell(drafter, sampling) for drafter in DRAFTERS[sampling]])


def check(ranks: Ranks, mode: Mode, architecture: str, cells: Sequence[Cell]) -> None:
    size = len(ranks.processes)
    held = Held(partial(target, architecture, size), mode)
    bit_for_bit = architecture not in ONE_ROW_IN_ANOTHER_WAY and (mode == "pipeline" or size == 2)
    apart = 0.0 if bit_for_bit else 1e-3
    answers, *_ = ranks.call(conversations, held, cells, apart, seconds=280)
    for cell, found in zip(cells, answers, strict=True):
        assert found == plain(architecture, size, cell.sampling), cell
