"""The drafters' side of the protocol, each alone: what they propose, and that they say so truly."""

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache

from engine.core.decoder import Decoder
from engine.core.sampling import distribution, scores
from engine.drafters import DrafterRefused
from engine.drafters.chain import DraftRequest, draft_chain
from engine.drafters.early_exit import EarlyExitDrafter, first_layers
from engine.drafters.model import ModelDrafter
from engine.drafters.rows import Rows
from engine.request import Sampling
from models.errors import Problem
from tests.support.engine.helpers import up_to
from tests.support.engine.markov import Markov, random_table
from tests.support.engine.tiny import ARCHITECTURES, build, shallow
from tests.support.mostly_slow import mostly_slow

KEY = mx.random.key(0)
GREEDY = Sampling()
WARM = Sampling(temperature=0.8)


def propose(drafter, tokens, limit, sampling=GREEDY):
    """The proposed ids, after a look at the proposal's form."""
    proposal = drafter.propose(tokens, up_to(limit), sampling, KEY)
    if proposal is None:
        return None
    n = proposal.tokens.size
    assert 1 <= n <= limit
    assert proposal.tokens.shape == proposal.q.shape == (n,)
    assert proposal.tokens.dtype == mx.int32
    assert proposal.q.dtype == mx.float32
    assert all(0.0 < q <= 1.0 + 1e-6 for q in proposal.q.tolist())
    if proposal.distributions is not None:
        assert proposal.distributions.shape[0] == n
        drawn = mx.take_along_axis(proposal.distributions, proposal.tokens[:, None], axis=1)
        assert drawn[:, 0].tolist() == proposal.q.tolist()
        sums = mx.sum(proposal.distributions, axis=1).tolist()
        assert sums == pytest.approx([1.0] * n, abs=1e-5)
    ids = proposal.tokens.tolist()
    return ids


# --- chain


def test_chain_reads_each_token_once_and_the_last_not_at_all():
    table = random_table(5)
    model = Markov(table)
    cache, read = [KVCache()], []

    def reading(tokens):
        read.extend(tokens.tolist())
        return model(tokens[None], cache=cache)[0]

    proposal = draft_chain(
        reading,
        DraftRequest([1, 2, 3], up_to(4), GREEDY, KEY, Rows(5), "x"),
        unread=[1, 2, 3],
    )

    text = [2, 3]
    for _ in range(4):
        text.append(int(mx.argmax(table[text[-2], text[-1]])))
    assert proposal.tokens.tolist() == text[2:]
    assert read == [1, 2, 3, *text[2:-1]]
    assert proposal.distributions is None  # not looked at in greedy decoding
    softmax = [
        mx.softmax(table[a, b])[c] for a, b, c in zip(text, text[1:], text[2:], strict=False)
    ]
    assert proposal.q.tolist() == pytest.approx([float(p) for p in softmax], rel=1e-5)


# --- model


@pytest.mark.parametrize(
    "architecture", mostly_slow(ARCHITECTURES, quick=["gemma3_text", "qwen3_5"])
)
def test_model_drafts_what_it_would_write(architecture):
    model = shallow(architecture)
    drafter = ModelDrafter(Decoder(model), vocabulary=64)
    prompt = list(range(1, 20))
    assert list(drafter.prepare(prompt))[-1] == len(prompt) - 1
    tokens = list(prompt)
    stood = [2, 0, 4, 1, 3, 0, 4]  # of 4 drafted

    for accepted in stood:
        fresh = ModelDrafter(Decoder(model), vocabulary=64)
        guess = propose(drafter, tokens, 4)
        assert guess is not None
        assert guess == propose(fresh, tokens, 4)
        drafter.accept(range(accepted))
        tokens += [*guess[:accepted], (guess[min(accepted, 3)] + 1) % 64]
    drafter.rewind(len(prompt) + 3)
    tokens[len(prompt) + 3 :] = [7]  # the text went on otherwise
    assert propose(drafter, tokens, 4) == propose(
        ModelDrafter(Decoder(model), vocabulary=64), tokens, 4
    )


def test_model_never_reads_an_id_that_it_does_not_have():
    class Watched(Markov):
        largest = 0

        def __call__(self, tokens, cache=None):
            self.largest = max(self.largest, int(mx.max(tokens)))
            return super().__call__(tokens, cache)

    model = Watched(random_table(4)[:, :, :3])  # knows 4 tokens, proposes 3
    drafter = ModelDrafter(Decoder(model), vocabulary=9)
    tokens = [8, 1, 5, 7]

    for _ in drafter.prepare(tokens):
        pass
    proposed = propose(drafter, tokens, 3)

    assert proposed is not None
    assert set(proposed) <= {0, 1, 2}
    assert model.largest < 4


# --- early exit


@pytest.mark.parametrize(
    ("architecture", "layers"),
    mostly_slow(
        [("llama", 3), ("qwen2", 2), ("qwen3", 2), ("gemma3_text", 2), ("mamba", 1)],
        quick=[("gemma3_text", 2), ("mamba", 1)],
    ),
)
def test_early_exit_drafts_what_the_first_layers_would_write(architecture, layers):
    model = build(architecture)
    target = Decoder(model)
    drafter = EarlyExitDrafter(target, layers=layers)
    shallow = first_layers(model, layers)
    tokens = list(range(1, 30))
    for _ in target.prefill(tokens):
        pass
    before = target.length

    proposal = drafter.propose(tokens, up_to(4), WARM, KEY)

    assert proposal.distributions is not None
    drafted = proposal.tokens.tolist()
    logits = shallow(mx.array([[*tokens, *drafted[:-1]]]), cache=None)[0, -4:]
    expected = distribution(scores(logits, None, WARM), WARM)
    np.testing.assert_allclose(proposal.distributions, expected, atol=2e-3)
    # It leaves no trace in the target.
    assert target.length == before
    fresh = Decoder(model)
    for _ in fresh.prefill(tokens):
        pass
    unread = mx.array(tokens[before:])
    assert mx.array_equal(target.read(unread), fresh.read(unread))


def test_early_exit_after_no_or_all_layers_is_refused():
    target = Decoder(build("llama"))
    for layers in (0, -1, 4, 9):
        with pytest.raises(Problem, match="4 layers"):
            EarlyExitDrafter(target, layers=layers)


def test_early_exit_is_refused_where_the_first_layers_cannot_run_alone():
    # Gemma makes one mask for all global layers, from the first of them.
    with pytest.raises(DrafterRefused, match=" 1 layers") as problem:
        EarlyExitDrafter(Decoder(build("gemma3_text")), layers=1)
    assert "more layers" in problem.value.remedy
