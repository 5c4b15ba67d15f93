"""Random models of an 8B's shape: head dimension 128, full attention.

Their greedy text is varied, as `tests.support.engine.tiny` makes it. Here the first layers settle
it, so that they can draft.
"""

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map_with_path
from mlx_lm.tokenizer_utils import load as load_tokenizer
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from engine.conversation.loading import LoadedModel
from models.model_folder import ModelFolder
from tests.support.engine import tiny

_FADING = 0.03  # what the layers after the first ones add, of what they would
_GROUP_SIZE = 64
_LAST_IN_A_BLOCK = ("o_proj", "down_proj")


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a model is. `drafting`: how many of its first `layers` settle its text."""

    architecture: str
    layers: int
    drafting: int
    hidden: int = 4096
    feed_forward: int = 12288
    heads: int = 32
    key_heads: int = 8
    head_dim: int = 128
    vocabulary: int = 151936

    @property
    def config(self):
        return {
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "intermediate_size": self.feed_forward,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_heads,
            "head_dim": self.head_dim,
            "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1e6,
            "tie_word_embeddings": False,
        }


def make(shape, *, bits):
    """A model in bfloat16, or in so many bits, evaluated."""
    model = tiny.build(
        shape.architecture, sizes=shape.config, vocabulary=shape.vocabulary, dtype=mx.bfloat16
    )

    def fading(path, weight):
        parts = path.split(".")
        late = "layers" in parts and int(parts[parts.index("layers") + 1]) >= shape.drafting
        return weight * _FADING if late and any(n in parts for n in _LAST_IN_A_BLOCK) else weight

    model.update(tree_map_with_path(fading, model.parameters()))
    if bits is not None:
        nn.quantize(model, group_size=_GROUP_SIZE, bits=bits)
    mx.eval(model.parameters())
    mx.clear_cache()
    return model


def loaded(model, shape, folder):
    """The model as the engine loads one, with a tokenizer in `folder` that has a word for each id.
    Nothing ends a text."""
    return LoadedModel(
        folder=ModelFolder(folder),
        model=model,
        tokenizer=_tokenizer(shape.vocabulary, folder),
        ends=frozenset(),
        context_length=32768,
        precision="random",
    )


def _tokenizer(vocabulary, folder):
    letters = tiny.letters_of_bytes()
    words = {letter: byte for byte, letter in enumerate(letters)}
    words |= {f"Ġ{number}": number for number in range(len(letters), vocabulary)}
    tokenizer = Tokenizer(BPE(vocab=words, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = '{"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false}'
    (folder / "tokenizer_config.json").write_text(config)
    return load_tokenizer(folder, eos_token_ids=[])


def prompt(shape, *, seed, length=48):
    """Random ids, the second half as the first, so that there is something to copy."""
    ids = mx.random.randint(0, shape.vocabulary, (length // 2,), key=mx.random.key(seed))
    half = ids.tolist()  # type: ignore[assignment]
    return [*half, *half]
