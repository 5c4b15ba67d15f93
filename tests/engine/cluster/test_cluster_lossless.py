"""Losslessness on several ranks: whole conversations are those of one process, token for token.

With a pipeline nothing rounds in another way; with tensor parallelism sums do, which tiny float32
models show in no token. What the ranks hold afterwards is compared with fresh replays, on each of
them. A rank that does something else never goes on silently, and all rest between answers.
"""

from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from itertools import count, islice, product
from unittest import mock

import mlx.core as mx
import pytest

from engine.cluster import group as collectives
from engine.cluster import orders
from engine.cluster.follower import Follower
from engine.cluster.leader import PASSES_BETWEEN_COMPARISONS, Leader
from engine.conversation.pair import identify
from engine.conversation.session import Session
from engine.core.decoder import Decoder
from engine.draft_length.policy import Automatic, Fixed
from engine.drafters import DrafterRefused, NoDrafter
from engine.drafters.cascade import Cascade
from engine.drafters.copying import LookupDrafter, SuffixDrafter
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.head_network import head_drafter
from engine.drafters.model import ModelDrafter
from engine.events import Draft
from engine.request import ChatMessage, Request, Sampling
from models.installed.resolve import resolve_drafters
from models.model_folder import ModelFolder
from tests.support.engine import mtp
from tests.support.engine.heads import untrained
from tests.support.engine.helpers import build_wide, contents
from tests.support.engine.ranks import (
    SHARED_TARGETS,
    Held,
    RankFailed,
    alone,
    lead,
    leading,
    shared_target,
    started,
)
from tests.support.engine.sessions import QUESTION, VOCABULARY, tokens_of
from tests.support.engine.tiny import build, noisy
from tests.support.mostly_slow import mostly_slow

MODES = ("pipeline", "tensor")
ARCHITECTURES = ("llama", "qwen2", "qwen3", "qwen3_5", "gpt_oss", "deepseek_v3")
WARM = {"temperature": 0.9, "top_p": 0.95, "repetition_penalty": 1.1}
SAMPLINGS = {"greedy": Sampling(), "repeatable": Sampling(**WARM, seed=5, repeatable=True)}
DRAFTERS = {"greedy": ("none", "lookup", "model", "head")}
DRAFTERS |= {"repeatable": ("suffix", "model", "automatic")}


def target(architecture):
    return build(architecture, sizes=SHARED_TARGETS[architecture], vocabulary=VOCABULARY)


def begin(target, whole, drafter):
    """A session that never ends by itself. `whole`: what drafts, disturbed, or is drafted for."""
    session = Session(replace(target, ends=frozenset()))
    decoder = session.decoder

    def model():
        return ModelDrafter(Decoder(noisy(whole)), vocabulary=decoder.vocabulary)

    drafters = {
        "none": NoDrafter,
        "lookup": LookupDrafter,
        "suffix": SuffixDrafter,
        "model": model,
        "head": lambda: head_drafter(decoder, untrained(whole)),
        "MTP": lambda: mtp.drafter_by(mtp.untrained(whole), decoder),
        "automatic": lambda: Cascade(LookupDrafter(), model()),
    }
    session.drafter = drafters[drafter]()
    session.policy = Automatic() if drafter == "automatic" else Fixed(4)
    return session


def converse(session, sampling):
    """Two turns, and another second question, whose answer is first closed, then cancelled. Returns
    the answers' tokens, and the drafts of the first one."""

    def stream(messages, count, **options):
        request = Request(max_tokens=count, sampling=SAMPLINGS[sampling])
        return session.answer(messages, request, **options)

    first = [ChatMessage("user", "one two three one two three one two")]
    second = [*first, ChatMessage("assistant", "one two"), ChatMessage("user", "and then two?")]
    edited = [*second[:2], ChatMessage("user", "and then?" + " three two one" * 12)]
    events = list(stream(first, 16))
    drafts = [[(t.id, t.q) for t in e.tokens] for e in events if isinstance(e, Draft)]
    answers = [tokens_of(events), tokens_of(list(stream(second, 12)))]
    closed = stream(edited, 16)
    begun = list(islice(closed, 12))
    closed.close()
    asked = iter(range(5))
    cut = list(stream(edited, 16, cancelled=lambda: next(asked, None) is None))
    answers.append(tokens_of(list(stream(edited, 16))))
    for part in (tokens_of(begun), tokens_of(cut)):
        assert answers[-1][: len(part)] == part
    assert cut[-1].reason == "cancelled"
    return answers, drafts


def conversations(group, held, sampling, drafters, apart):
    """For `Ranks.call`: what is answered, on rank 0. Afterwards each rank finds in its caches what
    reading the same text afresh makes of others, no more than `apart`."""
    part, answers = held.part(group), []
    for drafter in drafters:
        if group.rank() > 0:
            follower = Follower(part)
            follower.run(lambda: True)
            old, new = follower.decoders.values()
            assert len({tuple(text) for text in follower.texts.values()}) == 1
        else:
            woken = []
            leader = Leader(part, works=lambda on: on and woken.append(1))  # noqa: B023
            session = begin(leading(leader), held.model(), drafter)
            answers.append(converse(session, sampling))
            if drafter == "lookup":
                session.policy = Automatic()
                session.calibrate()
            assert len(woken) == 5 + (drafter == "lookup")  # they rest however work ends
            old, new = session.decoder, session.decoder.another()
            for _ in new.prefill([*session._tokens[: old.length], 0]):
                pass
            leader.quit()
        assert old.length == new.length > 0
        for ours, afresh in zip(old.timeline.layers, new.timeline.layers, strict=True):
            pairs = zip(contents(ours), contents(afresh), strict=True)
            assert all(mx.allclose(a, b, 0.0, apart) for a, b in pairs), f"{drafter}: {afresh}"
    return answers


@cache
def by_one_process(architecture, sampling, drafter="none"):
    whole = target(architecture)
    return converse(begin(alone(whole), whole, drafter), sampling)


def require_lossless(ranks, mode, architecture, sampling, drafters):
    size, held = len(ranks.processes), Held(partial(target, architecture), mode)
    bit_for_bit = architecture != "deepseek_v3" and (mode == "pipeline" or size == 2)
    apart = 0.0 if bit_for_bit else 1e-3  # its attention rounds so in one process, too
    answered, *_ = ranks.call(conversations, held, sampling, drafters, apart, seconds=280)
    for drafter, (answers, drafts) in zip(drafters, answered, strict=True):
        of_states = mode == "pipeline" and drafter in ("head", "MTP")  # the target's
        expected = by_one_process(architecture, sampling, drafter if of_states else "none")
        assert answers == expected[0], drafter
        assert not of_states or drafts == expected[1] != []


def test_conversation_on_two_ranks(ranks, on_the_cpu):
    require_lossless(ranks, "pipeline", "qwen3_5", "greedy", ["MTP"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "mode", "architecture", "sampling"),
    [
        *product([2], MODES, ARCHITECTURES, ["greedy"]),
        *product([2], MODES, ["llama", "qwen3_5"], ["repeatable"]),
        *product([3], MODES, ["llama"], ["greedy"]),
        (3, "pipeline", "qwen3_5", "greedy"),
    ],
    indirect=["ranks"],
)
def test_every_drafter_and_architecture(ranks, mode, architecture, sampling, on_the_cpu):
    require_lossless(ranks, mode, architecture, sampling, DRAFTERS[sampling])


WIDE = partial(build_wide, "qwen3_5", vocabulary=VOCABULARY)


def test_calibration_belongs_to_the_group(monkeypatch):
    monkeypatch.setattr(ModelFolder, "fingerprint", property(lambda folder: str(folder.path)))
    target = alone(WIDE())
    drafters, decoder = resolve_drafters("lookup", target.folder), Decoder(target.model)
    key = identify(drafters, target, decoder)
    decoder.group = "pipeline 2+2 over ring"
    assert key != (other := identify(drafters, target, decoder))
    assert decoder.group in other.backend


def layers_and_early_exit(target):
    """The layers here, of all ranks, and the last with states; and why early exit is refused."""
    decoder = target.decoder(target.model)
    (last,) = decoder.record((decoder.depth,)).taps
    with pytest.raises(DrafterRefused) as refused:
        EarlyExitDrafter(target.decoder(target.model), layers=1)
    return len(decoder.model.layers), decoder.depth, int(last), refused.value.obstacle


@pytest.mark.parametrize(
    ("mode", "split", "here"),
    mostly_slow([("pipeline", (2, 4), 2), ("tensor", (), 6)], quick=[("pipeline", (2, 4), 2)]),
)
def test_a_drafter_knows_the_depth_and_reads_with_no_layers(ranks, mode, split, here):
    held = Held(partial(shared_target, "llama"), mode, split)
    assert ranks.call(lead, held, layers_and_early_exit)[0] == (here, 6, 6, "unsupported")


# A rank that does something else


def say(group):
    """What ranks hear of each other: another text than rank 0's, another list, too much."""
    rank, heard = group.rank(), []
    for texts in ([[1, 2]], [[1, 2 + rank]], [[1, 2], []][: 2 - rank], [[1] * (1 + rank)]):
        heard.append(collectives.agrees(group, texts))
    heard += [collectives.broadcast(group, [5 + rank, 7], length=2)]
    heard += [collectives.exchange(group, f"rank {rank}")]
    with pytest.raises(ValueError, match="too long"):
        collectives.exchange(group, "x" * (1 << 15))
    return heard


def test_ranks_hear_each_other_and_rank_0_alone_decides(ranks):
    heard = [True, False, False, False, [5, 7], ["rank 0", "rank 1"]]
    assert ranks.call(say) == [heard, heard]


def write(target):
    """Compare ranks three times, and take drafts back."""
    session = Session(replace(target, ends=frozenset()), policy=Fixed(3))
    vocabulary = session.decoder.vocabulary
    session.drafter = ModelDrafter(Decoder(noisy(WIDE(), scale=0.1)), vocabulary=vocabulary)
    list(session.answer(QUESTION, Request(max_tokens=3 * PASSES_BETWEEN_COMPARISONS)))


def broken(group, mode, kind, number, shift):
    """For `Ranks.call`: a long answer, of which the follower does not obey one order of a kind, or
    hears another token in it."""
    obey, came = Follower._obey, count()

    def obey_others(follower, order):
        if not isinstance(order, kind) or next(came) != number:
            obey(follower, order)
        elif shift:
            first, *rest = order.tokens
            obey(follower, replace(order, tokens=(first + shift, *rest)))

    with mock.patch.object(Follower, "_obey", obey_others) if group.rank() else nullcontext():
        return lead(group, Held(WIDE, mode), write)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "kind", "number", "shift"),
    [
        *product(MODES, [orders.Read], [8], [1]),
        *product(MODES, [orders.Rewind], [5], [0]),
        *product(MODES, [orders.Compare], [0], [0]),
        ("tensor", orders.Read, 5, 0),  # in a pipeline both wait, until a deadline
    ],
)
def test_a_rank_that_does_something_else_ends_the_answer(mode, kind, number, shift):
    with (
        started(2) as group,
        pytest.raises(RankFailed, match=r"lost each other|OutOfStep|NotAnOrder"),
    ):
        group.call(broken, mode, kind, number, shift)
