"""MTP modules: what they propose, and their folders."""

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from engine.conversation.loading import load
from engine.core.decoder import Decoder
from engine.drafters.mtp import load_mtp, load_network
from engine.request import Sampling
from models.drafters.folders import describe_drafter, own_module
from models.model_folder import ModelFolder
from tests.support.engine.helpers import assert_same_draft, drafted, read_prompt, up_to
from tests.support.engine.mtp import PUBLISHED, build_target, drafter_by, untrained
from tests.support.engine.parity.drafters import DRAFTERS
from tests.support.engine.tiny import write_folder

QWEN = DRAFTERS["mtp-qwen3.5"]
GLM = DRAFTERS["mtp-glm4-moe-lite"]
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
KEY = mx.random.key(0)

# Drafting


def test_only_kept_tokens_are_proposed():
    target = Decoder(build_target("qwen3_5"))
    module, rows = untrained(target.model), [60, 3, 17, 22, 41]
    drafter = drafter_by(module, target, kept=rows)
    read_prompt(target, drafter, TOKENS)
    draft = drafter.propose(TOKENS, up_to(4), Sampling(temperature=1.0), KEY)
    assert draft.distributions is not None
    assert set(draft.tokens.tolist()) <= set(rows)
    mass = draft.distributions.sum(axis=0).tolist()
    assert {token for token, q in enumerate(mass) if q > 0.0} == set(rows)
    everything = drafter_by(module, target)._network
    state = mx.random.normal((1, 2, 64))
    logits = drafter._network.logits(state)
    assert mx.allclose(logits, everything.logits(state)[..., rows], atol=1e-5)


# Folders


def drafts(drafter, target):
    read_prompt(target, drafter, TOKENS)
    return drafted(drafter, TOKENS)


@pytest.mark.parametrize("file", ["mtp.safetensors", "model-00002-of-00002.safetensors"])
def test_it_is_found_among_the_targets_own_tensors(file, tmp_path):
    subject = QWEN
    target = Decoder(subject.target_model())
    alone = load_mtp(describe_drafter(subject.write(tmp_path / "alone")), target)
    theirs = {"language_model.model.norm.weight": mx.ones((7,)), "lm_head.weight": mx.ones((7, 7))}
    (tmp_path / "both").mkdir()
    first = "model-00001-of-00002" if "-of-" in file else "model"
    mx.save_safetensors(str(tmp_path / "both" / f"{first}.safetensors"), theirs)
    (tmp_path / "alone" / "model.safetensors").rename(tmp_path / "both" / file)
    (tmp_path / "alone" / "config.json").rename(tmp_path / "both" / "config.json")
    other = Decoder(target.model)
    module = own_module(ModelFolder(tmp_path / "both"))
    assert module is not None
    both = load_mtp(module, other)
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
    assert module is not None
    drafter = load_mtp(module, target)
    read_prompt(target, drafter, TOKENS)
    assert len(drafted(drafter, TOKENS)[0]) == 4
    assert target.record(("norm",)).between(0, 1).shape == (1, 1, 64)


def test_glms_module_may_be_taken_apart_already(tmp_path):
    """As mlx-vlm writes it: other names, experts stacked, and latent attention in two matrices."""
    target = Decoder(GLM.target_model())
    network = load_network(describe_drafter(GLM.write(tmp_path / "whole")), target)
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
    again = load_network(describe_drafter(tmp_path / "apart"), target)
    states, after = mx.random.normal((1, 5, 1, 32)), mx.array([[1, 2, 3, 4, 5]])
    first, second = (
        each.logits(each(each.begin(states), after, "causal", each.make_cache()))
        for each in (network, again)
    )
    assert mx.array_equal(first, second)
