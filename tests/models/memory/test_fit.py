"""What a pair needs by the figures, and when it is refused. The slow test that these figures are
right is in tests/engine/conversation/test_pair_room.py."""

from dataclasses import replace

import pytest

import models.memory.fit as fit_module
from models.catalog import load_catalog
from models.drafters.folders import DrafterFolder, read_drafter
from models.drafters.kinds import DrafterDescription
from models.errors import Problem
from models.memory.fit import ModelSize, cache_bytes, fit, require_fit, weights_bytes
from models.memory.machine import Machine, linux, mac, this_machine
from models.memory.model_size import weigh
from models.memory.shape import read_shape
from models.model_folder import ModelFolder
from models.records import Fit
from tests.support.models.drafter_configs import published_layouts, write_drafter
from tests.support.models.model_folders import CONFIGS

GB, GIB = 10**9, 1 << 30
LLAMA = CONFIGS["llama"]
LINUX = Machine("box", 64 * GB, 60 * GB, unified=False)
MAC = Machine("Mac", 64 * GB, 48 * GB, unified=True)
QUANTIZED = {"quantization": {"bits": 4, "group_size": 64}}
BIG = ModelSize("big", 4_500_000_000, LLAMA | QUANTIZED)
SMALL = ModelSize(
    "small", 700_000_000, LLAMA | QUANTIZED | {"num_hidden_layers": 16, "hidden_size": 2048}
)
HEAD = ModelSize(
    "head",
    10_000_000,
    {
        "model_type": "slipstream-head", "hidden_size": 4096, "layers": [10, 20, 32], "rows": 8192,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "intermediate_size": 14336,
    },
    network=DrafterDescription("head", "Slipstream", taps=(10, 20, 32)),
)  # fmt: skip


def test_weights_on_a_cpu_are_expanded_into_half_of_what_is_free():
    values = 4_500_000_000 * 8 // 4.5
    assert weights_bytes(BIG, machine=LINUX, free_bytes=80 * GB) == pytest.approx(4 * values)
    assert weights_bytes(BIG, machine=LINUX) == BIG.size_bytes
    counted = replace(BIG, values=5 * GB)
    assert weights_bytes(counted, machine=LINUX, free_bytes=40 * GB) == 20 * GB
    assert weights_bytes(counted, machine=LINUX, free_bytes=40 * GB - 2) == BIG.size_bytes
    head = replace(HEAD, values=9 * 10**6)  # always
    assert weights_bytes(head, machine=LINUX, free_bytes=0) == 36 * 10**6
    for kind, wide in (("float32", 4), ("bfloat16", 2), (None, 2)):
        floats = ModelSize("floats", 8 * GB, LLAMA | {"torch_dtype": kind})
        assert weights_bytes(floats, machine=LINUX, free_bytes=100 * GB) == 8 * GB // wide * 4
    target, drafter = counted, replace(SMALL, values=5 * GB)
    for available, left in ((60 * GB, 20 * GB), (60 * GB - 1, SMALL.size_bytes)):
        machine = replace(LINUX, available_bytes=available)
        found = fit(target, drafter, context=1, machine=machine)
        assert (found.weights_bytes, found.drafter_weights_bytes) == (20 * GB, left)


def test_caches(subtests):
    """Full attention in blocks, windows of earlier turns too, states, convolutions."""
    full, window = 32 * 2 * 1024 * 2, 2 * 1024 * 2
    state = 6 * 36 * (3 * 8192 * 2 + 32 * 128 * 128 * 4)
    for name, context, machine, expected in [
        *(("llama", n, LINUX, full * kept) for n, kept in ((1, 127), (127, 127), (128, 255))),
        *(("llama", n, MAC, full * kept) for n, kept in ((1, 256), (128, 256), (300, 512))),
        ("gemma3", 511, LINUX, 511 * window * (5 * 29 + 5)),
        ("gemma3", 32767, LINUX, window * ((1024 + 2 * 128 - 1) * 5 * 29 + 32767 * 5)),
        ("qwen3_next", 127, LINUX, state + 127 * 12 * 2 * 512 * 2),
        ("qwen3_next", 1023, LINUX, state + 1023 * 12 * 2 * 512 * 2),
        ("lfm2", 127, LINUX, 127 * 6 * 2 * 512 * 2 + 6 * 10 * 128 * 1024 * 2),
    ]:
        with subtests.test(name=name, context=context, machine=machine.name):
            shape = read_shape(CONFIGS[name])
            assert cache_bytes(shape, context, machine=machine, value_bytes=2) == expected
    shape = read_shape(LLAMA)
    wide = cache_bytes(shape, 4096, machine=MAC, value_bytes=2)
    narrow = cache_bytes(shape, 4096, machine=MAC, value_bytes=2, cache_bits=8)
    assert narrow == wide * (8 / 8 + 4 / 64) / 2


def test_a_head_needs_the_targets_states():
    with_head = fit(BIG, HEAD, context=4096, machine=MAC)
    alone = fit(BIG, context=4096, machine=MAC)
    states = min(4096, 2048 + 512) * 3 * 4096 * 2
    assert with_head.working_bytes - alone.working_bytes > states
    assert with_head.drafter_cache_bytes == 4096 * 2 * 1024 * 2
    recurrent = replace(BIG, config=CONFIGS["mamba"])  # has no cache to be kept as it was
    assert fit(recurrent, HEAD, context=4096, machine=MAC).working_bytes > states


@pytest.mark.parametrize("machine", [LINUX, MAC], ids=["linux", "mac"])
def test_the_largest_context_is_the_largest(machine):
    for available in (6 * GB, 8 * GB, 12 * GB):
        small = replace(machine, available_bytes=available)
        largest = fit(BIG, SMALL, context=1, machine=small).largest_context
        assert largest % 128 == 0
        assert 0 < largest < 131072
        assert fit(BIG, SMALL, context=largest, machine=small).fits
        assert not fit(BIG, SMALL, context=largest + 256, machine=small).fits


def test_what_fits_is_let_through_and_a_refusal_names_what_would(subtests):
    assert require_fit(BIG, SMALL, machine=MAC).context == 4096
    short = ModelSize("short", GB, LLAMA | {"max_position_embeddings": 1000})
    assert require_fit(short, machine=MAC).context == 1000
    for asked, taken in ((-5, 1), (0, 1), (10**30, 1 << 24)):
        assert fit(BIG, context=asked, machine=MAC).context == taken
    small = replace(MAC, available_bytes=6 * GB)
    largest = fit(BIG, SMALL, context=8192, machine=small).largest_context
    for available, context, helps in [
        (6 * GB, 8192, f"{largest:,} tokens would fit"),
        (5_900_000_000, 2048, "Without small it would fit"),
        (GB, 2048, "No context would fit"),
    ]:
        with subtests.test(helps=helps):
            machine = replace(MAC, available_bytes=available)
            with pytest.raises(Problem, match="available") as refused:
                require_fit(BIG, SMALL, machine=machine, context=context)
            assert helps in refused.value.remedy
            assert "\n" not in str(refused.value)


def test_every_drafter_is_counted(tmp_path, subtests):
    """Its weights, what it keeps of the conversation, and the target's states that wait for it.

    One packaging of each kind: test_packagings tells all of them apart. What drafts in blocks keeps
    the newest positions alone.
    """
    for kind, layout in {each.expected["kind"]: each for each in published_layouts()}.items():
        with subtests.test(kind=kind, name=layout.name):
            files = ModelFolder(write_drafter(tmp_path / kind, layout))
            drafter = weigh(read_drafter(files) or DrafterFolder.of_model(files))
            target = ModelSize("target", GB, LLAMA | layout.target)
            found, longer, longest = (
                fit(target, drafter, context=context, machine=MAC)
                for context in (4096, 8192, 65536)
            )
            alone = fit(target, context=4096, machine=MAC)
            assert found.drafter_weights_bytes == drafter.size_bytes > 0
            assert (found.drafter_cache_bytes > 0) == (kind not in ("medusa", "gemma-4-assistant"))
            width = len(layout.expected.get("taps", ())) * read_shape(target.config).hidden_size
            assert found.working_bytes >= alone.working_bytes + 2048 * width * 2
            if kind in ("dflash", "eagle"):
                assert found.drafter_cache_bytes < longer.drafter_cache_bytes
                bounded = longer.drafter_cache_bytes == longest.drafter_cache_bytes
                assert bounded == (kind == "dflash")


# (model, rows of a prompt in a pass, tokens of the prompt, Metal's peak): mlx-swift-lm's benchmarks
# on an M1 Max, Rapid-MLX's recommendations and its community's on M2 Max and M3 Ultra, mlx-lm 1569.
PEAKS = (
    ("mlx-community/Qwen3.5-4B-MLX-4bit", 504, 504, 3.33 * GIB),
    ("mlx-community/Qwen3.5-4B-MLX-4bit", 2048, 8190, 5.16 * GIB),
    ("mlx-community/Qwen3.5-4B-MLX-4bit", 2048, 32700, 7.22 * GIB),
    ("mlx-community/Qwen3.5-9B-MLX-4bit", 2048, 32700, 9.68 * GIB),
    ("mlx-community/Qwen3.8-27B-4bit", 2048, 8112, 19_080_000_000),
    ("mlx-community/Qwen3.6-35B-A3B-4bit", 2048, 2048, 20_455 << 20),
    ("mlx-community/Meta-Llama-3.1-8B-Instruct-4bit", 2048, 2048, 5_260 << 20),
    ("mlx-community/gpt-oss-20b-MXFP4-Q8", 2048, 2048, 12_354 << 20),
    ("pipenetwork/Laguna-S-2.1-MLX-4bit", 2048, 8192, 67_900_000_000),
)


def test_what_others_measured_on_metal(monkeypatch, subtests):
    """With their rows in a pass; it has states of earlier turns and of a round that theirs has
    not."""
    listed = load_catalog().models
    for name, rows, context, peak_bytes in PEAKS:
        with subtests.test(name=name, context=context):
            monkeypatch.setattr(fit_module, "PREFILL_ROWS", rows)
            found = fit(listed[name].size, context=context, machine=MAC)
            assert 0.98 * peak_bytes < found.needed_bytes < 1.12 * peak_bytes


# What memory there is, from the files and figures of systems that are written here.


OWN = 400_000_000
MEMINFO = "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:   8388608 kB\n"


def put(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


GROUPS = "sys/fs/cgroup"
FREE = f"anon 5\ninactive_file {GIB}\n"


@pytest.mark.parametrize(
    ("group", "files", "memory", "available"),
    [
        ("", {}, 16, 8),
        *(
            (
                "0::/user/one\n",
                {f"{place}/memory.max": 4 * GIB, f"{place}/memory.current": 3 * GIB,
                 f"{place}/memory.stat": FREE},
                4, 2,
            )
            for place in ("", "/user/one")
        ),
        (
            "5:cpu:/\n4:memory:/a\n0::/\n",
            {"/memory/a/memory.limit_in_bytes": 4 * GIB, "/memory/a/memory.usage_in_bytes": GIB,
             "/memory/memory.limit_in_bytes": 9223372036854771712,
             "/memory/memory.usage_in_bytes": GIB},
            4, 3,
        ),
        *(
            ("0::/\nnonsense\n", {"/memory.max": limit, "/memory.current": 1}, 16, 8)
            for limit in ("max", "", "-1", "many", "\u0661")
        ),
    ],
)  # fmt: skip
def test_linux_has_what_is_available_in_its_control_group_less_our_own(
    group, files, memory, available, tmp_path
):
    texts = {f"{GROUPS}{name}": f"{text}" for name, text in files.items()}
    put(tmp_path, {"proc/meminfo": MEMINFO, "proc/self/cgroup": group} | texts)
    machine = linux(tmp_path)
    assert (machine.memory_bytes, machine.available_bytes) == (memory * GIB, available * GIB - OWN)
    assert not machine.unified
    assert linux(tmp_path / "nothing").available_bytes == 0


def test_others_leave_what_they_do_not_take_or_have_freed():
    other = Fit("t", "d", 100, 50, 10, 5, 2, 3, 0, 0, True, "")
    here = Machine("m", 1000, 500, unified=False)
    assert other.needed_bytes == 70
    assert here.beside([other, other]).available_bytes == 500 - 2 * 15, "the weights are gone"
    metal = Machine("m", 1000, 500, unified=True)
    assert metal.beside([other, other]).available_bytes == 500 - 2 * 70, "the limit is for all"
    assert metal.beside([other] * 9).available_bytes == 0
    assert here.once_freed(2).available_bytes == 502
    assert metal.once_freed(2).available_bytes == 500


def test_a_mac_gives_its_graphics_a_share(subtests):
    for memory, limit, available in [
        (16 * GIB, "0", 16 * GIB * 2 // 3),
        (36 * GIB, "0", 27 * GIB),
        (128 * GIB, "0", 96 * GIB),
        (16 * GIB, "12288", 12 * GIB),
        (16 * GIB, "999999", 16 * GIB),
    ]:
        with subtests.test(memory=memory, limit=limit):
            machine = mac("Apple M9", {"hw.memsize": str(memory), "iogpu.wired_limit_mb": limit})
            assert machine == Machine("Apple M9", memory, available, unified=True)
    here = this_machine()
    assert 0 < here.available_bytes < here.memory_bytes < 1 << 50
