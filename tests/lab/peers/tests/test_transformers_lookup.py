"""A peer drafts what the other program would, and its answers stay the target's."""

from dataclasses import replace

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bench import runners
from engine.bench.options import BenchOptions
from engine.bench.runners import Workload
from engine.conversation.loading import load
from engine.draft_length import DraftCandidate, DraftChoice, Reason, Why
from engine.request import Sampling
from tests.lab.peers.transformers_lookup import (
    EveryRound,
    TransformersLookup,
    transformers_lookup,
)

END = 9


def drafted(drafter: TransformersLookup, tokens: list[int], length: int = 10) -> list[int]:
    choice = DraftChoice(length, Reason(Why.FIXED, length=length), drafter.name)
    draft = drafter.propose(tokens, choice, Sampling(), mx.random.key(0))
    return [] if draft is None else list(draft.copied)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([1, 2, 3, 4, 1, 2, 5, 6, 1, 2], [3, 4, 1, 2, 5, 6, 1, 2]),  # the first match, not the last
        ([7, 2, 5, 1, 2, 3, 1, 2], [3, 1, 2]),  # two tokens before one, though one is found earlier
        ([4, 2, 5, 1, 2], [5, 1, 2]),  # one token where two are new
        ([1, 1], [1]),
        ([1, 2, 3], []),
        ([1], []),
        ([1, 2, 3, END, 4, 1, 2], [3]),  # up to what ends a text
        ([1, 2, END, 2, 3, 1, 2], []),  # and nothing else in its stead
        ([1, 2, *range(20, 40), 1, 2], list(range(20, 30))),  # ten at most
    ],
)
def test_it_copies_what_followed_the_first_place_of_the_longest_match(
    tokens: list[int], expected: list[int]
) -> None:
    drafter = TransformersLookup(frozenset({END}))
    assert drafted(drafter, tokens) == expected
    assert [each.most for each in drafter.candidates(tokens)] == (
        [len(tokens) - tokens.index(20)] if 20 in tokens else [len(expected)] if expected else []
    )


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), st.data())
def test_a_text_that_grows_and_is_taken_back_is_drafted_for_as_a_new_one(
    tokens: list[int], data: st.DataObject
) -> None:
    drafter = TransformersLookup(frozenset({4}))
    for length in sorted(data.draw(st.sets(st.integers(1, len(tokens)), min_size=1))):
        new = TransformersLookup(frozenset({4}))
        assert drafted(drafter, tokens[:length]) == drafted(new, tokens[:length])
    kept = data.draw(st.integers(1, len(tokens)))
    drafter.rewind(kept)
    other = [*tokens[:kept], *data.draw(st.lists(st.integers(0, 4), max_size=9))]
    assert drafted(drafter, other) == drafted(TransformersLookup(frozenset({4})), other)


def test_every_round_drafts_whatever_matched_however_little_was_accepted() -> None:
    policy = EveryRound(10)
    one = DraftCandidate("transformers-lookup", 30, match=1)
    assert policy.choose([one], most=64, context=100).length == 10
    assert policy.choose([one], most=3, context=100).length == 3
    nothing = policy.choose([], most=64, context=100)
    assert (nothing.length, nothing.rounds) == (0, 1), "asked again in the next round"


def test_its_answers_are_plain_decodings(options: BenchOptions) -> None:
    target = load(options.target)
    alone = replace(options, drafters=(), lengths=())
    made = runners.make_runners(alone, target, 0.0, load, [transformers_lookup(10)])
    by_name = {each.name: each for each in made}
    workload = Workload(tuple(range(250)), 40, 0.0, seed=0)  # all that may follow
    plain = by_name[runners.PLAIN].run(workload)
    peer = by_name["slipstream transformers-lookup 10"].run(workload)

    assert peer.ids[:40] == plain.ids[:40]
    assert peer.stats.proposed > 0
    assert max(len(each.judgements) for each in peer.verdicts) <= 10
