"""What speculators' own EAGLE-3 gives, in PyTorch. Knows nothing of Slipstream.

python speculators_torch.py FOLDER INPUTS OUTPUT: a drafter's folder; what is read; where to write.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from speculators.models.eagle3.config import Eagle3SpeculatorConfig
from speculators.models.eagle3.core import Eagle3DraftModel


def made(folder: Path, embedding: torch.Tensor) -> Any:
    """The drafter, with the target's embedding where it has none of its own."""
    config = json.loads((folder / "config.json").read_text())
    settings = Eagle3SpeculatorConfig(**config)
    settings.transformer_layer_config._attn_implementation = "eager"
    model = Eagle3DraftModel(settings).eval()
    tensors = {"embed_tokens.weight": embedding} | load_file(folder / "model.safetensors")
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected, unexpected
    assert all(name.startswith("verifier_") for name in missing), missing
    return model


def steps_of(model: Any, states: torch.Tensor, ids: torch.Tensor, steps: int) -> torch.Tensor:
    """Logits (steps, rows, the drafter's vocabulary): of the target's states, then its own."""
    seen: list[torch.Tensor] = []
    model.lm_head.register_forward_hook(lambda module, given, logits: seen.append(logits[0]))
    documents = torch.zeros_like(ids)
    model(hidden_states=states, input_ids=ids, document_ids=documents, ttt_steps=steps)
    return torch.stack(seen)


def main(folder: Path, inputs: Path, output: Path) -> None:
    given = np.load(inputs)
    model = made(folder, torch.from_numpy(given["embedding"]))
    states, ids = torch.from_numpy(given["states"])[None], torch.from_numpy(given["ids"])[None]
    with torch.no_grad():
        logits = steps_of(model, states, ids, int(given["steps"]))
    np.savez(output, logits=logits.numpy())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
