"""How many weights a model has, and how many one token needs, from its config alone.

Writing a token costs about as much as reading the weights that it needs: all of them in a dense
model, the selected experts' in a mixture. Knows dense and mixture models of the usual
shape, and the linear attention and convolutions of hybrids; for other configs it returns None.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.architectures import text_fields

_LARGEST = 10**9  # larger numbers in a config are ignored


@dataclass(frozen=True, slots=True)
class Parameters:
    """Numbers of weights, without norms and biases.

    `embedding` and `output` are one matrix where they are `tied`; `layers` are all layers together,
    `active_layers` the part that one token needs.
    """

    embedding: int
    tied: bool
    layers: int
    active_layers: int

    @property
    def total(self) -> int:
        return self.layers + self.embedding * (1 if self.tied else 2)

    @property
    def active(self) -> int:
        """The weights that one token needs: of an untied embedding, that is one row."""
        return self.active_layers + self.embedding

    @property
    def active_share(self) -> float:
        return self.active / self.total

    def exit_share(self, part: float) -> float:
        """Return the share of a token's work if only this `part` of the layers runs."""
        return (self.active_layers * part + self.embedding) / self.active


def count_parameters(config: Mapping[str, Any]) -> Parameters | None:
    """Return the counts of a config.json; None if its shape is not known here."""
    fields = _Fields(config)
    hidden, vocabulary = fields.number("hidden_size", "n_embd"), fields.number("vocab_size")
    layers = fields.number("num_hidden_layers", "n_layer")
    mlp = _mlp(fields, layers)
    mixers = [_mixer(fields, kind) for kind in _kinds(fields, layers)]
    if not (hidden and vocabulary and layers) or mlp is None or None in mixers:
        return None
    mixing = sum(mixer or 0 for mixer in mixers)
    usual = fields.model_type.startswith(("gemma", "lfm2"))
    tied = fields.flag("tie_word_embeddings", "tie_embedding", default=usual)
    return Parameters(hidden * vocabulary, tied, mixing + mlp[0], mixing + mlp[1])


def has_experts(config: Mapping[str, Any]) -> bool:
    """Return whether a model is a mixture of experts, of any shape."""
    return any("expert" in key and value for key, value in _Fields(config).values.items())


class _Fields:
    """A config, or its part about text, whose values are checked as they are read."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.values = text_fields(config)
        self.model_type = str(self.values.get("model_type"))

    def number(self, *keys: str, default: int = 0) -> int:
        """Return the first positive whole number that is not absurdly large, or the default."""
        for key in keys:
            value = self.values.get(key)
            if type(value) is int and 0 < value <= _LARGEST:
                return value
        return default

    def flag(self, *keys: str, default: bool) -> bool:
        values = (self.values.get(key) for key in keys)
        return next((value for value in values if isinstance(value, bool)), default)


def _kinds(fields: _Fields, layers: int) -> list[str]:
    """Return the kind of mixer in each layer, as `layer_types` names it."""
    types = fields.values.get("layer_types")
    if isinstance(types, list) and len(types) == layers and all(isinstance(x, str) for x in types):
        return types
    if layers > 10_000:
        return ["unknown"]
    attention = fields.values.get("full_attn_idxs")
    if isinstance(attention, list):
        return ["full_attention" if i in attention else "conv" for i in range(layers)]
    interval = fields.number("full_attention_interval")
    if interval:
        kinds = ("full_attention", "linear_attention")
        return [kinds[0] if (i + 1) % interval == 0 else kinds[1] for i in range(layers)]
    # Compressed attention, or attention joined with a state space, is not counted here.
    unusual = ("kv_lora_rank", "ssm_cfg", "state_size", "mamba_d_state", "ssm_state_size")
    plain = all(fields.values.get(key) is None for key in unusual)
    known = plain and fields.number("num_attention_heads", "n_head")
    return ["full_attention" if known else "unknown"] * layers


def _mixer(fields: _Fields, kind: str) -> int | None:
    """Return the weights that mix the tokens in one layer, such as attention's."""
    hidden = fields.number("hidden_size", "n_embd")
    heads = fields.number("num_attention_heads", "n_head", default=1)
    if kind in ("full_attention", "sliding_attention"):
        width = fields.number("head_dim", default=hidden // heads)
        keys = fields.number("num_key_value_heads", default=heads)
        usual = fields.model_type.startswith(("qwen3_5", "qwen3_next"))
        gate = 1 if fields.flag("attn_output_gate", default=usual) else 0
        return hidden * width * (heads * (2 + gate) + 2 * keys)
    if kind == "linear_attention":
        keys = fields.number("linear_num_key_heads") * fields.number("linear_key_head_dim")
        value_heads = fields.number("linear_num_value_heads")
        values = value_heads * fields.number("linear_value_head_dim")
        return hidden * (2 * keys + 3 * values + 2 * value_heads) if keys and values else None
    return 4 * hidden * hidden if kind == "conv" else None


def _mlp(fields: _Fields, layers: int) -> tuple[int, int] | None:
    """Return the weights of all feed-forward layers: (all, and the ones that a token needs)."""
    hidden = fields.number("hidden_size", "n_embd")
    dense = 3 * hidden * _inner(fields)
    experts = fields.number("num_local_experts", "num_experts", "n_routed_experts")
    if not experts:
        return (layers * dense, layers * dense) if dense else None
    asked = fields.number("num_experts_per_tok", "experts_per_token", "top_k_experts")
    expert = 3 * hidden * fields.number("moe_intermediate_size", "intermediate_size")
    shared = 3 * hidden * fields.number("shared_expert_intermediate_size")
    shared += expert * fields.number("n_shared_experts")
    if not (asked and expert):
        return None
    plain = min(fields.number("first_k_dense_replace", "num_dense_layers"), layers)
    mixed = layers - plain
    always = plain * dense + mixed * (shared + hidden * experts)
    return always + mixed * experts * expert, always + mixed * min(asked, experts) * expert


def _inner(fields: _Fields) -> int:
    inner = fields.number("intermediate_size", "n_inner", "block_ff_dim")
    if fields.model_type == "lfm2" and fields.flag("block_auto_adjust_ff_dim", default=True):
        multiple = fields.number("block_multiple_of", default=256)
        return -(-(2 * inner // 3) // multiple) * multiple
    return inner
