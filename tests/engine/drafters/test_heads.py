"""Heads, ours and Medusa's: what their networks say, and that their folders are read back as they
were written."""

import json
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_map

from engine.core.decoder import Decoder
from engine.core.model_parts import embedding, final_norm
from engine.device import GPU
from engine.drafters.head_network import HeadShape, load_head, new_head, save_head, shape_for
from engine.drafters.medusa import MedusaDrafter, MedusaHeads, load_medusa
from engine.request import Sampling
from models.drafters.folders import describe_drafter
from models.drafters.medusa import MedusaShape
from tests.support.engine.backends import computing_as
from tests.support.engine.heads import untrained
from tests.support.engine.helpers import proposed, up_to
from tests.support.engine.tiny import build, shallow

FINGERPRINT = "0123456789abcdef"
VOCABULARY = 64


def read(folder):
    return load_head(
        describe_drafter(folder), fingerprint=FINGERPRINT, vocabulary=VOCABULARY, like=mx.float32
    )


def logits(bound, seed=0):
    width, layers = bound.shape.hidden_size, len(bound.shape.layers)
    states = mx.random.normal((1, 5, layers, width), key=mx.random.key(seed))
    embeddings = mx.random.normal((1, 5, width), key=mx.random.key(seed + 1))
    state = bound.head(bound.head.begin(states), embeddings, "causal")
    return bound.head.logits(bound.head(bound.head.go_on(state), embeddings, "causal"))


@pytest.mark.parametrize("bits", [None, 4])
def test_a_new_head_begins_with_the_targets_output_rows(bits):
    model = build("llama", vocabulary=VOCABULARY, bits=bits)
    bound = new_head(model, shape_for(model, rows=3), mx.array([5, 1, 60]))
    states = mx.random.normal((4, bound.shape.hidden_size))
    assert mx.allclose(
        states @ bound.head.output.weight.T,
        model.lm_head(states)[:, mx.array([5, 1, 60])],
        atol=1e-3,
    )
    model.model.layers = model.model.layers[:1]
    assert shape_for(model, rows=8).layers == (1,)  # different ones even in a shallow model


def odd():
    """One whose matrices are not all of whole groups."""
    shape = HeadShape(64, (1,), 8, 4, 4, 16, 172, 1e-5, 1e4)
    return new_head(build("llama"), shape, mx.arange(8))


def borrowing():
    bound = untrained(build("llama", vocabulary=VOCABULARY, layers=2))
    bound.head.moved = mx.arange(bound.shape.hidden_size, dtype=mx.float32)
    return bound


def without_moved():
    """As heads were that learned before they borrowed."""
    bound = borrowing()
    del bound.head.moved
    return bound


@pytest.mark.parametrize(
    ("make", "down"),
    [(borrowing, mx.uint32), (without_moved, mx.uint32), (odd, mx.float16)],
    ids=["borrows", "does not", "odd"],
)
def test_eight_bits_say_nearly_the_same(make, down, tmp_path):
    bound = make()
    before = {name: mx.array(array) for name, array in tree_flatten(bound.head.parameters())}
    save_head(bound, tmp_path / "x", target="tiny", fingerprint=FINGERPRINT)
    after = dict(tree_flatten(bound.head.parameters()))
    assert before.keys() == after.keys()
    assert all(mx.array_equal(before[name], after[name]) for name in before)
    stored = mx.load(str(tmp_path / "x" / "head.safetensors"))
    assert stored["fuse.weight"].dtype == mx.uint32
    assert stored["block.mlp.down_proj.weight"].dtype == down

    loaded = read(tmp_path / "x")

    assert loaded.shape == bound.shape
    assert loaded.kept.tolist() == bound.kept.tolist()
    assert loaded.head.borrows == bound.head.borrows == (make is not without_moved)
    if loaded.head.borrows:
        assert mx.array_equal(loaded.head.moved, bound.head.moved)
    exact, rounded = logits(bound), logits(loaded)
    assert mx.abs(exact - rounded).max() < 0.05 * mx.abs(exact).max()


@pytest.mark.cpu
def test_on_the_cpu_a_head_becomes_float32(tmp_path):
    """Quantized products there cost as much for every row, and more than exact ones."""
    folder = tmp_path / "drafter"
    save_head(borrowing(), folder, target="tiny", fingerprint=FINGERPRINT)
    parameters = dict(tree_flatten(read(folder).head.parameters()))
    assert {array.dtype for array in parameters.values()} == {mx.float32}


# --- Medusa's heads draft what lies as far ahead as each predicts, by the law that is said


def medusa_network(width, *, heads=3, rows=64, seed=7):
    """Heads whose residual layers change something, for targets of `tests.support.engine.tiny`."""
    network = MedusaHeads(MedusaShape(width, heads, 1, rows))
    keys = iter(mx.random.split(mx.random.key(seed), 8 * heads))
    network.update(
        tree_map(
            lambda weight: 0.1 * mx.random.normal(weight.shape, key=next(keys)),
            network.parameters(),
        )
    )
    mx.eval(network.parameters())
    return network


def write_medusa(folder, network, *, layers=1, once=False, prefix="", d2t=None, **said):
    """Write heads as FasterDecoding's code saves them; with `once` without repetitions. `said`:
    other entries of config.json."""
    tensors = {}
    for k, head in enumerate(network.heads):
        for i in range(1 if once else layers):
            tensors[f"{prefix}{k}.{i}.linear.weight"] = head.blocks[0].linear.weight
            tensors[f"{prefix}{k}.{i}.linear.bias"] = head.blocks[0].linear.bias
        tensors[f"{prefix}{k}.{layers}.weight"] = head.output.weight
    folder.mkdir(exist_ok=True)
    if d2t is not None:
        tensors["d2t"] = d2t
    mx.save_safetensors(str(folder / "medusa_lm_head.safetensors"), tensors)
    config = {"medusa_num_heads": 3, "medusa_num_layers": 1, "base_model_name_or_path": "a/b"}
    (folder / "config.json").write_text(json.dumps(config | said))
    return folder


def untrained_medusa(target, *, heads=3, seed=7):
    """Drafts with such heads."""
    width = embedding(target.model)(mx.zeros((1,), dtype=mx.int32)).shape[-1]
    network = medusa_network(width, heads=heads, rows=target.vocabulary, seed=seed)
    return MedusaDrafter(target, network)


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


@pytest.mark.parametrize("unread", [1, 2, 3])
def test_the_heads_go_on_where_the_target_stopped_reading(unread):
    read = TOKENS[:-unread]
    target, drafter, network = ready(read)
    (candidate,) = drafter.candidates(TOKENS)
    assert (candidate.drafter, candidate.most) == ("Medusa", 4 - unread)
    expected = mx.argmax(by_hand(target.model, network, read), axis=-1).tolist()
    assert proposed(drafter, TOKENS) == expected[unread - 1 :]
    assert proposed(drafter, TOKENS, 1) == expected[unread - 1 : unread]
    if unread == 1:  # the state of the newest token is not needed
        target.read(mx.array(TOKENS[-1:]))
        assert proposed(drafter, TOKENS) == expected


@pytest.mark.parametrize(
    ("layers", "once", "prefix"), [(1, False, "medusa_head."), (2, False, ""), (2, True, "")]
)
def test_published_heads(tmp_path, layers, once, prefix):
    network, target = medusa_network(64, heads=4), Decoder(shallow("llama"))
    folder = write_medusa(tmp_path, network, layers=layers, once=once, prefix=prefix)
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
    with computing_as(GPU):
        held = replace(describe_drafter(folder), bits=8)
        drafter = load_medusa(held, Decoder(shallow("llama")))
    for head in drafter._heads:
        assert [layer.bits for layer in (head.blocks[0].linear, head.output)] == [8, 8]


def test_rows_of_some_tokens_are_read_by_their_map(tmp_path):
    network, kept = medusa_network(64, rows=20), mx.arange(1, 61, 3)
    sizes = {"draft_vocab_size": 20, "vocab_size": 64}
    folder = write_medusa(tmp_path, network, d2t=kept - mx.arange(20), **sizes)
    target = Decoder(shallow("llama"))
    drafter = load_medusa(describe_drafter(folder), target)
    target.read(mx.array(TOKENS[:-1]))
    draft = drafter.propose(TOKENS, up_to(3), WARM, KEY)
    logits = by_hand(target.model, network, TOKENS[:-1])
    expected = np.zeros((3, 64))
    expected[:, kept.tolist()] = np.array(mx.softmax(logits / WARM.temperature, axis=-1))
    np.testing.assert_allclose(np.array(draft.distributions), expected, atol=1e-4)
