"""A model folder whose target sees: a tiny LFM2-VL of random numbers, whose tokens are bytes.

`python -m tests.lab.clients.seeing FOLDER` writes it.
"""

import json
import sys
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from tokenizers import AddedToken, Tokenizer

from tests.support.engine.parity.subjects import draw
from tests.support.engine.parity.towers import TOWERS
from tests.support.engine.tiny import CHAT_TEMPLATE, build, byte_tokenizer, config_of

SEES = TOWERS["tower-lfm2-vl"]
MARKS = ("<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>")
_SAID = (
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{{ '<image>' if part['type'] == 'image' else part['text'] }}"
    "{% endfor %}{% endif %}"
)


def write_seeing_folder(folder):
    """Write the folder; return it."""
    first = byte_tokenizer(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(each, special=True) for each in MARKS])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["chat_template"] = CHAT_TEMPLATE.replace("{{ message['content'] }}", _SAID)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "preprocessor_config.json").write_text(json.dumps(SEES.settings))

    vocabulary = first + len(MARKS)
    text = config_of("lfm2", vocabulary=vocabulary)
    own = {"model_type": "lfm2-vl", "image_token_id": first, "eos_token_id": 256}
    whole = {**SEES.config, **own, "text_config": text}
    (folder / "config.json").write_text(json.dumps(whole))
    model = build("lfm2", vocabulary=vocabulary)
    weights = {f"language_model.{name}": each for name, each in tree_flatten(model.parameters())}
    last, seen = "multi_modal_projector.linear_2", dict(SEES.shapes)
    seen |= {
        f"{last}.{name}": (text["hidden_size"], *seen[f"{last}.{name}"][1:])
        for name in ("weight", "bias")
    }
    weights |= {name: mx.array(draw(name, shape, seed=0)) for name, shape in seen.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    return folder


if __name__ == "__main__":
    write_seeing_folder(Path(sys.argv[1]))
