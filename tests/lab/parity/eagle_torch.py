"""What the first EAGLE gives, by its authors' code, in PyTorch. Knows nothing of Slipstream.

python eagle_torch.py FOLDER INPUTS OUTPUT, with a clone of SafeAILab/EAGLE on PYTHONPATH.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from eagle.model.cnets1 import Model
from safetensors.torch import load_file


def main(folder: Path, inputs: Path, output: Path) -> None:
    given = np.load(inputs)
    left_out = {"rope_scaling": None, "hidden_act": "silu", "pretraining_tp": 1}
    left_out["max_position_embeddings"] = 2048
    config = SimpleNamespace(**left_out | json.loads((folder / "config.json").read_text()))
    model = Model(config, bias=config.bias).eval()
    model.load_state_dict(load_file(folder / "model.safetensors"))
    states, ids = torch.from_numpy(given["states"])[None], torch.from_numpy(given["ids"])[None]
    head, steps, rows = torch.from_numpy(given["head"]), int(given["steps"]), ids.shape[1]
    ids = torch.nn.functional.pad(ids, (0, steps))
    logits = torch.zeros(steps, rows, head.shape[0])
    with torch.no_grad():
        for row in range(rows):
            read, after, cache = states[:, : row + 1], ids[:, : row + 1], None
            for step in range(steps):
                state, cache = model(read, after, past_key_values=cache, use_cache=True)
                logits[step, row] = head @ state[0, -1]
                read, after = state[:, -1:], ids[:, row + step + 1 : row + step + 2]
    np.savez(output, logits=logits.numpy())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
