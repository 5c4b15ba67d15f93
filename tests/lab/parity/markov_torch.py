"""What speculators' own Markov heads make of a block, in PyTorch. Knows nothing of Slipstream.

python markov_torch.py FOLDER INPUTS OUTPUT: a drafter's folder; what is read; where to write.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from speculators.models.dspark.model_definitions import MarkovHead


def made(folder: Path) -> MarkovHead:
    """The head of the drafter in `folder`."""
    config = json.loads((folder / "config.json").read_text())
    prefix = "markov_head."
    tensors = {
        name.removeprefix(prefix): tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
        if name.startswith(prefix)
    }
    head = MarkovHead(
        verifier_vocab_size=tensors["markov_w1.weight"].shape[0],
        draft_vocab_size=tensors["markov_w2.weight"].shape[0],
        markov_rank=config["markov_rank"],
        hidden_size=config["hidden_size"],
        head_type=config["markov_head_type"],
    )
    head.load_state_dict(tensors)
    return head.eval()


def main(folder: Path, inputs: Path, output: Path) -> None:
    """`base` (n, vocabulary), `states` (n, width), `anchor`: logits, and the greedy tokens."""
    given = np.load(inputs)
    head = made(folder)
    base, states = torch.from_numpy(given["base"]), torch.from_numpy(given["states"])
    tokens = [int(given["anchor"])]
    logits = base
    with torch.no_grad():
        for slot in range(len(base)):
            before = torch.tensor([tokens + [0] * (len(base) - len(tokens))])
            bias = head.block_bias(prev_token_ids=before, hidden_states=states[None])[0]
            logits = base + bias
            tokens.append(int(logits[slot].argmax()))
            if len(tokens) > len(base):
                break
    np.savez(output, logits=logits.numpy(), tokens=np.array(tokens[1:]))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
