"""A head's network and its folder: what is written is read back, and nothing else is taken."""

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from engine.drafters.head_network import HeadShape, load_head, new_head, save_head, shape_for
from models.drafters.folders import describe_drafter
from tests.support.engine.heads import untrained
from tests.support.engine.tiny import build

FINGERPRINT = "0123456789abcdef"
VOCABULARY = 64


@pytest.fixture
def bound():
    return untrained(build("llama", vocabulary=VOCABULARY, layers=2))


@pytest.fixture
def folder(bound, tmp_path):
    save_head(bound, tmp_path / "drafter", target="tiny", fingerprint=FINGERPRINT)
    return tmp_path / "drafter"


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


def assert_nearly_the_same(one, other):
    exact, rounded = logits(one), logits(other)
    assert mx.abs(exact - rounded).max() < 0.05 * mx.abs(exact).max()


def test_layers_are_different_ones_even_in_a_shallow_model():
    model = build("llama")
    model.model.layers = model.model.layers[:1]
    assert shape_for(model, rows=8).layers == (1,)


@pytest.mark.parametrize("bits", [None, 4])
def test_a_new_head_begins_with_the_targets_output_rows(bits):
    model = build("llama", vocabulary=VOCABULARY, **({} if bits is None else {"bits": bits}))
    bound = new_head(model, shape_for(model, rows=3), mx.array([5, 1, 60]))
    states = mx.random.normal((4, bound.shape.hidden_size))
    assert mx.allclose(
        states @ bound.head.output.weight.T,
        model.lm_head(states)[:, mx.array([5, 1, 60])],
        atol=1e-3,
    )


def test_eight_bits_say_nearly_the_same(bound, folder):
    loaded = read(folder)
    assert loaded.shape == bound.shape
    assert loaded.kept.tolist() == bound.kept.tolist()
    assert_nearly_the_same(bound, loaded)


@pytest.mark.parametrize("borrows", [True, False])
def test_whether_it_borrows_is_kept(bound, tmp_path, borrows):
    bound.head.moved = mx.arange(bound.shape.hidden_size, dtype=mx.float32)
    if not borrows:  # as heads were that learned without it
        del bound.head.moved
    save_head(bound, tmp_path / "x", target="tiny", fingerprint=FINGERPRINT)
    loaded = read(tmp_path / "x").head
    assert loaded.borrows == borrows
    if borrows:
        assert mx.array_equal(loaded.moved, bound.head.moved)


@pytest.mark.cpu
def test_on_the_cpu_a_head_becomes_float32(folder):
    """Quantized products there cost as much for every row, and more than exact ones."""
    parameters = dict(tree_flatten(read(folder).head.parameters()))
    assert {array.dtype for array in parameters.values()} == {mx.float32}


def test_matrices_that_are_no_whole_groups_stay_sixteen_bit(tmp_path):
    shape = HeadShape(64, (1,), 8, 4, 4, 16, 172, 1e-5, 1e4)
    bound = new_head(build("llama"), shape, mx.arange(8))
    save_head(bound, tmp_path / "odd", target="tiny", fingerprint=FINGERPRINT)
    loaded = read(tmp_path / "odd")
    stored = mx.load(str(tmp_path / "odd" / "head.safetensors"))
    assert stored["fuse.weight"].dtype == mx.uint32
    assert stored["block.mlp.down_proj.weight"].dtype == mx.float16
    assert_nearly_the_same(bound, loaded)


def test_saving_leaves_the_head_as_it_is(bound, tmp_path):
    before = {name: mx.array(array) for name, array in tree_flatten(bound.head.parameters())}
    save_head(bound, tmp_path / "x", target="tiny", fingerprint=FINGERPRINT)
    after = dict(tree_flatten(bound.head.parameters()))
    assert before.keys() == after.keys()
    assert all(mx.array_equal(before[name], after[name]) for name in before)
