"""Behind a text that leaves the plain one lies rounding, or a fault."""

import mlx.core as mx
import pytest

from engine.core.forks import first_fork
from engine.exactness import Exactness, Promise
from tests.support.engine.backends import on_a_mac
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
    assert first_fork(decoder(model), plain[:2], [plain[0], 63]).at == 1  # no block is read before


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
        assert first_fork(decoder(model), plain[:2], [plain[0], 63]).at == 1
        pair = decoder(model)
        pair.promise = Promise(Exactness(4))
        exact = first_fork(pair, plain, written)
    assert (exact.allowed, exact.near_tie) == (0.0, False), "where a pair is exact nothing rounds"
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
