"""What DeepSpec's EAGLE-3 gives, by its authors' code, in PyTorch. Knows nothing of Slipstream.

python deepspec_torch.py FOLDER INPUTS OUTPUT, with a clone of deepseek-ai/DeepSpec on PYTHONPATH.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import DynamicCache, Gemma4TextConfig, Qwen3Config


def main(folder: Path, inputs: Path, output: Path) -> None:
    given = np.load(inputs)
    told = json.loads((folder / "config.json").read_text())
    if told["architectures"] == ["Gemma4Eagle3Model"]:
        from deepspec.modeling.eagle3.gemma4.modeling import Gemma4Eagle3Model as Model

        config = Gemma4TextConfig(**told)
    else:
        from deepspec.modeling.eagle3.qwen3.modeling import Qwen3Eagle3Model as Model

        config = Qwen3Config(**told)
    config.allow_global_per_layer_attribute_access = True
    for name, value in told.items():
        if not hasattr(config, name):
            setattr(config, name, value)
    config._attn_implementation = "sdpa"
    model = Model(config).eval()
    model.load_state_dict(load_file(folder / "model.safetensors"))
    states, ids = torch.from_numpy(given["states"])[None], torch.from_numpy(given["ids"])[None]
    steps, rows = int(given["steps"]), ids.shape[1]
    ids = torch.nn.functional.pad(ids, (0, steps))
    logits = torch.zeros(steps, rows, config.vocab_size)
    with torch.no_grad():
        for row in range(rows):
            read, after, cache = states[:, : row + 1], ids[:, : row + 1], DynamicCache()
            position = torch.arange(row + 1)[None]
            for step in range(steps):
                made = model(
                    hidden_states=read,
                    input_ids=after,
                    position_ids=position,
                    past_key_values=cache,
                    use_cache=True,
                    return_logits=True,
                )
                logits[step, row] = made.draft_logits[0, -1]
                read, after = made.hidden_states[:, -1:], ids[:, row + step + 1 : row + step + 2]
                position = torch.tensor([[row + step + 1]])
    np.savez(output, logits=logits.numpy())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
