"""Pictures, and a tower of random numbers that shows them to tiny targets."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx_lm.tokenizer_utils import load as load_tokenizer
from PIL import Image

from engine.conversation.loading import LoadedModel
from engine.core.model_parts import embedding
from engine.request import ChatMessage, Picture
from engine.vision import Grid, Seen, Tower
from models.model_folder import ModelFolder
from tests.support.engine.tiny import CHAT_TEMPLATE, byte_tokenizer

END = 256
VOCABULARY = 264  # the bytes, the special tokens, and these
MARK, ROW = "<picture>", "<row>"
PATCH = 4
_SAID = (
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{{ '<picture>' if part['type'] == 'image' else part['text'] }}"
    "{% endfor %}{% endif %}"
)
TEMPLATE = CHAT_TEMPLATE.replace("{{ message['content'] }}", _SAID)


def seeing_tokenizer(folder, *, template=TEMPLATE):
    """A tokenizer of bytes with `MARK` and `ROW`, whose template says where pictures stand."""
    byte_tokenizer(folder)
    tokenizer = load_tokenizer(folder, eos_token_ids=[END])
    tokenizer.add_special_tokens({"additional_special_tokens": [MARK, ROW]})
    tokenizer.chat_template = template
    return tokenizer


def picture(folder, number, *, across=3, down=2):
    """A picture of noise, of so many patches."""
    width, height = across * PATCH, down * PATCH
    noise = np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)
    digest = sha256(f"{width} {height}\n".encode() + noise.tobytes()).hexdigest()
    path = folder / f"{digest}.png"
    Image.fromarray(noise).save(path)
    return Picture(str(path), digest, width, height)


@dataclass
class NoiseTower(Tower):
    """Rows that are random projections of a picture's patches.

    `deep`: the number of layers after which rows are added; `parts`: rows are in so many parts,
    with letters between them. `seen`: how many pictures were embedded.
    """

    placeholder: int
    width: int
    mutual: bool = False
    windows_only: bool = False
    sections: tuple[int, ...] = ()
    deep: int = 0
    parts: int = 1
    seen: int = 0
    mark = MARK
    weights_bytes = 1
    read_as = 0

    def size_of(self, width, height):
        across, down = width // PATCH, height // PATCH
        rows = across * down
        each = -(-rows // self.parts)
        text = "|".join(ROW * min(each, rows - start) for start in range(0, rows, each))
        shape = (down, across) if self.sections else None
        return Grid(height, width, rows, rows, f"({text})", shape)

    def embed(self, pixels):
        self.seen += 1
        down, across = pixels.shape[0] // PATCH, pixels.shape[1] // PATCH
        patches = pixels.reshape(down, PATCH, across, PATCH, 3).transpose(0, 2, 1, 3, 4)
        numbers = mx.array(patches.reshape(down * across, -1)).astype(mx.float32) / 128 - 1
        keys = mx.random.split(mx.random.key(5), 1 + self.deep)
        matrices = [mx.random.normal((numbers.shape[-1], self.width), key=key) for key in keys]
        rows, *deeper = [numbers @ matrix * 0.05 for matrix in matrices]
        return Seen(rows, tuple(deeper))

    def working_bytes(self, grid):
        return 0


TOWERS = {
    "llama": {},
    "qwen3": {"sections": (4, 2, 2), "deep": 2},
    "gemma3_text": {"mutual": True},
    "qwen3_5": {"sections": (1, 1, 0)},
    "lfm2": {"parts": 2},
    "large": {"mutual": True, "windows_only": True},
    "small": {},
}
"""By tiny target, what the towers of its family are like; Gemma 4's are "large" and "small"."""


def seeing(model, tokenizer, architecture, *, context=4096, **changes):
    """A tiny target that sees by a `NoiseTower`."""
    width = int(embedding(model)(mx.zeros((1,), dtype=mx.int32)).shape[-1])
    row = tokenizer.convert_tokens_to_ids(ROW)
    folder = ModelFolder(Path("tiny"))
    vars(folder)["config"] = {"model_type": architecture}
    return LoadedModel(
        folder=folder,
        model=model,
        tokenizer=tokenizer,
        ends=frozenset({END}),
        context_length=context,
        precision="float32",
        tower=NoiseTower(row, width, **(TOWERS[architecture] | changes)),
    )


def said(text, *pictures, role="user"):
    return ChatMessage(role, text, pictures=pictures)
