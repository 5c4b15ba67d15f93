"""Run by an interpreter with torch: how far kept states are from those that are read anew.

    kept_states.py SCRIPTS TARGET FOLDER

SCRIPTS holds answer.py, TARGET is the starter model; conversations are written to FOLDER. Prints,
for the states, the thoughts and the totals of a batch, the largest difference over the largest.
"""

import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, sys.argv[1])

import torch
from answer import KEPT, answer, read_conversations
from make import Reader
from target import Target


def main() -> None:
    folder, out = Path(sys.argv[2]), Path(sys.argv[3])
    asked = out / "asked.jsonl.gz"
    begins = {"prompt": "Count to five."}, {"prompt": "Hi!"}, {"system": None, "begin": "What is"}
    with gzip.open(asked, "wt") as file:
        for i, begin in enumerate(begins):
            how = {"temperature": 0.5 * i, "penalty": 1 + 0.1 * i, "longest": 20, "answers": 2}
            file.write(json.dumps(begin | how) + "\n")
    target = Target(folder, "cpu", torch.float32)  # rounded ones would differ by what they round
    answer(asked, out, target, folder, minutes=2, slots=2, longest=400, layers=KEPT)
    kept = read_conversations(out)
    anew = [replace(one, states=None, totals=None) for one in kept]
    numbers, rows = list(range(len(kept))), torch.arange(8192)
    one, other = (Reader(target, data).batch(numbers, rows, KEPT) for data in (kept, anew))
    for name in ("states", "thoughts", "total"):
        a, b = getattr(one, name).float(), getattr(other, name).float()
        if name == "states":
            a, b = (x.flatten(0, 1)[one.predicting] for x in (a, b))
        print(((a - b).abs().max() / b.abs().max()).item())


if __name__ == "__main__":
    main()
