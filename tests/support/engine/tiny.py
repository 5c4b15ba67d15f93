"""Tiny random models, so that tests need no weights: every kind of cache, built in milliseconds.

As initialized, a random model's next-token distribution is nearly flat and its greedy text soon
sticks to one token. `build` keeps the text varied with three changes:

- what the layers add outweighs the last token's own embedding: their matrices are multiplied by
  `GAIN`, the embedding is divided by it;
- attention is peaked, and so depends on the context: queries are multiplied by `PEAK`;
- top probabilities are mostly between 0.2 and 0.9: the last norm is scaled so that the standard
  deviation of the logits is `SHARPNESS`.
"""

import copy
import functools
import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map_with_path
from mlx_lm.utils import _get_classes, save_model
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

Config = dict[str, Any]

GAIN = 2.5
PEAK = 3.0
SHARPNESS = 3.0
GROUP_SIZE = 32

SPECIAL_TOKENS = ("<eos>", "<system>", "<user>", "<assistant>")  # after the 256 bytes
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<{{ message['role'] }}>{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}<eos>{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def configs(table):
    """The sizes in `tests/data/tiny_models.jsonl` of one table: config.json by architecture."""
    path = Path(__file__).parents[2] / "data" / "tiny_models.jsonl"
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row["name"]: row["config"] for row in rows if row["table"] == table}


# Layers 0 and 2 of Gemma slide, those of Qwen3.5 are gated delta nets, of LFM2 short convolutions.
_CONFIGS = configs("tiny")
ARCHITECTURES = tuple(_CONFIGS)

_EMBEDDINGS = ("embed_tokens.weight", "embeddings.weight", "wte.weight", "embed_in.weight")
_QUERIES = ("q_proj.weight", "q_norm.weight", "q_layernorm.weight")
_LAST_NORMS = ("model.norm.weight", "model.embedding_norm.weight", "backbone.norm_f.weight")


def build(
    architecture, *, seed=0, vocabulary=64, dtype=mx.float32, bits=None, sizes=None, layers=None
):
    """A model of one of `ARCHITECTURES`; quantized in groups of `GROUP_SIZE` if `bits` are given.

    `sizes`: the rest of its config.json, which other architectures need. `layers`: how many, if
    not as many as usual; two are one of each kind. Heads and embeddings are as in the real
    families: Gemma and LFM2 tie them, the others do not.
    """
    config = config_of(architecture, vocabulary=vocabulary, sizes=sizes, layers=layers)
    model_class, arguments_class = _get_classes(config)
    mx.random.seed(seed)
    model = model_class(arguments_class.from_dict(config))
    gemma3 = architecture in ("gemma3", "gemma3_text")
    if gemma3:
        model.get("language_model", model).sanitize({})  # ties the head, as files without one do
    model.eval()

    # The norms of Gemma 3 multiply by 1 + weight.
    unity = 1.0 if gemma3 else 0.0

    def scale(factors):
        def scaled(path, weight):
            shift = unity if weight.ndim == 1 else 0.0
            return (weight + shift) * factors(path, weight) - shift

        _replace(model, scaled)

    scale(_liveliness)
    logits = model(mx.random.randint(0, vocabulary, (4, 64)))
    sharpness = SHARPNESS / float(mx.std(logits))
    scale(lambda path, _: sharpness if path.endswith(_LAST_NORMS) else 1.0)

    keep_float32 = getattr(model, "cast_predicate", lambda path: True)
    _replace(model, lambda path, weight: weight.astype(dtype) if keep_float32(path) else weight)
    if bits is not None:
        nn.quantize(
            model,
            group_size=GROUP_SIZE,
            bits=bits,
            class_predicate=lambda _, layer: (
                hasattr(layer, "to_quantized") and layer.weight.shape[-1] % GROUP_SIZE == 0
            ),
        )
    mx.eval(model.parameters())
    return model


@functools.cache
def shallow(architecture, *, vocabulary=64):
    """Return a model with few layers, one of each kind and a last one that early exit leaves out.
    It is shared by all tests that only read it."""
    mixed = architecture in ("gemma3_text", "qwen3_5", "lfm2")
    return build(architecture, vocabulary=vocabulary, layers=3 if mixed else 2)


def noisy(model, *, scale=0.02):
    """A copy whose matrices are off by `scale` of their standard deviation: an imperfect drafter.

    At 0.02 its greedy choice is the model's for every second token or so, at 0.1 for every sixth.
    In a quantized model the groups' scales and biases are disturbed, which counts about double.
    """
    keys = iter(mx.random.split(mx.random.key(0), len(tree_flatten(model.parameters()))))

    def disturbed(_, weight):
        noise_key = next(keys)
        if weight.ndim < 2 or not mx.issubdtype(weight.dtype, mx.floating):
            return weight
        noise = mx.random.normal(weight.shape, key=noise_key) * mx.std(weight) * scale
        return weight + noise.astype(weight.dtype)

    other = copy.deepcopy(model)
    _replace(other, disturbed)
    mx.eval(other.parameters())
    return other


def byte_tokenizer(folder):
    """Write the files of a tokenizer of bytes, then `SPECIAL_TOKENS`; return how many it has."""
    letters = letters_of_bytes()
    vocabulary = {letter: byte for byte, letter in enumerate(letters)}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS]
    )
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": SPECIAL_TOKENS[0],
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2))
    return int(tokenizer.get_vocab_size())


def write_folder(architecture, folder, *, seed=0, dtype=mx.float32, bits=None, layers=None):
    """Write an ordinary model folder, which `mlx_lm.load` accepts; return the model in it."""
    vocabulary = byte_tokenizer(folder)
    model = build(
        architecture, seed=seed, vocabulary=vocabulary, dtype=dtype, bits=bits, layers=layers
    )
    save(model, config_of(architecture, vocabulary=vocabulary, bits=bits, layers=layers), folder)
    return model


def save(model, config, folder):
    """Write weights and configuration into a folder that has a tokenizer."""
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config, indent=2))


def config_of(architecture, *, vocabulary, bits=None, sizes=None, layers=None):
    config = (_CONFIGS[architecture] if sizes is None else sizes) | {
        "model_type": architecture,
        "vocab_size": vocabulary,
        "eos_token_id": 256,
    }
    if bits is not None:
        config["quantization"] = {"group_size": GROUP_SIZE, "bits": bits}
    if layers is not None:
        config["num_hidden_layers"] = layers
        if "full_attn_idxs" in config:
            config["full_attn_idxs"] = [at for at in config["full_attn_idxs"] if at < layers]
    return config


def _liveliness(path, weight):
    """Return the factor by which `build` multiplies a weight, except for the last norm."""
    if path.endswith(_EMBEDDINGS):
        return 1 / GAIN
    factor = PEAK if path.endswith(_QUERIES) else 1.0
    layers = ".layers." in path or ".h." in path
    in_a_layer = layers and weight.ndim == 2 and not path.endswith("A_log")
    return factor * GAIN if in_a_layer else factor


def _replace(model, change):
    model.update(tree_map_with_path(change, model.parameters()))


def letters_of_bytes():
    """The letter that stands for each byte in byte-level tokenizers: itself where printable."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (chr(0x100 + index) for index in range(256))
    return [chr(byte) if byte in printable else next(others) for byte in range(256)]
