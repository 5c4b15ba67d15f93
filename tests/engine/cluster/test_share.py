"""What ranks read together is what one process reads: bit for bit in a pipeline, up to rounding
with tensor parallelism. Every architecture that is said to work is read by two and three ranks.

A rank loads its own part of a model folder, holds nothing else of it, and needs what its plan says.
"""

import json
from dataclasses import replace
from functools import partial
from itertools import product

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache, make_prompt_cache

from engine.cluster.follower import Follower
from engine.cluster.leader import Leader, LeadingDecoder
from engine.cluster.share import ModelPart, RankShare, keep, load_part
from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.core.decoder import Decoder
from engine.draft_length.policy import Fixed
from models.drafters.folders import describe_drafter
from models.errors import Problem
from models.files import models_folder
from models.limits import LONGEST_COPY
from models.memory.machine import Machine
from models.memory.model_size import weigh
from models.memory.shape import read_shape
from models.memory.shares import plan
from models.model_folder import ModelFolder
from models.sharing import architectures, cache_parts
from models.starter import STARTER
from tests.engine.conversation.test_pair_room import CLOSE, ROOT, random_model
from tests.support.engine.peak_memory import fill
from tests.support.engine.ranks import (
    SHARED_TARGETS,
    Held,
    alone,
    config_of,
    lead,
    shared_target,
    started,
    without_weights,
)
from tests.support.engine.tiny import build
from tests.support.mostly_slow import mostly_slow

pytestmark = pytest.mark.usefixtures("on_the_cpu")

# Passes over so many rows; a negative number takes rows back.
PASSES = (33, 1, 5, -3, 1, 24, -30, 1, 2)
TOKENS = [(7 * n * n + 3 * n) % 64 for n in range(200)]
DIVIDED = [name for name in SHARED_TARGETS if name.split()[0] in architectures("tensor")]
KINDS = {"full": KVCache, "window": RotatingKVCache, "recurrent": ArraysCache}
TAPS = (0, 1, 2, 3, 4, 6, "norm")  # with three layers on each of two ranks


def read(target, passes, taps=()):
    """The logits of each pass; at the end the hidden states at `taps`, where there are any."""
    decoder = target.decoder(target.model)
    states = decoder.record(taps) if taps else None
    made = []
    for rows in passes:
        if rows < 0:
            decoder.begin_round(TOKENS[: decoder.length + 1])
            decoder.rewind(decoder.length + rows)
        else:
            first = decoder.length
            logits = decoder.read(mx.array(TOKENS[first : first + rows]))
            if states and rows > 1:  # before the logits, or later: its time must not matter
                mx.eval(states.between(first, decoder.length))
            made.append(np.array(logits.astype(mx.float32)))
    return made + ([np.array(states.between(0, decoder.length))] if states else [])


def test_all_that_is_said_to_work_is_tried_and_a_config_tells_the_kinds_of_layers():
    """Of which every rank must have each."""
    assert {name.split()[0] for name in SHARED_TARGETS} == architectures("pipeline")
    for name in SHARED_TARGETS:
        caches = [type(cache) for cache in make_prompt_cache(without_weights(name))]
        layers = read_shape(config_of(name)).layers
        assert [KINDS[layer.kind] for layer in layers] == caches, name


def require_one_process(ranks, model, mode, *, split=(), taps=()):
    ours, *_ = ranks.call(lead, Held(model, mode, split), read, PASSES, taps)
    for one, other in zip(ours, read(alone(model()), PASSES, taps), strict=True):
        if mode == "pipeline":
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, atol=1e-3)
            assert one.argmax(-1).tolist() == other.argmax(-1).tolist()


QUICK = [(2, "qwen3_5", "tensor")]  # its output layer can be divided
CASES = [*product((2, 3), SHARED_TARGETS, ["pipeline"]), *product((2, 3), DIVIDED, ["tensor"])]


@pytest.mark.parametrize(
    ("ranks", "name", "mode"), mostly_slow(CASES, quick=QUICK), indirect=["ranks"]
)
def test_ranks_read_as_one_process(ranks, name, mode):
    require_one_process(ranks, partial(shared_target, name), mode)


def in_bfloat16(name):
    return build(name, sizes=SHARED_TARGETS[name], dtype=mx.bfloat16)


UNEVEN = product([shared_target], ["qwen3_5"], [(2, 4), (4, 2)])
NARROW = product([in_bfloat16], ["llama", "qwen3_5"], [()])


@pytest.mark.slow
@pytest.mark.parametrize(("make", "name", "split"), [*UNEVEN, *NARROW])
def test_a_pipeline_may_be_uneven_or_in_bfloat16(ranks, make, name, split):
    require_one_process(ranks, partial(make, name), "pipeline", split=split)


TAPPED = [*product((2, 3), ["qwen3_5", "gpt_oss"], ["pipeline"]), (2, "llama", "tensor")]


@pytest.mark.parametrize(
    ("ranks", "name", "mode"), mostly_slow(TAPPED, quick=TAPPED[:1]), indirect=["ranks"]
)
def test_hidden_states_of_all_layers_come_to_rank_0(ranks, name, mode):
    require_one_process(ranks, partial(shared_target, name), mode, taps=TAPS)


def test_layers_that_change_the_type_of_states_are_refused():
    """The next rank would take what it receives for numbers of another type."""
    model, share = in_bfloat16("llama"), RankShare("pipeline", 0, 2, (3, 3))
    model.layers[4].set_dtype(mx.float32)
    keep(model, share)
    with pytest.raises(Problem, match="bfloat16 to float32"):
        ModelPart(model, share, None)


def bytes_of_caches(target):
    decoder = target.decoder(target.model)
    mx.eval(decoder.read(mx.array(TOKENS[:20])))
    return decoder.timeline.nbytes


@pytest.mark.parametrize("name", mostly_slow(DIVIDED, quick=["qwen3_5"]))
def test_caches_of_a_part_have_its_own_heads(ranks, name):
    ours, *_ = ranks.call(lead, Held(partial(shared_target, name), "tensor"), bytes_of_caches)
    alike = cache_parts(config_of(name), ranks=2)
    assert alike * ours == bytes_of_caches(alone(shared_target(name)))


# Parts of a folder

ROWS = list(range(5, 25))


def hold(group, path, mode, split, expand, drafter, context):
    """Load a rank's share, read `ROWS` and fill a conversation, if it is to have a `context`, with
    all ranks. Returns the type of numbers, what the weights took, the most that MLX held, and rank
    0's logits."""
    share, logits = RankShare(mode, group.rank(), group.size(), split), None
    loaded, part = load_part(ModelFolder(path), share, group, expand=expand)
    if group.rank():
        Follower(part).run(lambda: True)
    else:
        leader = Leader(part)
        target = replace(loaded, decoder=partial(LeadingDecoder, leader=leader))
        logits = np.array(target.decoder(target.model).read(mx.array(ROWS)).astype(mx.float32))
        if context:
            session = Session(target, drafter=drafter, policy=Fixed(LONGEST_COPY))
            fill(session, context, answer_tokens=2 * LONGEST_COPY + 8)
        leader.quit()
    return loaded.precision, part.size_bytes, mx.get_peak_memory(), logits


CASES = [
    *product(["llama"], [None, 4], [False], ["pipeline", "tensor"], [2]),
    ("llama", 4, True, "pipeline", 2),
    *product(["qwen3_5"], [8], [False], ["pipeline", "tensor"], [2]),
    *(pytest.param("", 0, False, "pipeline", n, marks=pytest.mark.starter) for n in (2, 3)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bits", "unified", "mode", "size"), CASES)
def test_a_part_is_of_the_whole_model_and_needs_what_is_planned(
    name, bits, unified, mode, size, tmp_path
):
    """Each one's peak, and its weights alone. The starter is measured with its head."""
    if name:
        path, drafter, weight = random_model(tmp_path / "target", name, bits=bits), "lookup", None
    else:
        path, drafter = models_folder() / STARTER.name, "head"
        weight = weigh(describe_drafter(ROOT / "resources/drafters/smollm2-135m"))
        if not path.is_dir():
            pytest.skip("the starter model is not here")
    # Each turn's prompt ends with room for a whole copy before caches grow. What is planned for
    # unified memory is the peak of Metal's passes, which a CPU's cannot be compared with.
    context = 0 if unified else 1100
    machines = [Machine("plenty", 1 << 40, 1 << 40, unified=unified)] * size
    made = plan(ModelFolder(path), machines, drafter=weight, context=context, mode=mode)
    with started(size) as group:  # a process's peak is of its whole life
        task = path, made.mode, made.split, made.expand, drafter, context
        found = group.call(hold, *task, seconds=300.0)
    whole = load(ModelFolder(path), expand=made.expand)
    logits = np.array(Decoder(whole.model).read(mx.array(ROWS)).astype(mx.float32))
    np.testing.assert_allclose(found[0][-1], logits, rtol=0, atol=mode == "tensor" and 1e-2)
    for fit, (precision, weights, peak, _) in zip(made.fits, found, strict=True):
        assert precision == whole.precision
        assert abs(fit.weights_bytes / weights - 1) < CLOSE
        if context:
            assert abs(fit.needed_bytes / peak - 1) < CLOSE, (fit, peak)


def test_a_part_that_cannot_be_is_refused_before_a_weight_is_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config_of("qwen3")))
    for share, said in (
        (RankShare("tensor", 0, 5), "12 attention heads"),
        (RankShare("pipeline", 0, 2, (5, 2)), r"\[5, 2\]"),
    ):
        with pytest.raises(Problem, match=said):
            load_part(ModelFolder(tmp_path), share, None, expand=True)
