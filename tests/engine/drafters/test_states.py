"""Drafters that read the target's states or caches: what is drafted is what their networks make of
them, and the forms of their folders."""

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from engine.conversation.loading import load
from engine.core.decoder import Decoder
from engine.core.model_parts import output_rows
from engine.drafters import eagle, mtp
from engine.drafters.gemma_assistant import load_gemma_assistant
from engine.drafters.head_network import head_drafter
from engine.request import Sampling
from models.drafters.folders import describe_drafter, own_module
from models.model_folder import ModelFolder
from tests.engine.drafters.test_drafter_folders import changed, has, says
from tests.support.engine import gemma4, heads
from tests.support.engine.eagles import eagle_subject
from tests.support.engine.helpers import (
    BLOCK,
    assert_same_draft,
    drafted,
    proposed,
    read_prompt,
    up_to,
)
from tests.support.engine.mtp import PUBLISHED, build_target, drafter_by, untrained
from tests.support.engine.parity.drafters import DRAFTERS
from tests.support.engine.parity.subjects import seeded
from tests.support.engine.tiny import shallow, write_folder

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
KEY = mx.random.key(0)


def drafts(drafter, target):
    read_prompt(target, drafter, TOKENS)
    return drafted(drafter, TOKENS)


def assert_same_network(one, other, states):
    """Behind made-up states."""
    after = mx.arange(1, states.shape[1] + 1)[None]
    first, second = (
        each.logits(each(each.begin(states), after, "causal", each.make_cache()))
        for each in (one, other)
    )
    assert mx.array_equal(first, second)


# --- Heads


def pair():
    target = Decoder(shallow("llama"))
    bound = heads.untrained(target.model)
    bound.head.moved = 0.2 * mx.random.normal(bound.head.moved.shape, key=KEY)
    return target, head_drafter(target, bound), bound


def chain(bound, target, tokens, length):
    """The same from nothing: one pass of the target, one of the head, and no caches; and a row for
    every token, of which those that are not kept are impossible where they are not in `tokens`."""
    rows = output_rows(target.model, mx.arange(target.vocabulary)) + bound.head.moved
    rows[bound.kept] = bound.head.output.weight
    impossible = mx.full((target.vocabulary,), -mx.inf)
    impossible[mx.concatenate([bound.kept, mx.array(tokens)])] = 0.0
    fresh = Decoder(target.model)
    states = fresh.record(bound.shape.layers)
    fresh.read(mx.array(tokens[:-1]))
    head, embed = bound.head, target.model.model.embed_tokens
    begun = [head.begin(states.between(0, len(tokens) - 1)[None])]
    after, drafted = list(tokens[1:]), []
    for _ in range(length):
        state = head(mx.concatenate(begun, axis=1), embed(mx.array([after])), "causal")
        logits = head.norm(state)[0, -1] @ rows.T + impossible
        token = int(mx.argmax(logits).item())
        begun.append(head.go_on(state[:, -1:]))
        after.append(token)
        drafted.append(token)
    return drafted


def test_a_head_says_what_its_network_says_and_what_is_in_the_text_without_a_row_of_its_own():
    target, drafter, bound = pair()
    read_prompt(target, drafter, TOKENS)
    assert proposed(drafter, TOKENS) == chain(bound, target, TOKENS, 4)

    target, drafter, bound = pair()
    bound.head.output.weight = bound.head.output.weight - 10.0 * bound.head.norm.weight
    odd, even = [3, 1, 5, 9, 7, 5, 11], [2, 4, 6, 8, 4, 6, 10]
    assert not {*odd} & {*bound.kept.tolist()}
    read_prompt(target, drafter, odd)
    said = {*proposed(drafter, odd)}
    target.rewind(0)
    drafter.rewind(0)
    read_prompt(target, drafter, even)
    assert said & {*odd}
    assert not {*proposed(drafter, even)} & {*odd}  # the other text is forgotten


# --- Gemma-4 assistants


def test_an_assistant_reads_all_that_the_target_has_not_read():
    """From one position: then the drafted tokens are what it would draft after the first."""
    target = Decoder(gemma4.build_target("large"), block=BLOCK)
    drafter = gemma4.assistant_drafter(target, "large")
    list(target.prefill(TOKENS))
    guess, likely = drafted(drafter, TOKENS)
    further = drafted(drafter, [*TOKENS, *guess[:2]], length=2)
    assert_same_draft(further, (guess[2:], likely[2:]))


def test_a_target_may_be_part_of_a_model_that_sees(tmp_path):
    whole = DRAFTERS["gemma-4-assistant"]
    sizes = {"model_type": "gemma4", "vocab_size": 64, "text_config": dict(whole.target)}
    target = Decoder(seeded(sizes))
    drafter = load_gemma_assistant(describe_drafter(whole.write(tmp_path)), target)
    assert drafter._network.caches == {"sliding_attention": 4, "full_attention": 5}
    list(target.prefill(TOKENS))
    assert len(drafted(drafter, TOKENS)[0]) == 4


# --- EAGLE-3 and EAGLE


def loaded(folder, target):
    return eagle.load_network(describe_drafter(folder), target)


@pytest.fixture
def target():
    return Decoder(shallow("llama", vocabulary=24))


def test_one_state_as_wide_as_its_own_needs_no_matrix(target, tmp_path):
    """NVIDIA's heads that read the target's last state."""
    folder = eagle_subject("EAGLE-3", target.model).write(tmp_path)
    changed(folder, lambda tensors: tensors.pop("fc.weight"))
    says(eagle_config={"use_aux_hidden_state": False})(folder)
    network = loaded(folder, target)
    assert network.taps == ("norm",)
    states = mx.random.normal((1, 3, 1, 64), key=KEY)
    assert mx.array_equal(network.begin(states), states[:, :, 0])


def test_names_that_vllm_and_older_files_use(target, tmp_path):
    subject = eagle_subject("EAGLE-3", target.model)
    renamed = {
        "model." + name.replace("layers.0.", "midlayer."): mx.array(tensor)
        for name, tensor in subject.weights().items()
    }
    renamed["model.midlayer.self_attn.rotary_emb.inv_freq"] = mx.zeros((4,))
    folder = subject.write(tmp_path)
    plain = loaded(folder, target)
    mx.eval(plain.parameters())
    mx.save_safetensors(str(folder / "model.safetensors"), renamed)
    states = mx.random.normal((1, 3, 2, 64), key=KEY)
    assert_same_network(plain, loaded(folder, target), states)


def test_a_map_of_known_tokens_will_do(target, tmp_path):
    folder = eagle_subject("EAGLE-3", target.model).write(tmp_path)
    by_list, state = loaded(folder, target), mx.random.normal((1, 3, 64), key=KEY)
    expected = by_list.logits(state)
    mx.eval(expected)
    changed(folder, lambda tensors: tensors.pop("d2t"))
    has(t2d=[token % 3 != 2 for token in range(24)])(folder)
    assert mx.array_equal(loaded(folder, target).logits(state), expected)


# --- MTP modules


def test_a_module_proposes_only_kept_tokens():
    target = Decoder(build_target("qwen3_5"))
    module, rows = untrained(target.model), [60, 3, 17, 22, 41]
    drafter = drafter_by(module, target, kept=rows)
    read_prompt(target, drafter, TOKENS)
    draft = drafter.propose(TOKENS, up_to(4), Sampling(temperature=1.0), KEY)
    assert set(draft.tokens.tolist()) <= set(rows)
    mass = draft.distributions.sum(axis=0).tolist()
    assert {token for token, q in enumerate(mass) if q > 0.0} == set(rows)
    everything = drafter_by(module, target)._network
    state = mx.random.normal((1, 2, 64))
    logits = drafter._network.logits(state)
    assert mx.allclose(logits, everything.logits(state)[..., rows], atol=1e-5)


@pytest.mark.parametrize("file", ["mtp.safetensors", "model-00002-of-00002.safetensors"])
def test_a_module_is_found_among_the_targets_own_tensors(file, tmp_path):
    subject = DRAFTERS["mtp-qwen3.5"]
    target = Decoder(subject.target_model())
    alone = mtp.load_mtp(describe_drafter(subject.write(tmp_path / "alone")), target)
    theirs = {"language_model.model.norm.weight": mx.ones((7,)), "lm_head.weight": mx.ones((7, 7))}
    (tmp_path / "both").mkdir()
    first = "model-00001-of-00002" if "-of-" in file else "model"
    mx.save_safetensors(str(tmp_path / "both" / f"{first}.safetensors"), theirs)
    (tmp_path / "alone" / "model.safetensors").rename(tmp_path / "both" / file)
    (tmp_path / "alone" / "config.json").rename(tmp_path / "both" / "config.json")
    other = Decoder(target.model)
    module = own_module(ModelFolder(tmp_path / "both"))
    both = mtp.load_mtp(module, other)
    assert_same_draft(drafts(alone, target), drafts(both, other))
    assert both.name == "MTP"


def test_a_target_that_kept_its_module_drafts_with_it(tmp_path):
    """Tensors that are no target's own are left alone by what loads the target."""
    write_folder("qwen3_5", tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = mx.load(str(file))
    target = Decoder(load(ModelFolder(tmp_path)).model)
    for name, array in tree_flatten(untrained(target.model).parameters()):
        tensors["mtp." + PUBLISHED[name.split(".")[0]] + name.partition(".")[2]] = array
    mx.eval(tensors)
    mx.save_safetensors(str(file), tensors)
    target = Decoder(load(ModelFolder(tmp_path)).model)
    module = own_module(ModelFolder(tmp_path))
    drafter = mtp.load_mtp(module, target)
    assert len(drafts(drafter, target)[0]) == 4
    assert target.record(("norm",)).between(0, 1).shape == (1, 1, 64)


def test_glms_module_may_be_taken_apart_already(tmp_path):
    """As mlx-vlm writes it: other names, experts stacked, and latent attention in two matrices."""
    subject = DRAFTERS["mtp-glm4-moe-lite"]
    target = Decoder(subject.target_model())
    network = mtp.load_network(describe_drafter(subject.write(tmp_path / "whole")), target)
    names = {
        "token_norm.": "model.enorm.",
        "state_norm.": "model.hnorm.",
        "fuse.": "model.eh_proj.",
        "norm.": "model.shared_head_norm.",
        "layer.": "model.mtp_block.",
    }
    tensors = {
        next(n + name.removeprefix(o) for o, n in names.items() if name.startswith(o)): array
        for name, array in tree_flatten(network._module.parameters())
    }
    tensors |= {name: mx.ones((64, 32)) for name in ("lm_head.weight", "model.embed_tokens.weight")}
    (tmp_path / "apart").mkdir()
    mx.save_safetensors(str(tmp_path / "apart" / "model.safetensors"), tensors)
    (tmp_path / "apart" / "config.json").write_text('{"model_type": "glm4_moe_lite_mtp"}')
    again = mtp.load_network(describe_drafter(tmp_path / "apart"), target)
    assert_same_network(network, again, mx.random.normal((1, 5, 1, 32)))
