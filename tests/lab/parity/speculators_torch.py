"""What speculators' own EAGLE-3 and P-EAGLE give, in PyTorch. Knows nothing of Slipstream.

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
from speculators.models.peagle import core as peagle
from speculators.models.peagle.config import PEagleSpeculatorConfig


def made(folder: Path, embedding: torch.Tensor) -> Any:
    """The drafter, with the target's embedding where it has none of its own."""
    config = json.loads((folder / "config.json").read_text())
    parallel = config["speculators_model_type"] == "peagle"
    kind = PEagleSpeculatorConfig if parallel else Eagle3SpeculatorConfig
    settings = kind(**config)
    settings.transformer_layer_config._attn_implementation = "eager"
    model = (peagle.PEagleDraftModel if parallel else Eagle3DraftModel)(settings).eval()
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


def slots_of(model: Any, states: torch.Tensor, ids: torch.Tensor, slots: int) -> torch.Tensor:
    """Logits (slots, rows, the drafter's vocabulary): of each row, and of masks behind it."""
    rows = ids.shape[1] - slots
    anchors = torch.cat([torch.arange(ids.shape[1]), *[torch.arange(rows)] * (slots - 1)])
    depths = [torch.full((rows,), depth) for depth in range(1, slots)]
    depth = torch.cat([torch.zeros(ids.shape[1], dtype=torch.long), *depths])
    peagle.generate_cod_sample_indices = lambda **_: (anchors, depth)
    peagle.compute_metrics = lambda **_: (None, {})
    seen: list[torch.Tensor] = []
    model.lm_head.register_forward_hook(lambda module, given, logits: seen.append(logits[0]))
    last = torch.zeros(1, ids.shape[1], model.hidden_size)
    model(
        hidden_states=states,
        input_ids=ids,
        document_ids=torch.zeros_like(ids),
        verifier_last_hidden_states=last,
        num_depths=slots,
    )
    first, rest = seen[0][:rows], seen[0][ids.shape[1] :]
    return torch.stack([first, *rest.reshape(slots - 1, rows, -1)])


def main(folder: Path, inputs: Path, output: Path) -> None:
    given = np.load(inputs)
    model = made(folder, torch.from_numpy(given["embedding"]))
    states, ids = torch.from_numpy(given["states"])[None], torch.from_numpy(given["ids"])[None]
    compute = slots_of if hasattr(model, "mask_hidden") else steps_of
    with torch.no_grad():
        logits = compute(model, states, ids, int(given["steps"]))
    np.savez(output, logits=logits.numpy())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
