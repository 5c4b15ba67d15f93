"""A picture's rows in a text: read as one pass over all of it would read them."""

from contextlib import ExitStack
from itertools import product
from unittest import mock

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.core.decoder import Decoder
from engine.core.model_parts import embedding, standing_in
from engine.core.sights import Sight, Turning, sights_in
from engine.device import GPU, backend
from engine.virtual_ids import virtual_ids
from engine.vision import Grid, Seen
from engine.vision.positions import axes, set_back, three_dimensional
from models.errors import Problem
from tests.support.engine import gemma4
from tests.support.engine.backends import computing_as
from tests.support.engine.tiny import shallow
from tests.support.mostly_slow import mostly_slow

GRID = Grid(0, 0, 20, 20, "", (4, 5))
BEFORE, AFTER = [5, 9, 2, 33, 7], [8, 1, 40, 3, 3, 17, 21, 60, 2, 11]
SECTIONS = {"qwen3": (4, 2, 2), "qwen3_5": (1, 1, 0)}
ARCHITECTURES = ["llama", "qwen3", "gemma3_text", "qwen3_5", "lfm2", "large", "small"]


def model_of(architecture):
    if architecture in gemma4.TARGETS:
        return gemma4.build_target(architecture)
    return shallow(architecture)


def sight_for(model, architecture, *, digest="a" * 64):
    """A picture of more rows than a window has, as the target's family reads it."""
    width = embedding(model)(mx.zeros((1,), dtype=mx.int32)).shape[-1]
    mx.random.seed(3)
    rows, deeper = (0.3 * mx.random.normal((GRID.tokens, width)) for _ in range(2))
    seen = Seen(rows, (deeper,) if architecture == "qwen3" else ())
    turning = None
    if architecture in SECTIONS:
        positions = mx.array(three_dimensional(GRID.tokens, [(0, GRID)]))
        turning = Turning(positions, SECTIONS[architecture], set_back([GRID]))
    ids = virtual_ids(digest, GRID.tokens)
    mutual, windows_only = architecture in ("gemma3_text", "large"), architecture == "large"
    return Sight(ids, lambda: seen, 1, turning, mutual, windows_only)


def turned_by(places, chosen):
    """Rotary positions by MLX, a row at a time: each pair of numbers by its own position."""

    def call(rope, x, offset=0):
        half, rows = rope.dims // 2, []
        for row in range(x.shape[2]):
            one = x[:, :, row : row + 1]
            ways = [
                mx.fast.rope(
                    *(one, rope.dims),
                    traditional=False,
                    base=rope.base,
                    scale=rope.scale,
                    offset=int(places[dimension, row].item()),
                )
                for dimension in range(3)
            ]
            which = mx.array(np.tile(axes(chosen, half), 2))
            which = mx.pad(which, [(0, x.shape[-1] - which.size)])
            rows.append(sum(mx.where(which == i, way, 0.0) for i, way in enumerate(ways)))
        return mx.concatenate(rows, axis=2)

    return call


def at_once(model, architecture, sight):
    """The logits of the whole text from one pass, with masks and positions of its own."""
    start, rows = len(BEFORE), len(sight.ids)
    behind = start + rows
    length = behind + len(AFTER)
    seen, embed = sight.look(), embedding(model)
    embedded = mx.concatenate([embed(mx.array(BEFORE)), seen.rows, embed(mx.array(AFTER))])
    inside = (mx.arange(length) >= start) & (mx.arange(length) < behind)
    both = inside[:, None] & inside[None]

    def mask(stock):
        def call(h, cache=None, window_size=None):
            places = mx.arange(length)
            visible = places[None] <= places[:, None]
            if sight.mutual and (window_size or not sight.windows_only):
                visible = visible | both
            if window_size:
                visible = visible & (places[None] > places[:, None] - window_size)
            return visible

        return call

    with ExitStack() as changed:
        changed.enter_context(standing_in(model, {"create_attention_mask": mask}))
        if sight.turning is not None:
            places = mx.array(three_dimensional(length, [(start, GRID)]))
            call = turned_by(places, sight.turning.sections)
            kinds = {
                type(part["rope"])
                for layer in model.layers
                for part in layer.values()
                if isinstance(part, nn.Module) and "rope" in part
            }
            for kind in kinds:
                changed.enter_context(mock.patch.object(kind, "__call__", call))
        layer = model.layers[0]
        if seen.deeper:
            more = mx.zeros((length, embedded.shape[-1]))
            more[start:behind] = seen.deeper[0]
            kind = type(layer)
            own = kind.__call__

            def deeper(module, *arguments, **options):
                made = own(module, *arguments, **options)
                return made + more[None] if module is layer else made

            changed.enter_context(mock.patch.object(kind, "__call__", deeper))
        ids = mx.array([[*BEFORE, *[sight.token] * rows, *AFTER]])
        logits = model(ids, input_embeddings=embedded[None])[0]
        mx.eval(logits)
    return logits


@pytest.mark.parametrize(
    ("architecture", "as_on_a_mac"),
    mostly_slow(
        product(ARCHITECTURES, [False, True]),
        quick=[("qwen3", False), ("gemma3_text", False), ("qwen3_5", True), ("large", True)],
    ),
)
def test_rows_are_read_as_one_pass_over_the_text_reads_them(architecture, as_on_a_mac):
    model = model_of(architecture)
    sight = sight_for(model, architecture)
    expected = at_once(model, architecture, sight)
    with computing_as(GPU if as_on_a_mac else backend()):
        decoder = Decoder(model, block=16, sights={sight.ids[0]: sight})
        tokens = [*BEFORE, *sight.ids, *AFTER]
        ends = list(decoder.prefill(tokens[: -len(AFTER)] + AFTER[:1]))
        assert ends == [len(BEFORE), len(BEFORE) + len(sight.ids)]
        read, expected = decoder.read(mx.array(AFTER)), expected[-len(AFTER) :]
    apart = mx.max(mx.abs(read - expected)) / mx.max(mx.abs(expected))
    assert float(apart) < 1e-4, float(apart)


def test_only_whole_pictures_are_known_and_read():
    model = shallow("llama")
    one, other = (sight_for(model, "llama", digest=digit * 64) for digit in "ab")
    sights = {each.ids[0]: each for each in (one, other)}
    tokens = [1, *one.ids, 2, *other.ids[:-1], 3, *one.ids, *other.ids]
    assert sights_in(tokens, sights) == [(1, one), (42, one), (62, other)]
    assert sights_in(tokens, {}) == []
    decoder = Decoder(model, sights=sights)
    with pytest.raises(Problem):
        list(decoder.prefill(tokens))
    assert decoder.length == 21
    decoder.rewind(4)  # what is read in part is taken back
    assert list(decoder.prefill([1, *one.ids, 2])) == [21]
