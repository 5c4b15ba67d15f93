"""What transformers' Gemma 3 gives, in PyTorch. Knows nothing of Slipstream.

python gemma3_torch.py FOLDER INPUTS OUTPUT: a model's folder; a prompt's tokens, with a placeholder
for each row of a picture, and the rows; where to write the logits.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import Gemma3Config, Gemma3ForConditionalGeneration

OURS, THEIRS = "language_model.model.", "model.language_model."


@torch.no_grad()
def main(folder: Path, inputs: Path, output: Path) -> None:
    """Write the logits of all tokens."""
    config = json.loads((folder / "config.json").read_text())
    text = dict(config["text_config"])
    every, count = text["sliding_window_pattern"], text["num_hidden_layers"]
    kinds = ("full_attention", "sliding_attention")
    text["layer_types"] = [kinds[(at + 1) % every > 0] for at in range(count)]
    bases = (text.pop("rope_theta"), text.pop("rope_local_base_freq"))
    text["rope_parameters"] = {
        kind: {"rope_type": "default", "rope_theta": base}
        for kind, base in zip(kinds, bases, strict=True)
    }
    row = config["image_token_index"]
    whole = Gemma3Config(
        text_config=text | {"pad_token_id": 0},
        vision_config=config["vision_config"] | {"vision_use_head": False},
        mm_tokens_per_image=config["mm_tokens_per_image"],
        image_token_index=row,
    )
    whole._attn_implementation = "eager"
    model = Gemma3ForConditionalGeneration(whole).eval()
    tensors = load_file(folder / "model.safetensors")
    found = {
        THEIRS + name.removeprefix(OURS): tensor
        for name, tensor in tensors.items()
        if name.startswith(OURS)
    }
    assert not model.load_state_dict(found, strict=False).unexpected_keys
    given = np.load(inputs)
    ids = torch.tensor(given["tokens"])[None]
    half = model.model.language_model
    embedded = half.embed_tokens(torch.where(ids == row, 0, ids))
    embedded[ids == row] = torch.tensor(given["rows"]) * half.embed_tokens.embed_scale
    state = model.model(
        inputs_embeds=embedded,
        token_type_ids=(ids == row).long(),
        attention_mask=torch.ones_like(ids),
        use_cache=False,
    ).last_hidden_state
    np.savez(output, logits=(state @ half.embed_tokens.weight.T)[0].numpy())


main(*map(Path, sys.argv[1:]))
