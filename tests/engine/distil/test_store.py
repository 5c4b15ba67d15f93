"""What is stored comes back to the bit, whole or not at all, each answer once."""

from dataclasses import replace
from itertools import chain
from operator import methodcaller
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.distil import store as module
from engine.distil.store import AnswerStore, RecordedAnswer, likeliest, read_shard
from models.errors import Problem

LAYERS, WIDTH, LIKELIEST = 3, 8, 5
FULL = Path("/dev/full")  # a disk without any room; Linux has it


def made_up(prompt, answered, *, seed=0):
    key, tokens_key = mx.random.split(mx.random.key(seed + 1000 * prompt + answered))
    length = prompt + answered
    tokens = mx.random.randint(0, 99, (length,), key=tokens_key).tolist()
    return RecordedAnswer(
        tokens,
        prompt,
        seed % 2 == 0,
        mx.random.normal((length - 1, LAYERS, WIDTH), key=key).astype(mx.bfloat16),
        mx.random.randint(0, 99, (answered, LIKELIEST), key=key),
        mx.random.normal((answered, LIKELIEST), key=key).astype(mx.float16),
    )


def some(count, *, seed=0):
    return [made_up(2 + n % 5, 2 + n % 7, seed=seed + n) for n in range(count)]


def bits(one):
    """All that is in an answer, to be compared."""
    arrays = (one.states.view(mx.uint16), one.top_tokens, one.top_log_probs.view(mx.uint16))
    return (
        tuple(one.tokens),
        one.prompt,
        one.greedy,
        *((array.shape, str(array.tolist())) for array in arrays),
    )


def all_bits(answers):
    return [bits(one) for one in answers]


def filled(folder, shards=6):
    store = AnswerStore(folder)
    for number in range(shards):
        store.write(5 * number, some(5, seed=100 * number), asked=5, seconds=0.5)
    return store


@given(lengths=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=9))
def test_what_is_written_comes_back(tmp_path_factory, lengths):
    answers = [made_up(*both, seed=seed) for seed, both in enumerate(lengths)]
    store = AnswerStore(tmp_path_factory.mktemp("store") / "answers")
    store.write(0, answers, asked=len(answers) + 3, seconds=1.25)
    for found in (store, AnswerStore(store.folder)):
        (shard,) = found.shards
        assert all_bits(read_shard(shard)) == all_bits(answers)
        assert found.answered == shard.answered == sum(answered for _, answered in lengths)
        tokens, log_probs = shard.likeliest_tokens()
        assert tokens.tolist() == [row for one in answers for row in one.top_tokens.tolist()]
        assert log_probs.dtype == np.float32
        assert log_probs.shape == tokens.shape
        assert (found.asked, found.seconds) == (len(answers) + 3, 1.25)


def test_the_likeliest_tokens_are_those_with_the_most_mass(tmp_path):
    def thinking(tokens, chances):
        one = made_up(2, len(tokens))
        tops = mx.array(tokens, dtype=mx.int32)
        return replace(
            one, top_tokens=tops, top_log_probs=mx.log(mx.array(chances)).astype(mx.float16)
        )

    store = AnswerStore(tmp_path)
    # 7 is never the likeliest, and has the most in all; 3 has as much as 4.
    store.write(0, [thinking([[5, 7], [1, 7]], [[0.6, 0.4], [0.6, 0.4]])], asked=1, seconds=1.0)
    store.write(1, [thinking([[3, 4]], [[0.5, 0.5]])], asked=1, seconds=1.0)

    for count, best in [(1, [7]), (3, [1, 5, 7]), (4, [1, 3, 5, 7]), (9, [*range(9)])]:
        assert likeliest(store.shards, vocabulary=9, count=count).tolist() == best


def test_a_write_that_was_killed_leaves_nothing(tmp_path):
    store = filled(tmp_path, 2)
    whole = store.shards[1].path.read_bytes()
    for length in (0, 7, len(whole) // 2, len(whole)):
        (tmp_path / ".0000010.partial.safetensors").write_bytes(whole[:length])
        other = AnswerStore(tmp_path)
        assert other.shards == store.shards
        assert list(tmp_path.glob(".*"))  # another process may be writing it
        with other.growing():
            assert not list(tmp_path.glob(".*"))
            with pytest.raises(Problem), store.growing():
                pass


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_disk(tmp_path):
    store = filled(tmp_path, 1)
    (tmp_path / ".0000005.partial.safetensors").symlink_to(FULL)
    with pytest.raises(Problem) as caught:
        store.write(5, some(400), asked=400, seconds=1.0)
    assert "--resume" in caught.value.remedy
    assert len(store.shards) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["0000000.safetensors"]
    store.write(5, some(4), asked=4, seconds=1.0)
    assert AnswerStore(tmp_path).asked == 9


def changed(change):
    def damage(path):
        arrays = mx.load(str(path))
        mx.eval(arrays)
        change(arrays)
        mx.save_safetensors(str(path), arrays)

    return damage


def shortened(name):
    return lambda arrays: arrays.update({name: arrays[name][:-1]})


NAMES = ("tokens", "lengths", "prompts", "greedy", "states", "top_tokens", "top_log_probs", "asked")
DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "noise": lambda path: path.write_bytes(b"\xa5" * 3000),
    "a prompt longer than all": changed(
        lambda arrays: arrays.update(prompts=arrays["prompts"] + mx.array([9, -9, 0, 0, 0]))
    ),
    "another name": lambda path: path.rename(path.with_name("copy.safetensors")),
    **{f"without {name}": changed(methodcaller("pop", name)) for name in (*NAMES, "seconds")},
    **{f"shorter {name}": changed(shortened(name)) for name in NAMES},
}


def test_a_damaged_shard(tmp_path):
    first, second = (shard.path for shard in filled(tmp_path / "whole", 2).shards)
    for kind, damage in DAMAGES.items():
        folder = tmp_path / kind
        folder.mkdir()
        for path in (first, second):
            (folder / path.name).write_bytes(path.read_bytes())
        damage(folder / second.name)
        with pytest.raises(Problem, match="damaged") as caught:
            AnswerStore(folder)
        assert "Delete it" in caught.value.remedy, kind


def test_mixed_gives_every_answer_once_and_alike_for_the_same_seed(tmp_path, monkeypatch):
    def groups_of(store, seed):
        return [all_bits(group) for group in store.mixed(store.shards, seed=seed)]

    store = filled(tmp_path)
    whole = [one for shard in store.shards for one in all_bits(read_shard(shard))]
    sizes = [shard.path.stat().st_size for shard in store.shards]
    for bound, least in ((1 << 30, 1), (1, 6), (2 * max(sizes), 3)):
        monkeypatch.setattr(module, "_IN_MEMORY_BYTES", bound)
        groups = groups_of(store, 3)
        assert sorted(map(repr, chain(*groups))) == sorted(map(repr, whole))
        assert len(groups) >= least
        assert all(len(group) <= max(1, bound // min(sizes)) * 5 for group in groups)
        assert list(chain(*groups)) != whole, "in no random order"
    assert groups == groups_of(AnswerStore(tmp_path), 3) != groups_of(store, 4)
    first = [{one[0] for one in groups_of(store, seed)[0]} for seed in range(6)]
    assert any(tokens != first[0] for tokens in first), "always the same shards together"
