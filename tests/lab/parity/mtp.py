"""MTP modules: Qwen3.5's against mlx-vlm's, dense and of experts, in all three spellings; those of
GLM-4.7-Flash, DeepSeek-V3 and MiMo against transformers'."""

from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.core as mx
import numpy as np

from engine.core.decoder import Decoder
from engine.drafters.mtp import load_network
from models.drafters.folders import describe_drafter
from tests.lab.parity.by_torch import by_torch
from tests.lab.parity.states import continued
from tests.lab.parity.subjects import (
    PROMPT,
    Arrays,
    Subject,
    numbers,
    subjects,
    target_reads_as_mlx_does,
)

DRAFTED = 4
SUBJECTS = subjects("mtp")
PUBLISHED, EXPERTS, SIDECAR, SPECULATORS, GLM, DEEPSEEK, MIMO = SUBJECTS
BY_MLX_VLM = SUBJECTS[:4]
_QWEN = ("fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")
_SPECULATORS = ("input_proj", "token_layernorm", "hidden_layernorm", "final_layernorm")


def theirs(subject: Subject) -> Arrays:
    """By mlx-vlm where it has such modules, else by transformers."""
    return _by_mlx_vlm(subject) if subject in BY_MLX_VLM else _by_transformers(subject)


def _by_transformers(subject: Subject) -> Arrays:
    target = subject.target_model()
    inputs = {
        "embedding": numbers(target.model.embed_tokens.weight),
        "head": numbers(target.lm_head.weight),
        "states": numbers(target.model(mx.array([PROMPT[:-1]]))[0]),
        "ids": np.array(PROMPT[1:], dtype=np.int64),
        "drafted": np.array(DRAFTED),
    }
    return by_torch("transformers_torch.py", subject, inputs, packages="transformers")


def _by_mlx_vlm(subject: Subject) -> Arrays:
    from mlx_vlm.speculative.drafters.qwen3_5_mtp import Model, ModelConfig

    text = dict(subject.target) | {"model_type": "qwen3_5_text"}
    model = Model(ModelConfig.from_dict({"text_config": text}))
    tensors = {_for_mlx_vlm(name): mx.array(a) for name, a in subject.weights().items()}
    model.load_weights(list(model.sanitize(tensors).items()))
    target = subject.target_model()
    model.bind(target.language_model)
    tokens = list(PROMPT)
    states = target.language_model.model(mx.array([tokens[:-1]]))
    after = mx.array([tokens[1:]])

    def fresh() -> None:
        model._cache, model._next_position = model.make_cache(), 0

    def read(ids: mx.array, hidden: mx.array) -> tuple[mx.array, mx.array]:
        hidden = model._forward_tokens(ids, hidden, mx.int32)
        return hidden, model._lm_head_fn(hidden)[0]

    fresh()
    _, prefill = read(after, states)
    fresh()
    steps = []
    for i in range(after.shape[1]):
        state, logits = read(after[:, i : i + 1], states[:, i : i + 1])
        steps.append(logits)
    drafted, draft = [steps[-1]], [mx.argmax(steps[-1], axis=-1)]
    while len(draft) < DRAFTED:
        state, logits = read(draft[-1][None], state)
        drafted.append(logits)
        draft.append(mx.argmax(logits, axis=-1))
    return {
        "prefill": numbers(prefill),
        "steps": numbers(mx.concatenate(steps)),
        "drafted logits": numbers(mx.concatenate(drafted)),
        "draft": numbers(mx.concatenate(draft)).astype(np.int32),
    }


def _for_mlx_vlm(name: str) -> str:
    """The name of a speculators' tensor, as Qwen's; others as they are."""
    _, found, rest = name.partition("mtp_layers.0.")
    if not found:
        return name
    for theirs, qwens in zip(_SPECULATORS, _QWEN, strict=True):
        if rest.startswith(theirs):
            return f"mtp.{qwens}.weight"
    return f"mtp.layers.0.{rest}"


@target_reads_as_mlx_does
def ours(subject: Subject) -> Arrays:
    """By our network, with our target's recording."""
    target = Decoder(subject.target_model())
    with TemporaryDirectory() as folder:
        network = load_network(describe_drafter(subject.write(Path(folder))), target)
    return continued(network, target, drafted=DRAFTED)
