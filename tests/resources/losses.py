"""Run by an interpreter with torch: the losses that the starter drafter's script finds.

    losses.py SCRIPTS EXAMPLE

SCRIPTS holds head.py, EXAMPLE a head and answers as `engine.distil` has them. Prints a loss a line.
"""

import json
import sys

sys.path.insert(0, sys.argv[1])

import torch
from head import Batch, Head, loss, weighed
from safetensors import safe_open


def main() -> None:
    with safe_open(sys.argv[2], "pt") as file:
        shape, count = json.loads(file.metadata()["shape"]), int(file.metadata()["answers"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    head = Head(shape, tensors["kept"].long())
    names = {name.removeprefix("head.").replace("block.", "blocks.0."): name for name in tensors}
    own = {name: tensors[names[name]] for name in head.state_dict() if name != "kept"}
    head.load_state_dict(own | {"kept": tensors["kept"].long()})
    for i in range(count):
        states, tokens = tensors[f"{i}.states"].float(), tensors[f"{i}.tokens"].long()
        first, n = int(tensors[f"{i}.prompt"]) - 2, len(tokens) - 2
        borrowed, unmet = tensors[f"{i}.borrowed"].long(), tensors[f"{i}.unmet"].bool()
        thoughts = torch.full((n - first, shape["rows"] + len(borrowed)), -torch.inf)
        rows, chances = tensors[f"{i}.rows"].long(), tensors[f"{i}.chances"].float()
        for place in range(n - first):
            known = chances[place] > 0
            thoughts[place, rows[place][known]] = chances[place][known].log()
        batch = Batch(
            states=states[None, :n],
            after=tokens[None, 1:-1],
            predicting=torch.arange(first, n),
            rank=torch.arange(n - first),
            borrowed=borrowed,
            unmet=unmet,
            thoughts=thoughts,
            total=torch.zeros(n - first),
        )
        print(weighed(loss(head, batch, tensors["embedding"])).item())


if __name__ == "__main__":
    main()
