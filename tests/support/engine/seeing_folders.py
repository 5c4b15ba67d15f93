"""Whole tiny models that see, as folders: the towers whose parity is tested, and a text half."""

import copy
import json
from dataclasses import dataclass

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.tokenizer_utils import load as load_tokenizer

from models.architectures import spelled
from tests.support.engine.parity.towers import TOWERS, Sight
from tests.support.engine.pictures import TEMPLATE
from tests.support.engine.tiny import Config, build, byte_tokenizer, configs


@dataclass(frozen=True, slots=True)
class Family:
    """A family of models that see. `text`: of its text half; `words`: its special tokens, by the
    names in config.json; `mark`: what the template writes for a picture."""

    tower: Sight
    text: Config
    words: dict[str, str]
    mark: str


FAMILIES = {
    name: Family(**row | {"tower": TOWERS[row["tower"]]}) for name, row in configs("seeing").items()
}


def write_seeing(family, folder):
    """Write a model of a family as a folder."""
    made = FAMILIES[family]
    byte_tokenizer(folder)
    tokenizer = load_tokenizer(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": list(made.words.values())})
    tokenizer.chat_template = TEMPLATE.replace("<picture>", made.mark)
    tokenizer._tokenizer.save_pretrained(folder)
    vocabulary = len(tokenizer.get_vocab())
    config = copy.deepcopy(dict(made.tower.config)) | {
        name: tokenizer.convert_tokens_to_ids(word) for name, word in made.words.items()
    }
    config["video_token_id"] = 1  # which no text has
    config["text_config"] |= made.text | {"vocab_size": vocabulary, "eos_token_id": 256}
    config["text_config"]["vocab_size_per_layer_input"] = vocabulary
    named = {"model_type": spelled(config["model_type"])}
    model = build(named["model_type"], vocabulary=vocabulary, sizes=config | named)
    tensors = dict(tree_flatten(model.parameters()))
    tensors |= {name: mx.array(array) for name, array in made.tower.weights().items()}
    mx.save_safetensors(str(folder / "model.safetensors"), tensors, {"format": "mlx"})
    config |= {"vocab_size": vocabulary, "eos_token_id": 256}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "preprocessor_config.json").write_text(json.dumps(dict(made.tower.settings)))
    return folder
