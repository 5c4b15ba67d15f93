"""Behind a text that leaves the plain one lies rounding, or a fault."""

import mlx.core as mx
import pytest

from engine.core.decoder import Decoder
from engine.core.forks import first_fork
from engine.device import CPU, GPU
from engine.exactness import Exactness, Promise
from tests.support.engine.backends import computing_as, on_a_mac
from tests.support.engine.helpers import PROMPT, decoder, plainly
from tests.support.engine.tiny import build

COUNT = 12


@pytest.mark.parametrize("architecture", ["llama", "gemma3_text", "qwen3_5"])
def test_where_rows_are_exact_any_difference_is_a_fault(architecture):
    model = build(architecture, layers=2)
    plain = [*PROMPT, *plainly(model, count=COUNT)]
    reader, at = decoder(model), len(PROMPT) + 5
    assert first_fork(reader, plain, plain) is None
    assert first_fork(reader, plain, plain[:-1]) is None
    written = [*plain[:at], (plain[at] + 1) % 60, *plain[at + 1 :]]
    fork = first_fork(reader, plain, written)
    assert (fork.at, fork.plain, fork.written) == (at, plain[at], written[at])
    assert fork.margin > 0.0 == fork.allowed
    assert not fork.near_tie
    assert reader.length <= at


def test_what_is_allowed_is_what_rows_round_there():
    model = build("llama", layers=2)
    plain = [*PROMPT, *plainly(model, count=COUNT)]
    at = len(PROMPT) + 5
    written = [*plain[:at], (plain[at] + 1) % 60]
    with on_a_mac():
        fork = first_fork(decoder(model), plain, written)
        single, block = decoder(model), decoder(model)
        for token in plain[:at]:
            logits = single.read(mx.array([token]))[-1]
        apart = mx.max(mx.abs(block.read(mx.array(plain[:at]))[-1] - logits))
    assert 0.5 * apart.item() < fork.allowed < 8 * apart.item()
    margin = mx.abs(logits[plain[at]] - logits[written[at]]).item()
    assert fork.margin == pytest.approx(margin, abs=fork.allowed)


def test_a_better_token_that_a_grammar_forbids_does_not_turn_a_near_tie_into_a_fault():
    model = build("llama", layers=2)
    with on_a_mac():
        *_, written, plain, best = mx.argsort(decoder(model).read(mx.array(PROMPT))[-1]).tolist()
        fork = first_fork(decoder(model), [*PROMPT, plain], [*PROMPT, written])
        above = first_fork(decoder(model), [*PROMPT, best], [*PROMPT, plain])
        whole = first_fork(decoder(model), [*PROMPT, best], [*PROMPT, written])
    assert fork.margin == pytest.approx(whole.margin - above.margin, abs=1e-5)


@pytest.mark.parametrize("exact", [True, False])
def test_a_fork_at_once(exact):
    """Behind a prompt of one token there is no block to be read."""
    model = build("llama", layers=1)
    with computing_as(CPU if exact else GPU):
        fork = first_fork(Decoder(model), [3, 5, 7], [3, 6, 7])
    assert fork.at == 1


def test_rounding_explains_nothing_where_a_pair_is_exact():
    model = build("llama", layers=2)
    plain = [*PROMPT, *plainly(model, count=COUNT)]
    reader = decoder(model)
    reader.promise = Promise(Exactness(4))
    with on_a_mac():
        fork = first_fork(reader, plain, [*plain[:-1], (plain[-1] + 1) % 60])
    assert (fork.allowed, fork.near_tie) == (0.0, False)
