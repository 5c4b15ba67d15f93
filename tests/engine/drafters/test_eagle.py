"""EAGLE-3 and EAGLE: their folders, their drafts, and that they stay lossless."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.core.decoder import Decoder
from engine.core.sampling import Candidates, History, distribution, scores
from engine.drafters import Drafter, DrafterRefused, chain
from engine.drafters.eagle import load_network
from engine.request import Sampling
from models.drafters.folders import describe_drafter
from models.errors import Problem
from tests.support.engine.chi_square import excess
from tests.support.engine.eagles import KINDS, eagle_drafter, eagle_subject
from tests.support.engine.helpers import GREEDY, proposed, read_prompt, up_to
from tests.support.engine.parity.drafters import DRAFTERS, continued, ours
from tests.support.engine.parity.subjects import TOLERANCE, Subject, difference, kept, of_tokens
from tests.support.engine.tiny import shallow
from tests.support.mostly_slow import mostly_slow

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
KEY = mx.random.key(0)


# --- The networks


@pytest.mark.parametrize("dropped", ["fc_norm", "norm_output", "norm_before_fc", "logit_scale"])
def test_every_option_counts(dropped: str) -> None:
    """An option that is overlooked shows: as tensors that are left over, or in the logits."""
    name = "eagle3-window" if dropped == "norm_before_fc" else "eagle3-qwen3"
    subject = DRAFTERS[name]
    config = dict(subject.config)
    config[dropped] = 2.0 if dropped == "logit_scale" else False
    changed = Subject(name, config, subject.shapes, subject.given, seed=subject.seed)
    if dropped in ("fc_norm", "norm_before_fc"):
        with pytest.raises(DrafterRefused):
            ours(changed)
    else:
        assert difference(ours(changed), kept(subject)) > 100 * TOLERANCE


# --- Drafting


def pair(kind: str, folder: Path) -> tuple[Decoder, Drafter]:
    target = Decoder(shallow("llama", vocabulary=24))
    return target, eagle_drafter(kind, target, folder)


def network_of(kind: str, folder: Path, model: nn.Module) -> Any:
    subject = eagle_subject(kind, model)
    return load_network(describe_drafter(subject.write(folder / "again")), Decoder(model))


def fresh_logits(network: Any, model: nn.Module, tokens: list[int], drafted: list[int]) -> mx.array:
    """What comes behind `drafted` behind `tokens`, from nothing: one pass of the target, and of the
    network no caches that live on."""
    target = Decoder(model)
    states = target.record(network.taps)
    target.read(mx.array(tokens[:-1]))
    begun = network.begin(states.between(0, len(tokens) - 1)[None])
    after = list(tokens[1:])
    cache = network.make_cache()
    state = network(begun, mx.array([after]), "causal", cache)[:, -1:]
    for token in drafted:
        state = network(network.go_on(state), mx.array([[token]]), None, cache)
    return of_tokens(network.logits(state)[0, -1], network.rows, target.vocabulary)


def fresh_draft(network: Any, model: nn.Module, tokens: list[int], length: int) -> list[int]:
    drafted: list[int] = []
    for _ in range(length):
        drafted.append(int(mx.argmax(fresh_logits(network, model, tokens, drafted)).item()))
    return drafted


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_lengths(kind: str, tmp_path: Path) -> None:
    target, drafter = pair(kind, tmp_path)
    read_prompt(target, drafter, TOKENS)
    (candidate,) = drafter.candidates(TOKENS)
    assert drafter.name == candidate.drafter == kind
    assert candidate.most == 16
    draft = drafter.propose(TOKENS, up_to(3), GREEDY, KEY)
    assert draft is not None
    assert (draft.drafter, draft.tokens.shape) == (kind, (3,))


def redrafts_as_fresh(kind: str, folder: Path, accepted: int) -> bool:
    target, drafter = pair(kind, folder)
    network = network_of(kind, folder, target.model)
    read_prompt(target, drafter, TOKENS)
    first = proposed(drafter, TOKENS)
    tokens = [*TOKENS, *first[:accepted], 7]
    target.read(mx.array(tokens[target.length : -1]))
    drafter.accept(range(accepted))
    second = proposed(drafter, tokens)
    target.rewind(6)
    drafter.rewind(6)
    other = [*TOKENS[:6], 11, 12, 13]
    read_prompt(target, drafter, other)
    third = proposed(drafter, other)
    texts = (TOKENS, tokens, other)
    return [first, second, third] == [fresh_draft(network, target.model, text, 4) for text in texts]


@pytest.mark.quick(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_after_others_is_a_fresh_ones(kind: str, tmp_path: Path) -> None:
    assert all(redrafts_as_fresh(kind, tmp_path, accepted) for accepted in (0, 1, 4))


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_that_the_target_has_not_read(kind: str, tmp_path: Path) -> None:
    """The drafter goes on without their states."""
    target, drafter = pair(kind, tmp_path)
    for _ in target.prefill(TOKENS[:-2]):
        pass
    assert len(proposed(drafter, TOKENS)) == 4


# --- Distributions

SAMPLINGS = {
    "warm": Sampling(temperature=0.7),
    "top-p": Sampling(temperature=1.2, top_p=0.8),
    "penalty": Sampling(temperature=0.9, repetition_penalty=1.6, presence_penalty=0.4),
}
SMALL = 8


def law(network: Any, model: nn.Module, tokens: list[int], sampling: Sampling) -> Any:
    """The exact joint distribution of the first two drafted tokens."""

    def row(drafted: list[int]) -> Any:
        logits = fresh_logits(network, model, tokens, drafted)[None]
        history = History([*tokens, *drafted], sampling)
        window = history.windows(mx.zeros((0,), dtype=mx.int32), 0, 1)
        scored = scores(logits, window, sampling)
        return np.array(distribution(scored, sampling)[0], dtype=np.float64)

    first = row([])
    second = [row([token]) if p > 0 else np.zeros(SMALL) for token, p in enumerate(first)]
    return first[:, None] * np.stack(second)


def drawn(
    drafter: Drafter, sampling: Sampling, expected: Any, *, count: int
) -> tuple[float, float]:
    """How far the drafted tokens are off what is expected, and the largest error of what the
    drafter says of them."""
    counts, error = np.zeros(expected.shape, dtype=np.int_), 0.0
    first, tokens = expected.sum(axis=1), [token % SMALL for token in TOKENS]
    for key in mx.random.split(mx.random.key(5), count):
        draft = drafter.propose(tokens, up_to(2), sampling, key)
        assert draft is not None
        assert draft.distributions is not None
        one, two = draft.tokens.tolist()
        counts[one, two] += 1
        said = np.array(draft.distributions, dtype=np.float64)
        truth = np.stack([first, expected[one] / max(first[one], 1e-9)])
        error = max(error, float(np.abs(said - truth).max()))
    return excess(counts.ravel(), expected.ravel()), error


def small_pair(kind: str, folder: Path) -> tuple[Drafter, Any, nn.Module]:
    small = shallow("llama", vocabulary=SMALL)
    target = Decoder(small)
    drafter = eagle_drafter(kind, target, folder)
    read_prompt(target, drafter, [token % SMALL for token in TOKENS])
    return drafter, network_of(kind, folder, small), small


@pytest.mark.quick(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", mostly_slow(SAMPLINGS, quick=["penalty"]))
def test_q_is_what_tokens_are_drawn_from(kind: str, sampling: str, tmp_path: Path) -> None:
    drafter, network, small = small_pair(kind, tmp_path)
    tokens = [token % SMALL for token in TOKENS]
    expected = law(network, small, tokens, SAMPLINGS[sampling])
    if kind != "EAGLE":
        assert expected[2].sum() == expected[:, 5].sum() == 0  # tokens without a row
    off, error = drawn(drafter, SAMPLINGS[sampling], expected, count=150)
    assert off < 1.0
    assert error < 1e-4


@pytest.mark.quick(1)
@pytest.mark.parametrize("kind", KINDS)
def test_q_before_the_sampler_chain_is_noticed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafter, network, small = small_pair(kind, tmp_path)
    sampling = SAMPLINGS["top-p"]
    expected = law(network, small, [token % SMALL for token in TOKENS], sampling)

    def raw(scored: mx.array, sampling: Sampling, **_: int) -> Candidates:
        return Candidates(mx.softmax(scored, axis=-1), None)

    monkeypatch.setattr(chain, "candidates", raw)
    off, error = drawn(drafter, sampling, expected, count=200)
    assert off > 1.0 or error > 0.05


# --- Folders


def changed(kind: str, folder: Path, model: nn.Module, **changes: Any) -> Path:
    """A drafter with other entries in config.json, or other tensors; None takes them away."""
    subject = eagle_subject(kind, model)
    tensors: dict[str, Any] = subject.weights()
    config = dict(subject.config)
    for name, value in changes.items():
        place = tensors if name in tensors or isinstance(value, np.ndarray) else config
        if value is None:
            del place[name]
        else:
            place[name] = value
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    arrays = {name: mx.array(tensor) for name, tensor in tensors.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), arrays)
    return folder


def loaded(folder: Path, target: Decoder) -> Any:
    return load_network(describe_drafter(folder), target)


@pytest.fixture
def target() -> Decoder:
    return Decoder(shallow("llama", vocabulary=24))


def test_what_does_not_fit_is_refused(target: Decoder, tmp_path: Path) -> None:
    cases: list[tuple[str, dict[str, Any], str | None]] = [
        ("EAGLE-3", {"d2t": np.array([1, 0] * 8)}, "damaged"),
        ("EAGLE-3", {"d2t": np.arange(16)}, "other target"),
        ("EAGLE-3", {"d2t": None}, "damaged"),
        ("EAGLE-3", {"norm.weight": None}, "damaged"),
        ("EAGLE-3", {"norm.weight": np.ones(8, dtype=np.float32)}, "damaged"),
        ("EAGLE-3", {"head_dim": None, "num_attention_heads": None}, "damaged"),
        ("EAGLE-3", {"norm_before_fc": True}, "damaged"),
        ("EAGLE-3", {"layer_types": ["sliding_attention"]}, "damaged"),
        ("EAGLE-3", {"eagle_aux_hidden_state_layer_ids": [1, 2, 4]}, "damaged"),
        ("EAGLE-3", {"rope_scaling": {"rope_type": "unheard of"}}, "damaged"),
        ("EAGLE-3", {"head_dim": 7}, "damaged"),
        ("EAGLE-3", {"layers.0.mlp.experts.0.weight": np.ones((8, 64))}, "unsupported"),
        ("EAGLE-3", {"layers.0.self_attn.kv_a_proj.weight": np.ones((8, 64))}, "unsupported"),
        ("EAGLE", {"fc.weight": np.ones((64, 96), dtype=np.float32)}, "damaged"),
    ]
    found = []
    for number, (kind, changes, _) in enumerate(cases):
        folder = changed(kind, tmp_path / str(number), target.model, **changes)
        with pytest.raises(Problem) as caught:
            loaded(folder, target)
        assert caught.value.remedy
        found.append((*changes, getattr(caught.value, "obstacle", None)))
    assert found == [(*changes, obstacle) for _, changes, obstacle in cases]


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_of_another_width_is_refused(kind: str, target: Decoder, tmp_path: Path) -> None:
    folder = changed(kind, tmp_path / "drafter", target.model)
    with pytest.raises(DrafterRefused) as caught:
        loaded(folder, Decoder(DRAFTERS["eagle3-official"].target_model()))
    assert caught.value.obstacle == "other target"


def test_one_state_as_wide_as_its_own_needs_no_matrix(target: Decoder, tmp_path: Path) -> None:
    """NVIDIA's heads that read the target's last state."""
    own = {"eagle_config": {"use_aux_hidden_state": False}}
    folder = changed("EAGLE-3", tmp_path / "drafter", target.model, **{"fc.weight": None} | own)
    network = loaded(folder, target)
    assert network.taps == ("norm",)
    states = mx.random.normal((1, 3, 1, 64), key=KEY)
    assert mx.array_equal(network.begin(states), states[:, :, 0])


def test_names_that_vllm_and_older_files_use(target: Decoder, tmp_path: Path) -> None:
    subject = eagle_subject("EAGLE-3", target.model)
    renamed = {
        "model." + name.replace("layers.0.", "midlayer."): mx.array(tensor)
        for name, tensor in subject.weights().items()
    }
    renamed["model.midlayer.self_attn.rotary_emb.inv_freq"] = mx.zeros((4,))
    folder = changed("EAGLE-3", tmp_path / "drafter", target.model)
    plain = loaded(folder, target)
    mx.eval(plain.parameters())
    mx.save_safetensors(str(folder / "model.safetensors"), renamed)
    states, after = mx.random.normal((1, 3, 2, 64), key=KEY), mx.array([[1, 2, 3]])
    by_ours, by_theirs = (
        each.logits(each(each.begin(states), after, "causal", each.make_cache()))
        for each in (plain, loaded(folder, target))
    )
    assert mx.array_equal(by_ours, by_theirs)


def test_a_map_of_known_tokens_will_do(target: Decoder, tmp_path: Path) -> None:
    subject = eagle_subject("EAGLE-3", target.model)
    known = np.array([token % 3 != 2 for token in range(24)])
    by_list = loaded(changed("EAGLE-3", tmp_path / "one", target.model), target)
    by_map = loaded(changed("EAGLE-3", tmp_path / "two", target.model, d2t=None, t2d=known), target)
    state = mx.random.normal((1, 3, 64), key=KEY)
    assert subject.given["d2t"].size == 16
    assert mx.array_equal(by_list.logits(state), by_map.logits(state))


@pytest.mark.parametrize("kind", KINDS)
def test_quantized_ones_are_nearly_the_same(kind: str, target: Decoder, tmp_path: Path) -> None:
    exact = loaded(changed(kind, tmp_path / "exact", target.model), target)
    subject = eagle_subject(kind, target.model)
    tensors: dict[str, mx.array] = {}
    for name, array in subject.weights().items():
        place, tensor = name.removesuffix(".weight"), mx.array(array)
        if "proj" in name or "fc." in name or "lm_head" in name:
            parts = mx.quantize(tensor, group_size=32, bits=8) if tensor.shape[1] % 32 == 0 else ()
            if parts:
                kinds = (".weight", ".scales", ".biases")
                tensors |= dict(zip((place + each for each in kinds), parts, strict=True))
                continue
        tensors[name] = tensor
    config = dict(subject.config) | {"quantization": {"group_size": 32, "bits": 8}}
    folder = tmp_path / "rounded"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    mx.save_safetensors(str(folder / "model.safetensors"), tensors)
    rounded = loaded(folder, target)

    states = mx.random.normal((1, 5, len(exact.taps), 64), key=KEY)
    after = mx.array([[1, 2, 3, 4, 5]])

    def logits(network: Any) -> mx.array:
        state = network(network.begin(states), after, "causal", network.make_cache())
        return network.logits(state)

    assert mx.abs(logits(exact) - logits(rounded)).max() < 0.1 * mx.abs(logits(exact)).max()


def test_windows_hold_in_single_steps() -> None:
    """A cache that has more than the window is looked at through it."""
    subject = DRAFTERS["eagle3-window"]
    target = Decoder(subject.target_model())
    with TemporaryDirectory() as folder:
        network = load_network(describe_drafter(subject.write(Path(folder))), target)
    outputs = continued(network, target, drafted=2)
    assert np.abs(outputs["prefill"] - outputs["steps"]).max() < TOLERANCE
