"""A timeline of caches that goes forward and back is what reading its tokens afresh would be."""

import functools
from contextlib import suppress
from itertools import product

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import QuantizedKVCache

from engine.core.cache import AlignedCache
from engine.device import GPU, backend
from engine.drafters.early_exit import first_layers
from tests.support.engine.backends import computing_as
from tests.support.engine.helpers import BLOCK, QUANTIZED, assert_as_fresh, build_wide, decoder
from tests.support.engine.tiny import ARCHITECTURES, build, shallow
from tests.support.mostly_slow import examples, mostly_slow

CUTTABLE = ("llama", "qwen2", "qwen3")
RECURRENT = ("qwen3_5", "lfm2", "mamba")
FORGETFUL = ("gemma3_text", *RECURRENT)

# What can happen to a timeline: (what, how much), more or less as often as in a conversation.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(1, 20)),
        st.tuples(st.just("rewind"), st.integers(0, 12)),
        st.tuples(st.just("rewind to"), st.integers(0, 40)),
        st.tuples(st.just("mark"), st.just(0)),
        st.tuples(st.just("bookmark"), st.just(0)),
        st.tuples(st.just("borrow"), st.integers(1, 9)),
    ),
    min_size=4,
    max_size=14,
)


class Journey:
    """A decoder that goes forward and back, and the tokens that it should have read."""

    def __init__(self, model, quantized):
        self.model, self.quantized = model, quantized
        self.decoder = decoder(model, quantized=quantized)
        self.tokens = []
        self._key = mx.random.key(0)

    def step(self, what, amount):
        match what:
            case "read":
                self._read(self._new(amount))
            case "rewind":
                self._rewind(max(0, self.decoder.length - amount))
            case "rewind to":
                self._rewind(min(amount, self.decoder.length))
            case "mark":
                self.decoder.timeline.mark()
            case "bookmark":
                self.decoder.timeline.bookmark()
            case "borrow":
                self._borrow(self._new(amount), fails=amount % 2)

    def check(self):
        assert self.decoder.length == len(self.tokens)
        fresh = decoder(self.model, quantized=self.quantized)
        assert_as_fresh(self.decoder, self.tokens, fresh)

    def _new(self, amount):
        self._key, key = mx.random.split(self._key)
        return mx.random.randint(0, 64, (min(amount, self.decoder.timeline.room()),), key=key)

    def _read(self, tokens):
        self.decoder.read(tokens)
        self.tokens += tokens.tolist()

    def _rewind(self, length):
        before = self.decoder.length
        self.decoder.rewind(length)
        assert self.decoder.length <= length
        if length == before:
            assert self.decoder.length == before
        self.tokens = self.tokens[: self.decoder.length]

    def _borrow(self, tokens, *, fails):
        for count in (2, len(self.decoder.timeline.layers)):
            model = first_layers(self.model, count)
            with suppress(InterruptedError), self.decoder.timeline.borrow(count) as caches:
                for half in (tokens[: tokens.size // 2], tokens[tokens.size // 2 :]):
                    if half.size:
                        mx.eval(model(half[None], cache=caches))
                if fails:
                    raise InterruptedError


model_of, wide = functools.cache(build), functools.cache(build_wide)
WIDE = ("llama", "gemma3_text", "qwen3_5", "lfm2")
journeys = settings(
    max_examples=examples(50),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


CPUS, MACS, QUANTIZED_CACHES = "a CPU's", "a Mac's", "quantized"


@pytest.mark.parametrize(
    ("architecture", "caches"),
    mostly_slow(
        [
            *product(ARCHITECTURES, [CPUS]),
            *product(WIDE, [QUANTIZED_CACHES]),
            *product(FORGETFUL, [MACS]),  # where a pass may cross the steps of a window
        ],
        quick=[*product(["gemma3_text"], [CPUS, QUANTIZED_CACHES, MACS])],
    ),
)
@journeys
@given(STEPS)
def test_any_journey_ends_as_a_fresh_replay(architecture, caches, steps):
    model, quantized = shallow(architecture), None
    if caches == QUANTIZED_CACHES:
        model, quantized = wide(architecture, layers=len(model.layers)), QUANTIZED
    with computing_as(GPU if caches == MACS else backend()):
        journey = Journey(model, quantized)
        for what, amount in [*steps, ("rewind", 0)]:
            journey.step(what, amount)
            if what not in ("read", "mark", "bookmark"):  # which the next step shows
                journey.check()


@pytest.mark.parametrize("length", [15, 30, 40])
def test_a_round_on_a_mac_drops_nothing_of_a_window(length):
    """Its passes cross a step one by one, as an early exit's and a drafting model's do."""
    with computing_as(GPU):
        journey = Journey(model_of("gemma3_text"), None)
        journey.step("read", length)
        with journey.decoder.timeline.borrow(2) as caches:
            for token in range(BLOCK + 4):
                mx.eval(first_layers(journey.model, 2)(mx.array([[token]]), cache=caches))
        journey.check()
        journey.step("mark", 0)
        for _ in range(BLOCK + 4):
            journey.step("read", 1)
        journey.step("rewind to", length)
        assert journey.decoder.length == length
        journey.check()


def read(reader, count):
    list(reader.prefill([(7 * i) % 64 for i in range(reader.length + count + 1)]))


def test_full_attention_is_cut_anywhere():
    """And keeps no marks."""
    for architecture in CUTTABLE:
        reader = decoder(model_of(architecture))
        assert reader.timeline.nbytes == 0
        read(reader, 30)
        per_token = 4 * 2 * 2 * 16 * 4  # layers, keys and values, heads, numbers, bytes of each
        spare = BLOCK if backend().exact_rows else 256
        assert 30 * per_token <= reader.timeline.nbytes <= (30 + spare) * per_token
        reader.timeline.mark()
        reader.timeline.bookmark()
        assert reader.timeline._bookmarks == []
        assert reader.timeline._round is None
        reader.rewind(32)
        for length in (30, 29, 11, 1, 0):
            reader.rewind(length)
            assert reader.length == length


@pytest.mark.parametrize("architecture", RECURRENT)
def test_recurrent_state_goes_back_to_the_newest_mark_or_into_the_round(architecture):
    reader = decoder(model_of(architecture))
    read(reader, 10)
    reader.timeline.bookmark()
    read(reader, 10)
    reader.timeline.mark()
    read(reader, 5)

    for length in (24, 23, 20):
        reader.rewind(length)
        assert reader.length == length
    reader.rewind(19)
    assert reader.length == 10
    reader.rewind(9)
    assert reader.length == 0


@pytest.mark.cpu
def test_window_is_cut_as_far_as_it_remembers():
    reader = decoder(model_of("gemma3_text"))
    read(reader, 50)
    floor = max(layer.floor for layer in reader.timeline.layers if isinstance(layer, AlignedCache))
    assert 50 - 16 - BLOCK < floor < 50
    reader.rewind(floor)
    assert reader.length == floor
    reader.rewind(floor - 1)
    assert reader.length == 0


@pytest.mark.parametrize("architecture", mostly_slow(FORGETFUL, quick=["gemma3_text", "qwen3_5"]))
def test_last_four_bookmarks_are_kept(architecture):
    """With many rounds between, each with a mark of its own."""
    reader = decoder(model_of(architecture))
    for turn in range(1, 7):
        read(reader, 40 * turn - reader.length)
        reader.timeline.bookmark()
        for _ in range(4):
            reader.timeline.mark()
            read(reader, 2)

    for turn in (6, 5, 4, 3):
        reader.rewind(40 * turn)
        assert reader.length == 40 * turn


@pytest.mark.parametrize("keep", ["mark", "bookmark"])
def test_marks_that_were_passed_on_the_way_back_are_forgotten(keep):
    """Back at the start, since a quantized cache is not cut to before its start, other tokens are
    read: a mark among the old ones must not serve."""
    journey, start = Journey(wide("qwen3_5"), QUANTIZED), QUANTIZED.start
    journey.step("read", 12)
    journey.step(keep, 0)
    while journey.decoder.length <= start:
        journey.step("read", 5)
    journey.step("rewind to", start - 1)
    assert journey.decoder.length == 0
    journey.step("read", 14)
    journey.step("rewind", 1)
    journey.check()


def test_no_row_sees_keys_that_moved_in_its_pass():
    """All rows within `room` have the same first and last key, and one row more would not."""

    def bounds(cache, position):
        return cache.base_for(position), cache._end_for(position + 1)

    for window, block, position in product([None, 1, 2, 16], [1, 7, 8], range(80)):
        cache = AlignedCache(window, block=block)
        cache.offset = position
        base, end = bounds(cache, position)
        assert cache.room >= 1
        assert bounds(cache, position + cache.room - 1) == (base, end)
        assert bounds(cache, position + cache.room) != (base, end)
        assert position < end <= position + block
        oldest = 0 if window is None else max(0, position + 1 - window)
        assert base <= oldest
        assert window is None or oldest < base + block


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("window", [None, 16])
def test_row_attends_to_exactly_its_window(rows, window):
    """Positions are their own keys, so that what a row's mask lets through can be named."""
    cache, position = AlignedCache(window, block=7), 0
    while position < 80:
        count = min(rows, cache.room)
        mask = cache.make_mask(count, window_size=window)
        keys = mx.arange(position, position + count, dtype=mx.float32)[None, None, :, None]
        seen, values = cache.update_and_fetch(keys, -keys)
        assert mx.array_equal(values, -seen)
        ids = seen[0, 0, :, 0].tolist()
        assert mask.shape == (count, len(ids))
        assert window is None or cache.nbytes <= 2 * (16 + 2 * 7) * keys.nbytes / count
        for row, kept in enumerate(mask.tolist()):
            last = position + row
            first = 0 if window is None else max(0, last - window + 1)
            assert [i for i, keep in zip(ids, kept, strict=True) if keep] == list(
                range(first, last + 1)
            )
        position += count


@pytest.mark.cpu
def test_quantization_starts_at_the_same_token_however_it_is_reached():
    """And nothing is cut to before it."""
    for rows in (1, 4, 30):
        reader = decoder(wide("llama"), quantized=QUANTIZED)
        while reader.length < QUANTIZED.start + 3:
            count = min(rows, reader.timeline.room(), QUANTIZED.start + 3 - reader.length)
            reader.read(mx.arange(count))
            expected = QuantizedKVCache if reader.length > QUANTIZED.start else AlignedCache
            assert {type(layer) for layer in reader.timeline.layers} == {expected}
        for length, left in [(QUANTIZED.start, QUANTIZED.start), (QUANTIZED.start - 1, 0)]:
            reader.rewind(length)
            assert reader.length == left
        assert {type(layer) for layer in reader.timeline.layers} == {AlignedCache}
