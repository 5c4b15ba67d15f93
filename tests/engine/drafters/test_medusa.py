"""Medusa's heads draft what lies as far ahead as each of them predicts, by the law that is said."""

import json
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from engine.core.decoder import Decoder
from engine.core.model_parts import final_norm
from engine.device import GPU
from engine.drafters.medusa import MedusaDrafter, load_medusa
from engine.request import Sampling
from models.drafters.folders import describe_drafter
from tests.support.engine.backends import computing_as
from tests.support.engine.helpers import GREEDY, proposed, up_to
from tests.support.engine.medusas import medusa_network, untrained_medusa
from tests.support.engine.tiny import build, shallow

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
KEY = mx.random.key(0)
WARM = Sampling(temperature=0.8)


def by_hand(target, network, read):
    """The logits of all heads, (heads, rows), at the last of the tokens that were `read`."""
    state = target.model(mx.array([list(read)]))[0, -1:]
    return mx.concatenate([head(state) for head in network.heads])


def ready(read):
    """A target that has read so much, and its drafter."""
    target, network = Decoder(build("llama", layers=2)), medusa_network(64)
    final_norm(target.model).weight *= mx.random.uniform(0.2, 3, (64,), key=KEY)
    drafter = MedusaDrafter(target, network)
    target.read(mx.array(list(read)))
    return target, drafter, network


# Which head says what


@pytest.mark.parametrize("unread", [1, 2, 3])
def test_the_heads_go_on_where_the_target_stopped_reading(unread):
    read = TOKENS[:-unread]
    target, drafter, network = ready(read)
    (candidate,) = drafter.candidates(TOKENS)
    assert (candidate.drafter, candidate.most) == ("Medusa", 4 - unread)
    expected = mx.argmax(by_hand(target.model, network, read), axis=-1).tolist()
    assert proposed(drafter, TOKENS) == expected[unread - 1 :]
    assert proposed(drafter, TOKENS, 1) == expected[unread - 1 : unread]


def test_without_a_head_for_it_nothing_is_proposed():
    for read in ([], TOKENS[:-4]):
        target = Decoder(shallow("llama"))
        drafter = untrained_medusa(target)
        if read:
            target.read(mx.array(read))
        assert drafter.candidates(TOKENS) == ()
        assert drafter.propose(TOKENS, up_to(3), GREEDY, KEY) is None


def test_the_state_of_the_newest_token_is_not_needed():
    _, drafter, _ = ready(TOKENS)
    _, other, _ = ready(TOKENS[:-1])
    assert proposed(drafter, TOKENS) == proposed(other, TOKENS)


# Folders


def published(network, *, layers, once=False):
    """The tensors as FasterDecoding's code saves them; with `once` without repetitions."""
    tensors = {}
    for k, head in enumerate(network.heads):
        for i in range(1 if once else layers):
            tensors[f"{k}.{i}.linear.weight"] = head.blocks[0].linear.weight
            tensors[f"{k}.{i}.linear.bias"] = head.blocks[0].linear.bias
        tensors[f"{k}.{layers}.weight"] = head.output.weight
    return tensors


def folder_of(path, tensors, **said):
    path.mkdir(exist_ok=True)
    mx.save_safetensors(str(path / "medusa_lm_head.safetensors"), tensors)
    config = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": "a/b"}
    (path / "config.json").write_text(json.dumps(config | said))
    return path


@pytest.mark.parametrize(
    ("layers", "once", "prefix"), [(1, False, "medusa_head."), (2, False, ""), (2, True, "")]
)
def test_published_heads(tmp_path, layers, once, prefix):
    network = medusa_network(64, heads=4)
    tensors = published(network, layers=layers, once=once)
    folder = folder_of(
        tmp_path / "heads", {prefix + name: array for name, array in tensors.items()}
    )
    target = Decoder(shallow("llama"))
    drafter = load_medusa(describe_drafter(folder), target)
    target.read(mx.array(TOKENS[:-1]))
    state = target.model.model(mx.array([TOKENS[:-1]]))[0, -1:]
    expected = []
    for head in network.heads:  # as many as there are tensors of, whatever the config says
        x = state
        for _ in range(layers):
            x = x + mx.sigmoid(head.blocks[0].linear(x)) * head.blocks[0].linear(x)
        expected.append(int(mx.argmax(x @ head.output.weight.T).item()))
    assert proposed(drafter, TOKENS) == expected


def test_published_heads_are_held_in_8_bits(tmp_path):
    folder = folder_of(tmp_path / "heads", published(medusa_network(64), layers=1))
    with computing_as(GPU):
        held = replace(describe_drafter(folder), bits=8)
        drafter = load_medusa(held, Decoder(shallow("llama")))
    for head in drafter._heads:
        assert [layer.bits for layer in (head.blocks[0].linear, head.output)] == [8, 8]


def test_rows_of_some_tokens_are_read_by_their_map(tmp_path):
    network, kept = medusa_network(64, rows=20), mx.arange(1, 61, 3)
    tensors = published(network, layers=1) | {"d2t": kept - mx.arange(20)}
    folder = folder_of(tmp_path / "heads", tensors, draft_vocab_size=20, vocab_size=64)
    target = Decoder(shallow("llama"))
    drafter = load_medusa(describe_drafter(folder), target)
    target.read(mx.array(TOKENS[:-1]))
    draft = drafter.propose(TOKENS, up_to(3), WARM, KEY)
    assert draft.distributions is not None
    logits = by_hand(target.model, network, TOKENS[:-1])
    expected = np.zeros((3, 64))
    expected[:, kept.tolist()] = np.array(mx.softmax(logits / WARM.temperature, axis=-1))
    np.testing.assert_allclose(np.array(draft.distributions), expected, atol=1e-4)
