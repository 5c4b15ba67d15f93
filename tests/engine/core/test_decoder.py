"""A model that reads tokens and takes them back, in whatever pieces, through errors too."""

from itertools import pairwise, product
from unittest import mock

import mlx.core as mx
import pytest

from engine.core.decoder import Decoder
from engine.device import GPU
from models.limits import ROUND_ROWS
from tests.support.engine.backends import computing_as
from tests.support.engine.helpers import QUANTIZED, assert_as_fresh, build_wide, decoder
from tests.support.engine.tiny import ARCHITECTURES, shallow
from tests.support.mostly_slow import mostly_slow

RECURRENT = ("qwen3_5", "lfm2", "mamba")
MIXED = ("gemma3_text", "qwen3_5")  # windows, and recurrent layers, with full attention between
TOKENS = mx.random.randint(0, 64, (200,), key=mx.random.key(3)).tolist()


def fail_once(of, tokens, layer, *, afterwards):
    """A pass in which `layer` fails, before or after it has read, and later ones have not read."""
    failing = of.model.layers[layer]
    kind = type(failing)
    whole = kind.__call__

    def call(self, *inputs, **options):
        if self is not failing or afterwards:
            output = whole(self, *inputs, **options)
        if self is failing:
            raise InterruptedError
        return output

    with mock.patch.object(kind, "__call__", call), pytest.raises(InterruptedError):
        of.read(mx.array(tokens))


def prefill(of, count):
    return list(of.prefill(TOKENS[: count + 1]))


@pytest.mark.parametrize(
    ("architecture", "afterwards", "marked"),
    mostly_slow(
        [*product(ARCHITECTURES, [False, True], [True]), *product(RECURRENT, [True], [False])],
        quick=[("gemma3_text", False, True), ("qwen3_5", True, True), ("qwen3_5", True, False)],
    ),
)
def test_error_in_the_middle_of_a_pass_leaves_no_trace(architecture, afterwards, marked):
    """Without a mark it costs reading again."""
    model = shallow(architecture)
    for layer, length in product(range(len(model.layers)), (0, 13, 41)):
        reader = decoder(model)
        prefill(reader, length)
        if marked:
            reader.timeline.mark()
        rows = min(4, reader.timeline.room())
        fail_once(reader, [1, 2, 3, 4][:rows], layer, afterwards=afterwards)
        assert reader.length == (length if marked else 0)
        assert_as_fresh(reader, TOKENS, decoder(model))


def test_prefill_goes_in_chunks_that_can_be_cancelled_between():
    reader = Decoder(shallow("llama"))
    steps = reader.prefill([1] * 1200)
    first = next(steps)
    steps.close()
    assert reader.length == first <= 512
    rest = list(reader.prefill([1] * 1200))
    assert rest[-1] == 1199
    assert all(b - a <= 512 for a, b in pairwise([first, *rest]))


@pytest.mark.cpu
def test_on_a_slow_cpu_a_chunk_is_so_small_that_it_is_read_in_about_a_second(monkeypatch):
    seconds_per_token, now = 0.04, 0.0
    reader = Decoder(shallow("llama"))

    def read(tokens):
        nonlocal now
        now += seconds_per_token * tokens.size
        return Decoder.read(reader, tokens)

    monkeypatch.setattr(reader, "read", read)
    monkeypatch.setattr("engine.core.decoder.perf_counter", lambda: now)
    ends = [0, *reader.prefill([1] * 600)]
    assert ends[-1] == 599
    chunks = [b - a for a, b in pairwise(ends)]
    assert all(seconds_per_token * chunk <= 1.3 for chunk in chunks[1:])
    seconds_per_token = 0.0001
    reader.rewind(0)
    ends = [0, *reader.prefill([1] * 600)]
    assert max(b - a for a, b in pairwise(ends)) == reader.timeline.layers[0].block


@pytest.mark.parametrize("architecture", mostly_slow(ARCHITECTURES, quick=[*MIXED, "mamba"]))
def test_settle_leaves_room_for_what_it_says(architecture):
    model = shallow(architecture)
    for unread in (1, 5, 9, 30):
        reader = decoder(model)
        prefill(reader, 40)
        tokens = TOKENS[: 40 + unread]

        room = reader.begin_round(tokens)

        left = len(tokens) - reader.length
        assert 1 <= left <= min(8, unread)
        assert 0 <= room == min(reader.timeline.room(), ROUND_ROWS) - left
        start = reader.length
        reader.read(mx.array([*tokens[start:], *([0] * min(room, 10))]))
        reader.rewind(len(tokens) - 1)
        assert reader.length >= min(start, len(tokens) - 1), "it was not marked"
        assert_as_fresh(reader, TOKENS, decoder(model))


@pytest.mark.parametrize(
    "quantized", [None, pytest.param(QUANTIZED, marks=pytest.mark.slow)], ids=["whole", "quantized"]
)
def test_what_is_cut_from_a_copy_takes_no_memory(quantized):
    """A long conversation is kept, and a short one that begins like it is read beside it. To copy
    asks the model for nothing: a passing question would wait for it."""
    model, tokens = build_wide("llama"), TOKENS * 4
    with computing_as(GPU):
        long = Decoder(model, quantized=quantized)
        list(long.prefill(tokens[:600]))
        with mock.patch.object(type(model), "__call__", side_effect=AssertionError):
            short, _ = long.copy()
        assert (short.vocabulary, short.depth) == (long.vocabulary, long.depth)
        short.rewind(100)
        list(short.prefill(tokens[:120]))
        assert short.timeline.nbytes <= long.timeline.nbytes / 2
        list(long.prefill(tokens))
        for reader in (short, long):
            assert_as_fresh(reader, tokens, Decoder(model, quantized=quantized))
