"""A pair is called exact where this machine has shown it, by made-up devices: that round by rows,
that are slow, that do not come back, that stall."""

from contextlib import contextmanager, suppress
from functools import partial
from unittest import mock

import mlx.core as mx
import mlx.nn as nn
import pytest

from engine.conversation import proof
from engine.conversation.proof import Stalls, settle
from engine.conversation.session import Session
from engine.core.cache import QuantizedCaches
from engine.core.decoder import Decoder
from engine.device import CPU, GPU
from engine.draft_length.calibrations import CalibrationStore
from engine.draft_length.policy import Fixed
from engine.events import Verdict
from engine.exactness import ANY_ROWS
from engine.metal import alone, few_rows
from engine.request import Request, Sampling
from tests.support.engine.backends import computing_as, on_a_mac
from tests.support.engine.sessions import loaded, tiny_model, use
from tests.support.metal.device import MODELS, SHIM, model_of, on_metal
from tests.support.metal.shim import needs_a_compiler
from tests.support.mostly_slow import mostly_slow

LOST = "the check did not come back"
FAMILIES = ("llama", "gemma3_text", "qwen3_5")
MOST = 4  # rows
ROUNDS = "layer 1 of 2 gives 2 rows other bits after 9 tokens"
PROMPT = list(range(3, 23))


@contextmanager
def ticking(*, shapes="", slower=0.0, depths=(9,)):
    """The proof looks at these depths, with a clock on which each pass takes a second, and so much
    more with our kernel. A trial has left it for these `shapes`."""
    now, ours = 0.0, False
    read, install = Decoder.read, proof.Way.install

    def clock():
        return now

    def reading(decoder, tokens):
        nonlocal now
        now += 1.0 + slower * ours
        return read(decoder, tokens)

    def installing(way, model):
        nonlocal ours
        ours = way.by_rows
        install(way, model)

    with (
        mock.patch.object(Decoder, "read", reading),
        mock.patch.object(proof.Way, "install", installing),
        mock.patch.multiple(proof, FEW_ROWS=MOST, _DEPTHS=depths, _TIMED_ROWS=(3, MOST), _TIMES=1),
        mock.patch.object(proof, "perf_counter", clock),
        mock.patch.object(proof, "kernels_for", return_value=(tuple(shapes), "tried")),
    ):
        yield


def _put(seen, value, model, *_):
    seen.append(value)
    alone.remove(model)


@contextmanager
def exact_kernels():
    """Our kernels, made up: while they are installed each row is multiplied alone. Yields whether
    they are, last."""
    installed = [False]

    def one_by_one(stock):
        def call(layer, x):
            rows = mx.split(x, x.shape[-2], axis=-2) if installed[-1] else [x]
            return mx.concatenate([stock(layer, row) for row in rows], axis=-2)

        return call

    with (
        mock.patch.object(nn.Linear, "__call__", one_by_one(nn.Linear.__call__)),
        mock.patch.object(nn.Embedding, "as_linear", one_by_one(nn.Embedding.as_linear)),
        mock.patch.object(few_rows, "install", partial(_put, installed, True)),
        mock.patch.object(few_rows, "remove", partial(_put, installed, False)),
    ):
        yield installed


@pytest.fixture(autouse=True)
def _as_before():
    """Tests share their models."""
    yield
    for architecture in FAMILIES:
        alone.remove(tiny_model(architecture))


@pytest.fixture
def target(tokenizer):
    with computing_as(GPU):
        return loaded(tiny_model("llama"), tokenizer)


def write(target, length):
    """The tokens of a greedy answer, and their log probabilities, drafted by a model."""
    session = Session(target)
    if length:
        use(session, "model", "llama")
    session.policy = Fixed(length)
    request = Request(sampling=Sampling(temperature=0.0), max_tokens=10, logprobs=0)
    events = list(session.complete(PROMPT, request))
    assert length == 0 or events[-1].stats.proposed > 0
    own = [
        each.logprob for event in events if isinstance(event, Verdict) for each in event.logprobs
    ]
    return list(session.tokens), own


@pytest.mark.cpu
def test_the_cpu_is_exact_by_itself(tokenizer, tmp_path):
    found = settle(loaded(tiny_model("llama"), tokenizer), "auto", store=CalibrationStore(tmp_path))
    assert (found.rows, found.in_parts) == (ANY_ROWS, False)
    assert not list(tmp_path.iterdir())


def test_a_device_that_rounds_by_rows_is_told_of_with_the_first_layer(target, tmp_path):
    store = CalibrationStore(tmp_path)
    with on_a_mac(), ticking():
        found = settle(target, "auto", store=store)
        assert (found.rows, target.promise.now, found.kernel) == (0, found, "our kernel: tried")
        assert found.why == f"{ROUNDS}; {alone.cannot_be_exact(target.model)}"
        assert found.why in found.in_words()
        with mock.patch.object(proof, "look") as looking:
            assert settle(target, "auto", store=store) == found  # from disk
        looking.assert_not_called()
        strict = settle(target, "on", store=store)
        assert (strict.rows, strict.cost) == (MOST, 1.0)
        assert strict.how.endswith("by MLX's kernels, some row by row")
        unchecked = settle(target, "off", store=store)
        assert (unchecked.rows, unchecked.why == found.why) == (0, False)


def test_a_device_that_does_not_round_is_exact_by_itself(target, tmp_path):
    with computing_as(GPU), ticking(depths=(9, 30)):
        found = settle(target, "auto", store=CalibrationStore(tmp_path))
    assert (found.rows, found.cost, found.why) == (MOST, 1.0, "")
    assert found.how.endswith("by MLX's own kernels")


@pytest.mark.parametrize(
    ("wish", "slower", "rows", "installed"),
    [("auto", 0.0, MOST, True), ("auto", 0.125, 0, False), ("on", 0.125, MOST, True)],
)
def test_our_kernels_are_used_where_they_are_exact_and_cost_nothing_or_at_any_cost(
    target, wish, slower, rows, installed, tmp_path
):
    with on_a_mac(), exact_kernels() as kernels, ticking(shapes="x", slower=slower):
        found = settle(target, wish, store=CalibrationStore(tmp_path))
        assert (found.rows, kernels[-1], target.promise.ours) == (rows, installed, installed)
        if installed:
            assert found.cost == pytest.approx(1 + slower)
        if wish == "on":
            assert write(target, 4) == write(target, 0)


def test_kernels_that_round_are_not_used_also_where_the_logits_hide_it(target, tmp_path):
    read = Decoder.read

    def hiding(decoder, tokens):
        return 0 * read(decoder, tokens)

    with on_a_mac():
        with ticking(shapes="x"), mock.patch.object(alone, "install"):
            found = settle(target, "auto", store=CalibrationStore(tmp_path / "seen"))
        assert (found.rows, found.kernel) == (0, f"our kernel: tried; {ROUNDS}")
        with mock.patch.object(Decoder, "read", hiding), ticking():
            hidden = settle(target, "auto", store=CalibrationStore(tmp_path / "hidden"))
        assert hidden.why.startswith(ROUNDS)


@pytest.mark.parametrize("failure", [SystemExit, RuntimeError("a lost device")])
def test_what_does_not_come_back_is_not_tried_again_until_that_is_asked_for(
    target, failure, tmp_path
):
    store, looking = CalibrationStore(tmp_path), mock.Mock(side_effect=failure)
    lost = isinstance(failure, type)
    with on_a_mac(), ticking():
        with mock.patch.object(proof, "look", looking), suppress(SystemExit):
            settle(target, "auto", store=store)
        found = settle(target, "auto", store=store)
        assert found.why.startswith(LOST if lost else "RuntimeError: a lost device")
        assert settle(target, "on", store=store).rows == MOST  # in another way
        again = settle(target, "auto", store=store, again=True)
        assert again.why.startswith(ROUNDS if lost else "RuntimeError")


@pytest.mark.parametrize("architecture", mostly_slow(FAMILIES, quick=["llama"]))
def test_drafts_change_no_bit_of_an_exact_text(architecture, tokenizer, tmp_path):
    with on_a_mac(), ticking():
        target = loaded(tiny_model(architecture), tokenizer)
        plain = write(target, 0)
        assert write(target, 4) != plain
        assert settle(target, "on", store=CalibrationStore(tmp_path)).rows == MOST
        assert all(write(target, length) == plain for length in (1, 4))


def test_what_cannot_be_checked_is_read_row_by_row_or_not_promised(target, tmp_path):
    store, caches = CalibrationStore(tmp_path), QuantizedCaches(bits=8)
    with on_a_mac():
        assert settle(target, "auto", store=store, quantized=caches).why.startswith("the caches")
        assert settle(target, "on", store=store, quantized=caches).rows == 1
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("wish", "rows"), [("auto", 0), ("on", 1)])
def test_two_stalls_in_a_row_give_our_kernels_up_and_say_so_once(target, wish, rows, capsys):
    promise = target.promise
    with on_a_mac(), exact_kernels() as kernels:
        promise.wish, promise.ours = wish, True
        stalls = Stalls(target)
        for drafted, seconds in [(4, 9.0), (4, 1.0), (4, 1.0), (1, 0.5), (4, 30.0), (4, 2.0)]:
            stalls.push(drafted, seconds)
        for _ in range(20):
            stalls.push(4, 1.0)
        stalls.push(4, 30.0)
        assert promise.ours
        for _ in range(3):
            stalls.push(4, 30.0)
    assert (promise.ours, promise.now.rows, kernels[-1]) == (False, rows, False)
    assert capsys.readouterr().err.count("Our own kernel is off") == 1


def test_a_race_begins_with_what_both_read_alike_and_the_same_caches(tokenizer):
    """After an answer the caches hold rows that were read one by one, or a few at once."""
    caches = QuantizedCaches(bits=8, group_size=32)
    for device, kept in ((CPU, True), (GPU, False)):
        with computing_as(device):
            session = Session(loaded(tiny_model("llama"), tokenizer), quantized=caches)
            list(session.complete(PROMPT, Request(max_tokens=3)))
            plain = session.plain()
            assert (session.length > 0, plain.length) == (kept, 0)
            assert plain.decoder.timeline.quantized == caches


@needs_a_compiler
@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_metal_s_own_text_is_exact_by_our_kernel_and_not_by_mlx_s(kind, tokenizer, tmp_path):
    model = model_of(kind)
    shapes = tuple(few_rows.shapes_of(model))
    install = partial(few_rows.install, run=SHIM.metal_kernel)
    with on_metal(), ticking(depths=(9, 1_100)):
        target = loaded(model, tokenizer)
        stock = settle(target, "auto", store=CalibrationStore(tmp_path))
        with (
            mock.patch.object(few_rows, "install", install),
            mock.patch.object(proof, "kernels_for", return_value=(shapes, "")),
        ):
            ours = settle(target, "auto", store=CalibrationStore(tmp_path))
        alone.remove(model)
    assert (stock.rows, ours.rows) == (0, MOST)
    assert "gives 2 rows other bits after 9 tokens" in stock.why
    assert ours.how == f"passes over up to {MOST} rows, by our kernel for few rows"
