"""What transformers' own MTP layers give, in PyTorch. Knows nothing of Slipstream.

python transformers_torch.py FOLDER INPUTS OUTPUT: a module's folder, whose config.json is its
target's; what is read; where to write.
"""

import json
import re
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoConfig
from transformers.modeling_layers import MtpLayer

KINDS = {  # module, prefix of its classes
    "glm4_moe_lite": ("glm4_moe_lite", "Glm4MoeLite"),
    "deepseek_v3": ("deepseek_v3", "DeepseekV3"),
    "mimo": ("qwen2", "Qwen2"),  # whose layers MiMo's are
}
NAMES = {
    "shared_head.norm.": "post_norm.",
    "input_proj.": "eh_proj.",
    "token_layernorm.": "enorm.",
    "hidden_layernorm.": "hnorm.",
    "final_layernorm.": "post_norm.",
}
ENDS = ("enorm.", "hnorm.", "eh_proj.", "post_norm.")
LENT = ("shared_head.head.", "embed_tokens.")


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    """By the names of transformers' layer; its experts are one tensor."""
    named: dict[str, torch.Tensor] = {}
    experts: dict[str, dict[int, torch.Tensor]] = defaultdict(dict)
    for name, tensor in load_file(folder / "model.safetensors").items():
        name = re.sub(r"^model\.(layers|mtp_layers)\.\d+\.", "", name)
        if name.startswith(LENT):
            continue
        for theirs, ours in NAMES.items():
            if name.startswith(theirs):
                name = ours + name.removeprefix(theirs)
        if not name.startswith(ENDS):
            name = f"mtp_block.{name}"
        found = re.fullmatch(r"(.*\.experts)\.(\d+)\.(\w+)\.weight", name)
        if found:
            experts[f"{found[1]}.{found[3]}"][int(found[2])] = tensor
        else:
            named[name] = tensor
    stacked = {name: torch.stack([each[i] for i in sorted(each)]) for name, each in experts.items()}
    for name in [name for name in stacked if name.endswith(".gate_proj")]:
        up = stacked.pop(name.replace("gate_proj", "up_proj"))
        both = torch.cat([stacked.pop(name), up], dim=1)
        stacked[name.replace("gate_proj", "gate_up_proj")] = both
    return named | stacked


def made(folder: Path) -> tuple[MtpLayer, Any]:
    """The layer and its rotary embedding."""
    settings = json.loads((folder / "config.json").read_text())
    place, prefix = KINDS[settings["model_type"]]
    module = import_module(f"transformers.models.{place}.modeling_{place}")
    settings |= {"model_type": place, "num_hidden_layers": 1}
    config = AutoConfig.for_model(**settings)
    config.mtp_hidden_states_first = prefix == "Qwen2"
    config.first_k_dense_replace, config.mlp_layer_types = 0, ["sparse"]
    config._attn_implementation = "eager"
    decoder, norm = (getattr(module, prefix + name) for name in ("DecoderLayer", "RMSNorm"))
    layer = MtpLayer(config, decoder, norm, 0).eval()
    layer.load_state_dict(tensors_of(folder))
    return layer, getattr(module, prefix + "RotaryEmbedding")(config)


@torch.no_grad()
def main(folder: Path, inputs: Path, output: Path) -> None:
    given = {name: torch.from_numpy(array) for name, array in np.load(inputs).items()}
    layer, rotary = made(folder)
    states, ids = given["states"][None], given["ids"]

    def logits_and_states() -> tuple[torch.Tensor, torch.Tensor]:
        embedded = given["embedding"][ids][None]
        positions = torch.arange(len(ids))[None]
        behind = torch.triu(torch.full((len(ids), len(ids)), -torch.inf), diagonal=1)
        made = layer(
            embedded,
            states,
            position_embeddings=rotary(embedded, positions),
            attention_mask=behind[None, None],
            position_ids=positions,
            past_key_values=None,
        )
        return made[0] @ given["head"].T, made

    prefill, own = logits_and_states()
    drafted, draft = [prefill[-1]], [prefill[-1].argmax()]
    while len(draft) < int(given["drafted"]):
        states = torch.cat([states, own[:, -1:]], dim=1)
        ids = torch.cat([ids, draft[-1][None]])
        logits, own = logits_and_states()
        drafted.append(logits[-1])
        draft.append(logits[-1].argmax())
    np.savez(
        output,
        prefill=prefill.numpy(),
        steps=prefill.numpy(),
        draft=torch.stack(draft).numpy().astype(np.int32),
        **{"drafted logits": torch.stack(drafted).numpy()},
    )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
