"""Tiny GGUF files with random weights, and the same weights as MLX should see them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import dequantize, quantize
from tokenizers.pre_tokenizers import ByteLevel

ALPHABET = sorted(ByteLevel.alphabet())
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOKENS = [*ALPHABET, "ab", *SPECIAL]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class TinyGguf:
    """What to write; every field has a working default, tests change the one they are about."""

    architecture: str = "llama"
    kind: GGMLQuantizationType = GGMLQuantizationType.F32
    layers: int = 2
    width: int = 64
    heads: int = 4
    key_heads: int = 2
    inner: int = 96
    head_kind: GGMLQuantizationType | None = None  # None: no output.weight
    head_is_embedding: bool = False
    rows: int | None = None  # of the embedding; None: as many as TOKENS
    rope_factors: list[float] | None = None
    extra: dict[str, Any] = field(default_factory=dict)  # metadata that is added or replaced
    leave_out: tuple[str, ...] = ()
    more_tensors: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def metadata(self) -> dict[str, Any]:
        prefix = self.architecture
        return {
            "general.architecture": self.architecture,
            f"{prefix}.block_count": self.layers,
            f"{prefix}.context_length": 512,
            f"{prefix}.embedding_length": self.width,
            f"{prefix}.feed_forward_length": self.inner,
            f"{prefix}.attention.head_count": self.heads,
            f"{prefix}.attention.head_count_kv": self.key_heads,
            f"{prefix}.attention.layer_norm_rms_epsilon": 1e-5,
            f"{prefix}.rope.freq_base": 10_000.0,
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": TOKENS,
            "tokenizer.ggml.token_type": [1] * (len(ALPHABET) + 1) + [3] * len(SPECIAL),
            "tokenizer.ggml.merges": ["a b"],
            "tokenizer.ggml.eos_token_id": TOKENS.index("<|im_end|>"),
            "tokenizer.ggml.bos_token_id": TOKENS.index("<|im_start|>"),
            "tokenizer.chat_template": TEMPLATE,
        } | self.extra

    def write(self, path: Path) -> dict[str, numpy.ndarray]:
        """Write the file; return the dequantized weights under their MLX names."""
        random = numpy.random.default_rng(7)
        writer = GGUFWriter(path, self.architecture)
        for key, value in self.metadata().items():
            if key == "general.architecture" or value is None:
                continue
            if isinstance(value, str):
                writer.add_string(key, value)
            elif isinstance(value, bool):
                writer.add_bool(key, value)
            elif isinstance(value, float):
                writer.add_float32(key, value)
            elif isinstance(value, int):
                writer.add_uint32(key, value)
            else:
                writer.add_array(key, value)
        weights: dict[str, numpy.ndarray] = {}
        embedding = numpy.zeros(0)
        for name, (mlx_name, shape) in self._shapes().items():
            if name in self.leave_out:
                continue
            scale = 1 / numpy.sqrt(shape[-1])
            values = (random.standard_normal(shape) * scale).astype(numpy.float32)
            kind = self.kind if len(shape) == 2 else GGMLQuantizationType.F32
            if name == "output.weight":
                assert self.head_kind is not None
                kind = self.head_kind
                if self.head_is_embedding:
                    values = embedding
            elif name == "token_embd.weight":
                embedding = values
            heads = {"attn_q": self.heads, "attn_k": self.key_heads}.get(name.split(".")[-2])
            if self.architecture != "llama":
                heads = None
            if kind == GGMLQuantizationType.F64:  # which the importer is to refuse
                writer.add_tensor(name, values.astype(numpy.float64))
                continue
            data = quantize(permuted(values, heads) if heads else values, kind)
            writer.add_tensor(name, data, raw_dtype=kind)
            stored = dequantize(data, kind)
            weights[mlx_name] = unpermuted(stored, heads) if heads else stored
        if self.rope_factors is not None:
            factors = numpy.array(self.rope_factors, dtype=numpy.float32)
            writer.add_tensor("rope_freqs.weight", factors)
        for name, shape in self.more_tensors.items():
            writer.add_tensor(name, numpy.zeros(shape, dtype=numpy.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return weights

    def _shapes(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        head_width = self.width // self.heads
        keys = self.key_heads * head_width
        vocabulary = (len(TOKENS) if self.rows is None else self.rows, self.width)
        shapes = {"token_embd.weight": ("model.embed_tokens.weight", vocabulary)}
        parts: dict[str, tuple[str, tuple[int, ...]]] = {
            "attn_norm.weight": ("input_layernorm.weight", (self.width,)),
            "ffn_norm.weight": ("post_attention_layernorm.weight", (self.width,)),
            "attn_q.weight": ("self_attn.q_proj.weight", (self.width, self.width)),
            "attn_k.weight": ("self_attn.k_proj.weight", (keys, self.width)),
            "attn_v.weight": ("self_attn.v_proj.weight", (keys, self.width)),
            "attn_output.weight": ("self_attn.o_proj.weight", (self.width, self.width)),
            "ffn_gate.weight": ("mlp.gate_proj.weight", (self.inner, self.width)),
            "ffn_up.weight": ("mlp.up_proj.weight", (self.inner, self.width)),
            "ffn_down.weight": ("mlp.down_proj.weight", (self.width, self.inner)),
        }
        if self.architecture == "qwen2":
            parts["attn_q.bias"] = ("self_attn.q_proj.bias", (self.width,))
            parts["attn_k.bias"] = ("self_attn.k_proj.bias", (keys,))
            parts["attn_v.bias"] = ("self_attn.v_proj.bias", (keys,))
        for layer in range(self.layers):
            for part, (name, shape) in parts.items():
                shapes[f"blk.{layer}.{part}"] = (f"model.layers.{layer}.{name}", shape)
        shapes["output_norm.weight"] = ("model.norm.weight", (self.width,))
        if self.head_kind is not None:
            shapes["output.weight"] = ("lm_head.weight", vocabulary)
        return shapes


def permuted(rows: numpy.ndarray, heads: int) -> numpy.ndarray:
    """What llama.cpp's converter does to q and k: (head, 2, d/2) to (head, d/2, 2)."""
    return rows.reshape(heads, 2, -1, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def unpermuted(rows: numpy.ndarray, heads: int) -> numpy.ndarray:
    return rows.reshape(heads, -1, 2, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)
