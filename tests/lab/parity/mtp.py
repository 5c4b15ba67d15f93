"""MTP modules: Qwen3.5's against mlx-vlm's, dense and of experts, in all three spellings; those of
GLM-4.7-Flash, DeepSeek-V3 and MiMo against transformers'."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlx.core as mx
import numpy as np

from engine.core.decoder import Decoder
from engine.drafters.mtp import load_network
from models.drafters.folders import describe_drafter
from tests.lab.parity.by_torch import by_torch
from tests.lab.parity.states import continued
from tests.lab.parity.subjects import (
    PROMPT,
    VOCABULARY,
    WIDTH,
    Arrays,
    Subject,
    numbers,
    target_reads_as_mlx_does,
)

DRAFTED = 4
Shapes = dict[str, tuple[int, ...]]

_TEXT: dict[str, Any] = {
    "model_type": "qwen3_5_text",
    "hidden_size": WIDTH,
    "num_hidden_layers": 4,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 4096,
    "full_attention_interval": 2,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "tie_word_embeddings": False,
    "mtp_num_hidden_layers": 1,
    "rope_parameters": {
        "type": "default",
        "mrope_section": [1, 1, 0],
        "rope_theta": 1e5,
        "partial_rotary_factor": 0.25,
    },
}
_EXPERTS: dict[str, Any] = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 24,
    "norm_topk_prob": True,
}
_LAYER: Shapes = {
    "self_attn.q_proj.weight": (2 * 4 * 16, WIDTH),
    "self_attn.k_proj.weight": (2 * 16, WIDTH),
    "self_attn.v_proj.weight": (2 * 16, WIDTH),
    "self_attn.o_proj.weight": (WIDTH, 4 * 16),
    "self_attn.q_norm.weight": (16,),
    "self_attn.k_norm.weight": (16,),
    "input_layernorm.weight": (WIDTH,),
    "post_attention_layernorm.weight": (WIDTH,),
}
_DENSE: Shapes = _LAYER | {
    "mlp.gate_proj.weight": (48, WIDTH),
    "mlp.up_proj.weight": (48, WIDTH),
    "mlp.down_proj.weight": (WIDTH, 48),
}
_MIXTURE: Shapes = _LAYER | {
    "mlp.gate.weight": (4, WIDTH),
    "mlp.experts.gate_up_proj": (4, 48, WIDTH),
    "mlp.experts.down_proj": (4, WIDTH, 24),
    "mlp.shared_expert.gate_proj.weight": (24, WIDTH),
    "mlp.shared_expert.up_proj.weight": (24, WIDTH),
    "mlp.shared_expert.down_proj.weight": (WIDTH, 24),
    "mlp.shared_expert_gate.weight": (1, WIDTH),
}


def _spelled(layer: Shapes, *, prefix: str, place: str, names: tuple[str, str, str, str]) -> Shapes:
    """A module's tensors. `names`: of the matrix, of the norms of token, state and output."""
    fuse, token_norm, state_norm, norm = names
    ends = {fuse: (WIDTH, 2 * WIDTH), token_norm: (WIDTH,), state_norm: (WIDTH,), norm: (WIDTH,)}
    return {f"{prefix}{name}.weight": shape for name, shape in ends.items()} | {
        f"{prefix}{place}{name}": shape for name, shape in layer.items()
    }


_QWEN = ("fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")
_SPECULATORS = ("input_proj", "token_layernorm", "hidden_layernorm", "final_layernorm")

PUBLISHED = Subject(
    name="mtp-qwen3.5",
    config={"model_type": "qwen3_5", "text_config": _TEXT},
    shapes=_spelled(_DENSE, prefix="mtp.", place="layers.0.", names=_QWEN),
    zero_centred=True,
    target=_TEXT | {"model_type": "qwen3_5"},
)
EXPERTS = Subject(
    name="mtp-qwen3.5-experts",
    config={"model_type": "qwen3_5_moe", "text_config": _TEXT | _EXPERTS},
    shapes=_spelled(_MIXTURE, prefix="mtp.", place="layers.0.", names=_QWEN),
    zero_centred=True,
    seed=1,
    target=_TEXT | _EXPERTS | {"model_type": "qwen3_5_moe"},
)
SIDECAR = Subject(
    name="mtp-qwen3.5-sidecar",
    config={"model_type": "qwen3_5_mtp", "block_size": 3, "text_config": _TEXT},
    shapes=_spelled(_DENSE, prefix="", place="layers.0.", names=_QWEN),
    seed=2,
    target=_TEXT | {"model_type": "qwen3_5"},
)
SPECULATORS = Subject(
    name="mtp-qwen3.5-speculators",
    config={"speculators_model_type": "mtp", "transformer_layer_config": _TEXT},
    shapes=_spelled(_DENSE, prefix="mtp_layers.0.", place="", names=_SPECULATORS),
    zero_centred=True,
    seed=3,
    target=_TEXT | {"model_type": "qwen3_5"},
)
_LATENT: dict[str, Any] = {  # keys and values of all heads are one vector
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "moe_intermediate_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_shared_experts": 1,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 12,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-6,  # mlx-lm's GLM has it in norms where transformers' always has 1e-6
    "rope_theta": 1e4,
    "routed_scaling_factor": 1.8,
    "norm_topk_prob": True,
    "max_position_embeddings": 4096,
    "num_nextn_predict_layers": 1,
    "tie_word_embeddings": False,
}
_LATENT_LAYER: Shapes = {
    "self_attn.q_a_proj.weight": (24, WIDTH),
    "self_attn.q_a_layernorm.weight": (24,),
    "self_attn.q_b_proj.weight": (4 * (16 + 8), 24),
    "self_attn.kv_a_proj_with_mqa.weight": (16 + 8, WIDTH),
    "self_attn.kv_a_layernorm.weight": (16,),
    "self_attn.kv_b_proj.weight": (4 * (16 + 12), 16),
    "self_attn.o_proj.weight": (WIDTH, 4 * 12),
    "input_layernorm.weight": (WIDTH,),
    "post_attention_layernorm.weight": (WIDTH,),
    "mlp.gate.weight": (4, WIDTH),
    "mlp.gate.e_score_correction_bias": (4,),
    "mlp.shared_experts.gate_proj.weight": (24, WIDTH),
    "mlp.shared_experts.up_proj.weight": (24, WIDTH),
    "mlp.shared_experts.down_proj.weight": (WIDTH, 24),
    **{
        f"mlp.experts.{expert}.{name}_proj.weight": (WIDTH, 24) if name == "down" else (24, WIDTH)
        for expert in range(4)
        for name in ("gate", "up", "down")
    },
    # Copies of the target's, which lends its own:
    "embed_tokens.weight": (VOCABULARY, WIDTH),
    "shared_head.head.weight": (VOCABULARY, WIDTH),
}
_DEEPSEEK = ("eh_proj", "enorm", "hnorm", "shared_head.norm")
_MIMO: dict[str, Any] = {
    "model_type": "mimo",
    "hidden_size": WIDTH,
    "num_hidden_layers": 3,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e4,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
_MIMO_LAYER: Shapes = {
    "self_attn.q_proj.weight": (WIDTH, WIDTH),
    "self_attn.q_proj.bias": (WIDTH,),
    "self_attn.k_proj.weight": (WIDTH // 2, WIDTH),
    "self_attn.k_proj.bias": (WIDTH // 2,),
    "self_attn.v_proj.weight": (WIDTH // 2, WIDTH),
    "self_attn.v_proj.bias": (WIDTH // 2,),
    "self_attn.o_proj.weight": (WIDTH, WIDTH),
    "mlp.gate_proj.weight": (48, WIDTH),
    "mlp.up_proj.weight": (48, WIDTH),
    "mlp.down_proj.weight": (WIDTH, 48),
    "input_layernorm.weight": (WIDTH,),
    "post_attention_layernorm.weight": (WIDTH,),
}


def _behind_the_last_layer(model_type: str, *, seed: int) -> Subject:
    target = _LATENT | {"model_type": model_type}
    return Subject(
        name=f"mtp-{model_type.replace('_', '-')}",
        config=target,
        shapes=_spelled(_LATENT_LAYER, prefix="model.layers.2.", place="", names=_DEEPSEEK),
        seed=seed,
        gain=1.0,  # rows by themselves are read by other products than several at once
        target=target,
    )


GLM = _behind_the_last_layer("glm4_moe_lite", seed=4)
DEEPSEEK = _behind_the_last_layer("deepseek_v3", seed=5)
MIMO = Subject(
    name="mtp-mimo",
    config=_MIMO,
    shapes=_spelled(_MIMO_LAYER, prefix="model.mtp_layers.0.", place="", names=_SPECULATORS),
    seed=6,
    target=_MIMO,
)
BY_MLX_VLM = (PUBLISHED, EXPERTS, SIDECAR, SPECULATORS)
SUBJECTS = (*BY_MLX_VLM, GLM, DEEPSEEK, MIMO)


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
