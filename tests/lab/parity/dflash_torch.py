"""What speculators' own DFlash gives for one block, in PyTorch. Knows nothing of Slipstream.

python dflash_torch.py FOLDER INPUTS OUTPUT: a drafter's folder; what is read; where to write.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from speculators.models.dflash.config import DFlashSpeculatorConfig
from speculators.models.dflash.core import DFlashDraftModel


def main(folder: Path, inputs: Path, output: Path) -> None:
    """`states` (n, taps * width) of the context, `anchor`: the logits of the block's masks."""
    given = np.load(inputs)
    settings = DFlashSpeculatorConfig(**json.loads((folder / "config.json").read_text()))
    settings.transformer_layer_config._attn_implementation = "eager"
    model = DFlashDraftModel(settings).eval()
    tensors = load_file(folder / "model.safetensors")
    tensors["embed_tokens.weight"] = torch.from_numpy(given["embedding"])
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected, unexpected
    assert all(name.startswith("verifier_") for name in missing), missing

    context = torch.from_numpy(given["states"])
    length = len(context) + model.block_size + 1  # the anchor, and what training keeps behind it
    states = torch.cat([context, torch.zeros(length - len(context), context.shape[1])])[None]
    ids = torch.zeros(1, length, dtype=torch.long)
    ids[0, len(context)] = int(given["anchor"])
    with torch.no_grad():
        _, logits, *_ = model._backbone_forward(
            states,
            ids,
            torch.nn.functional.one_hot(torch.tensor([len(context)]), length),
            torch.zeros(1, length, model.hidden_size),
            torch.zeros_like(ids),
            max_anchors=1,
        )
    np.savez(output, logits=logits[0, 1:].numpy())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
