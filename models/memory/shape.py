"""The sizes in a config.json: a model's layers, and what each keeps of a conversation.

Reads a config as mlx-lm does. Knows names and defaults of architectures; nothing of bytes, and
nothing of machines. A layer of unknown kind counts as full attention, which keeps the most.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from models.errors import Problem
from models.model_folder import MOST_LAYERS, absurd

LayerKind = Literal["full", "window", "recurrent", "none"]

_LARGEST = 1 << 26  # rows of an output layer, say
_LARGEST_STATE = 1 << 34

# For these mlx-lm makes caches as long as the window; for others they keep everything.
_WINDOWED = {
    "afmoe", "cohere2", "exaone4", "exaone_moe", "gemma3", "gemma3_text", "gemma3n", "gemma4",
    "gemma4_text", "gpt_oss", "laguna", "llama", "mellum", "ministral3", "mistral", "mistral3",
    "olmo3", "plamo3", "step3p5",
}  # fmt: skip
# Architectures with a period of layers; its last layer attends to everything.
_PERIODS = {"gemma3": 6, "gemma3_text": 6, "gemma4": 5, "gemma4_text": 5, "cohere2": 4}
_PERIODS |= {"olmo3": 4, "gpt_oss": 2, "plamo3": 8}
_GEMMA3 = {"head_dim": 256, "sliding_window": 512}
_DEFAULTS: dict[str, dict[str, int]] = {
    "gemma3": _GEMMA3 | {"num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 262208},
    "gemma3_text": _GEMMA3
    | {"num_attention_heads": 4, "num_key_value_heads": 1, "vocab_size": 262144},
    "gemma4": _GEMMA3 | {"num_key_value_heads": 1, "vocab_size": 262144},
    "gemma4_text": _GEMMA3 | {"num_key_value_heads": 1, "vocab_size": 262144},
    "gpt_oss": {"head_dim": 64, "num_key_value_heads": 8, "sliding_window": 128},
    "plamo3": {"head_dim": 128, "num_key_value_heads": 4, "sliding_window": 2048},
}
_LATENT = {
    "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa", "kimi_k2", "longcat_flash",
    "mistral4",
}  # fmt: skip
_FULL, _WINDOW = ("full", "attention", "full_attention", "*"), ("sliding", "local", "window")
_RECURRENT = ("linear", "mamba", "conv", "recurrent", "ssm", "rwkv", "gated_delta")
_ALWAYS_RECURRENT = ("mamba", "falcon_mamba", "mamba2", "rwkv")


@dataclass(frozen=True, slots=True)
class Layer:
    """The numbers that a layer keeps of a conversation.

    `key_width` and `value_width`: numbers for each position. `window`: the number of earlier
    positions that a layer of kind window attends to. `state`: numbers of a recurrent layer,
    at any length; `exact_state`: how many of them are always float32; `row_state`: numbers
    for every row of its latest pass.
    """

    kind: LayerKind
    key_width: int = 0
    value_width: int = 0
    window: int = 0
    state: int = 0
    exact_state: int = 0
    row_state: int = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's sizes. `active_width`: the inner width of the feed-forward layer for one token,
    over all its experts; `largest_matrix`: the number of weights of the largest; `kinds`: the
    different layers, and how many there are of each."""

    layers: tuple[Layer, ...]
    hidden_size: int
    active_width: int
    vocabulary: int
    attention_heads: int
    head_dim: int
    largest_matrix: int
    context_length: int | None = None
    kinds: tuple[tuple[Layer, int], ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(Counter(self.layers).items()))


def read_shape(config: Mapping[str, Any]) -> Shape:
    """Return the sizes in `config`. Raises Problem if they are missing or absurd."""
    return _Reader(config).shape()


class _Reader:
    """A config together with its text model's part."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        nested = config.get("text_config")
        self._tables = [nested] if isinstance(nested, Mapping) else []
        self._tables.append(config)
        kind = config.get("model_type")
        self._type = kind if isinstance(kind, str) else ""

    def shape(self) -> Shape:
        hidden = self._must("hidden_size", "n_embd", "d_model", "model_dim", "dim")
        count = self._must(
            "num_hidden_layers", "n_layer", "n_layers", "num_layers", most=MOST_LAYERS
        )
        heads = self._number("num_attention_heads", "n_head", "n_heads", "num_heads") or max(
            1, hidden // 64
        )
        head_dim = self._number("head_dim") or max(1, hidden // heads)
        vocabulary = self._must("vocab_size", "n_vocab", "padded_vocab_size")
        width = self._number("intermediate_size", "block_ff_dim", "ffn_dim", "n_inner")
        expert = self._number("moe_intermediate_size") or width or 4 * hidden
        experts = self._number("num_experts", "num_local_experts", "n_routed_experts") or 0
        chosen = self._number("num_experts_per_tok", "moe_topk", "top_k_experts") or 1
        shared = self._number("shared_expert_intermediate_size") or (
            expert * (self._number("n_shared_experts") or 0)
        )
        sparse = expert * min(chosen, experts) + shared if experts else 0
        return Shape(
            layers=tuple(self._layer(i, count, hidden, heads, head_dim) for i in range(count)),
            hidden_size=hidden,
            active_width=max(sparse, width or 4 * hidden if not experts else 0),
            vocabulary=vocabulary,
            attention_heads=heads,
            head_dim=head_dim,
            largest_matrix=max(vocabulary * hidden, experts * expert * hidden),
            context_length=self._number("max_position_embeddings", "n_positions", "max_seq_len"),
        )

    def _layer(self, i: int, count: int, hidden: int, heads: int, head_dim: int) -> Layer:
        if i >= count - (self._number("num_kv_shared_layers") or 0):
            return Layer("none")
        kind = self._kind(i)
        if kind == "none":
            return Layer("none")
        if kind == "recurrent":
            return self._recurrent(hidden)
        latent, rope = self._number("kv_lora_rank"), self._number("qk_rope_head_dim") or 0
        if latent and _LATENT & {self._type, str(self._value("model_type"))}:
            return Layer("full", latent + (self._number("index_head_dim") or 0), rope)
        if latent:
            key = (self._number("qk_nope_head_dim") or head_dim) + rope
            return Layer("full", heads * key, heads * (self._number("v_head_dim") or head_dim))
        groups = self._number("num_key_value_heads", "n_kv_heads", "num_kv_heads", at=i) or heads
        window = self._number("sliding_window", "attention_window_size", "window_size") or 0
        if kind == "full":
            head_dim = self._number("global_head_dim") or head_dim
            groups = self._number("num_global_key_value_heads") or groups
        width = groups * head_dim
        return (
            Layer(kind, width, width, window) if kind == "window" else Layer("full", width, width)
        )

    def _kind(self, i: int) -> LayerKind:
        if self._type.startswith(_ALWAYS_RECURRENT):
            return "recurrent"
        period = self._number("full_attention_interval")
        if period is None and self._number("linear_num_value_heads"):
            period = 4
        if period is not None:
            return "full" if (i + 1) % period == 0 else "recurrent"
        full = self._list("full_attn_idxs", "attn_layer_indices")
        if full is not None:
            return "full" if i in full else "recurrent"
        named = self._named(i)
        if named == "window" or named is None:
            return "window" if self._slides(i, named) else "full"
        return named

    def _named(self, i: int) -> LayerKind | None:
        pattern = self._value("hybrid_override_pattern")
        if isinstance(pattern, str) and i < len(pattern):
            kinds: dict[str, LayerKind] = {"M": "recurrent", "*": "full"}
            return kinds.get(pattern[i], "none")
        period, offset = self._number("attn_layer_period"), self._number("attn_layer_offset") or 0
        if period is not None:
            return "full" if i % period == offset else "recurrent"
        names = self._list("layer_types", "layers_block_type", "block_types")
        name = names[i] if names is not None and i < len(names) else None
        if not isinstance(name, str):
            return None
        name = name.lower()
        if any(part in name for part in _RECURRENT):
            return "recurrent"
        return "window" if any(part in name for part in _WINDOW) else "full"

    def _slides(self, i: int, named: LayerKind | None) -> bool:
        """Whether this layer's cache is only as long as the window."""
        if self._type not in _WINDOWED or not self._number("sliding_window"):
            return False
        pattern = self._value("sliding_window_pattern")
        if isinstance(pattern, str) and pattern:
            return pattern[i % len(pattern)] == "L"
        if named is not None and self._type not in ("gemma3", "gemma3_text", "cohere2"):
            return True
        period = pattern if type(pattern) is int and pattern > 0 else _PERIODS.get(self._type)
        return period is not None and (i + 1) % period != 0

    def _recurrent(self, hidden: int) -> Layer:
        kernel = self._number("linear_conv_kernel_dim", "conv_kernel", "mamba_d_conv", "d_conv")
        before = (kernel or 4) - 1
        if self._number("conv_L_cache"):
            return Layer("recurrent", row_state=hidden)
        values = self._number("linear_num_value_heads")
        if values:
            keys = self._number("linear_num_key_heads") or values
            key_dim = self._number("linear_key_head_dim") or 128
            value_dim = self._number("linear_value_head_dim") or key_dim
            mixed = 2 * keys * key_dim + values * value_dim
            exact = values * value_dim * key_dim
            return Layer("recurrent", state=before * mixed, exact_state=_sane(exact))
        state = self._number("state_size", "ssm_state_size", "mamba_d_state", "d_state") or 16
        heads = self._number("mamba_num_heads", "mamba_n_heads")
        if heads is not None:
            inner = heads * (self._number("mamba_head_dim", "mamba_d_head") or 64)
            groups = self._number("n_groups", "mamba_n_groups") or 1
            mixed = inner + 2 * groups * state
            return Layer("recurrent", state=_sane(before * mixed + inner * state))
        inner = (self._number("mamba_expand", "expand") or 2) * hidden
        if self._type.startswith(_ALWAYS_RECURRENT):
            inner = self._number("intermediate_size", "d_inner") or inner
        return Layer("recurrent", state=_sane((before + state) * inner))

    def _value(self, name: str) -> Any:
        for table in self._tables:
            if table.get(name) is not None:
                return table[name]
        return None

    def _list(self, *names: str) -> list[Any] | None:
        return next((v for name in names if isinstance(v := self._value(name), list)), None)

    def _number(self, *names: str, at: int = 0, most: int = _LARGEST) -> int | None:
        """Return the first positive whole number under `names`; in a list, the entry of layer
        `at`."""
        for table in (*self._tables, _DEFAULTS.get(self._type, {})):
            for name in names:
                value = table.get(name)
                if isinstance(value, list) and value:
                    value = value[min(at, len(value) - 1)]
                if type(value) is int and value > most:
                    raise absurd(name, value)
                if type(value) is int and value > 0:
                    return value
        return None

    def _must(self, *names: str, most: int = _LARGEST) -> int:
        value = self._number(*names, most=most)
        if value is None:
            raise Problem(
                f"The model's config.json does not say its {names[0]}.",
                "Choose a model that mlx-lm supports, or download it again.",
            )
        return value


def _sane(state: int) -> int:
    if state > _LARGEST_STATE:
        raise Problem(
            f"The model's config.json asks for {min(state, 10**300):.4g} numbers of state in a "
            "layer.",
            "Download the model again, or choose another.",
        )
    return state
