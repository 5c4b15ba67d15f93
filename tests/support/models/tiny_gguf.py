"""Tiny GGUF files with random weights, and the same weights as MLX should see them.

Tensors are mlx-lm's own, of a tiny configuration, under the names that the `gguf` package gives
them; what llama.cpp's converters do to them is done here a second time.
"""

import json
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy
from gguf import (
    MODEL_ARCH_NAMES,
    GGMLQuantizationType,
    GGUFWriter,
    Keys,
    TokenType,
    get_tensor_name_map,
)
from gguf.quants import dequantize, quantize
from mlx.utils import tree_flatten
from tokenizers.pre_tokenizers import ByteLevel

ALPHABET = sorted(ByteLevel.alphabet())
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOKENS = [*ALPHABET, "ab", *SPECIAL]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONTEXT = 512


@dataclass(frozen=True)
class Kind:
    """An architecture as mlx-lm has it, and what only this one states.

    settings: in config.json. stated: in the metadata. ties: whether the output layer may be the
    embedding. parts: mlx-lm's names that are not those that llama.cpp's converter reads.
    """

    model_type: str
    settings: dict[str, Any] = field(default_factory=dict)
    stated: dict[str, Any] = field(default_factory=dict)
    ties: bool = True
    parts: dict[str, str] = field(default_factory=dict)
    layers: int = 2


_PERMUTED = ("llama", "smollm3", "mistral3")
# By llama.cpp's name. "{arch}" in a key is that name.
_KINDS = json.loads((Path(__file__).parents[2] / "models/data/gguf_kinds.json").read_text())
KINDS = {name: Kind(**kind) for name, kind in _KINDS.items()}
_ARCHITECTURES = {name: architecture for architecture, name in MODEL_ARCH_NAMES.items()}
ALWAYS_F32 = ("norm.weight", ".bias", "ffn_gate_inp.weight", "conv.weight", "attn_sinks.weight")


@dataclass(frozen=True)
class TinyGguf:
    """The contents to write. Every field has a working default; tests change the one that they are
    about."""

    architecture: str = "llama"
    kind: GGMLQuantizationType = GGMLQuantizationType.F32
    layers: int | None = None  # None: as few as show all kinds of layers
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

    @property
    def model(self):
        return KINDS.get(self.architecture, KINDS["llama"])

    @property
    def layer_count(self):
        return self.model.layers if self.layers is None else self.layers

    def metadata(self):
        stated = {
            Keys.LLM.BLOCK_COUNT: self.layer_count,
            Keys.LLM.CONTEXT_LENGTH: CONTEXT,
            Keys.LLM.EMBEDDING_LENGTH: self.width,
            Keys.LLM.FEED_FORWARD_LENGTH: self.inner,
            Keys.Attention.HEAD_COUNT: self.heads,
            Keys.Attention.HEAD_COUNT_KV: self.key_heads,
            Keys.Attention.LAYERNORM_RMS_EPS: 1e-5,
            Keys.Rope.FREQ_BASE: 10_000.0,
            **self.model.stated,
        }
        return {
            "general.architecture": self.architecture,
            **{key.format(arch=self.architecture): value for key, value in stated.items()},
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": TOKENS,
            "tokenizer.ggml.token_type": [TokenType.NORMAL.value] * (len(ALPHABET) + 1)
            + [TokenType.CONTROL.value] * len(SPECIAL),
            "tokenizer.ggml.merges": ["a b"],
            "tokenizer.ggml.eos_token_id": TOKENS.index("<|im_end|>"),
            "tokenizer.ggml.bos_token_id": TOKENS.index("<|im_start|>"),
            "tokenizer.chat_template": TEMPLATE,
        } | self.extra

    def config(self):
        """config.json of the same model, as its publisher would write it."""
        return {
            "model_type": self.model.model_type,
            "hidden_size": self.width,
            "num_hidden_layers": self.layer_count,
            "intermediate_size": self.inner,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_heads,
            "head_dim": self.width // self.heads,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10_000.0,
            "max_position_embeddings": CONTEXT,
            "vocab_size": len(TOKENS) if self.rows is None else self.rows,
            "tie_word_embeddings": self.head_kind is None,
            **self.model.settings,
        }

    def mlx_model(self):
        """mlx-lm's model of this configuration, with weights of its own."""
        module = import_module(f"mlx_lm.models.{self.model.model_type}")
        model = module.Model(module.ModelArgs.from_dict(self.config()))
        if self.architecture == "gemma3" and self.head_kind is None:
            model.sanitize({})
        return model

    def write(self, path, more=(), **options):
        """Write the file, with `more` tensors by name; return the dequantized weights under their
        MLX names."""
        writer = GGUFWriter(path, self.architecture, **options)
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
        weights = self._add_tensors(writer)
        for name, values in dict(more).items():
            writer.add_tensor(name, values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return weights

    def _add_tensors(self, writer):
        """Give the writer all tensors; return the dequantized weights under their MLX names."""
        random = numpy.random.default_rng(7)
        weights = {}
        embedding = numpy.zeros(0)
        for name, (mlx_name, shape) in self.tensors().items():
            if name in self.leave_out:
                continue
            scale = 1 / numpy.sqrt(shape[-1])
            values = (random.standard_normal(shape) * scale).astype(numpy.float32)
            kind = self.kind
            if name == "output.weight":
                kind = self.head_kind or self.kind
                if self.head_is_embedding:
                    values = embedding
            elif name == "token_embd.weight":
                embedding = values
            elif name.endswith(ALWAYS_F32) or name == "rope_freqs.weight":
                kind = GGMLQuantizationType.F32
            if kind == GGMLQuantizationType.MXFP4 and "_exps." not in name:
                kind = GGMLQuantizationType.Q8_0  # as in the files of gpt-oss
            if kind == GGMLQuantizationType.F64:  # which the importer is to refuse
                writer.add_tensor(name, values.astype(numpy.float64))
                continue
            heads = {"attn_q": self.heads, "attn_k": self.key_heads}.get(name.split(".")[-2])
            if self.architecture not in _PERMUTED:
                heads = None
            offset = numpy.float32(self.architecture == "gemma3" and name.endswith("norm.weight"))
            values = values.reshape([n for n in shape if n != 1]) + offset
            data = quantize(permuted(values, heads) if heads else values, kind)
            writer.add_tensor(name, data, raw_dtype=kind)
            stored = dequantize(data, kind)
            stored = unpermuted(stored, heads) if heads else stored
            weights[mlx_name] = (stored - offset).reshape(shape)
        if self.rope_factors is not None:
            factors = numpy.array(self.rope_factors, dtype=numpy.float32)
            writer.add_tensor("rope_freqs.weight", factors)
        for name, shape in self.more_tensors.items():
            writer.add_tensor(name, numpy.ones(shape, dtype=numpy.float32))
        return weights

    def tensors(self):
        """Name in the file -> name in MLX, and the shape there."""
        parameters = {
            name: array.shape for name, array in tree_flatten(self.mlx_model().parameters())
        }
        architecture = self.architecture if self.architecture in KINDS else "llama"
        known = get_tensor_name_map(_ARCHITECTURES[architecture], self.layer_count)
        found = {}
        for mlx_name, shape in parameters.items():
            name = mlx_name
            for part, theirs in self.model.parts.items():
                name = name.replace(part, theirs)
            name = known.get_name(name, try_suffixes=(".weight", ".bias"))
            assert name, mlx_name
            found[name] = (mlx_name, shape)
        return found


def permuted(rows, heads):
    """Permute q and k as llama.cpp's converter does: (head, 2, d/2) to (head, d/2, 2)."""
    return rows.reshape(heads, 2, -1, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def unpermuted(rows, heads):
    return rows.reshape(heads, -1, 2, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)
