"""The mean of the weights of several heads, each of which went on from another one of them.

It is often better than all of them (model soups, arXiv 2203.05482):

    python mean.py NEW_FOLDER --target TARGET --of HEAD 0.6 --of HEAD 0.4 --tests questions.jsonl

--sharper 1.1 multiplies all of its logits by 1.1: what learned by the cross entropy is less sure of
its guesses than is best where answers are sampled at temperatures below 1.
"""

import argparse
import json
from pathlib import Path

import torch
from head import Head
from make import export, exported, held_out, worth
from target import Target


def mean(folders: list[Path], shares: list[float]) -> Head:
    """A head of one layer; ends with ValueError where they have other rows or another shape."""
    shapes = [json.loads((folder / "config.json").read_text()) for folder in folders]
    heads = [exported(folder) for folder in folders]
    kept = heads[0].pop("kept")
    for other, shape in zip(heads[1:], shapes[1:], strict=True):
        if shape != shapes[0] or not torch.equal(other.pop("kept"), kept):
            raise ValueError("The heads have other rows, or another shape.")
    weights = {
        name: sum(share * head[name] for head, share in zip(heads, shares, strict=True))
        for name in heads[0]
    }
    shape = shapes[0]
    for name in ("model_type", "target", "target_fingerprint"):  # which `export` adds
        del shape[name]
    shape |= {"layers": tuple(shape["layers"])}
    shape.setdefault("target_size", shape["hidden_size"])
    head = Head(shape, kept)
    head.load_state_dict({**weights, "kept": kept})
    return head


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument(
        "--of", nargs=2, action="append", required=True, metavar=("HEAD", "SHARE"),
        help="a head's folder, and its share of 1",
    )  # fmt: skip
    parser.add_argument("--sharper", type=float, default=1.0, help="by what to multiply its logits")
    parser.add_argument("--tests", nargs="*", type=Path, default=[], help="prompts to measure with")
    given = parser.parse_args()
    shares = [float(share) for _, share in given.of]
    if abs(sum(shares) - 1) > 1e-6:
        parser.error("The shares do not add up to 1.")
    head = mean([Path(folder) for folder, _ in given.of], shares)
    with torch.no_grad():
        head.norm.weight.mul_(given.sharper)  # the last thing that all rows read
    given.out.mkdir(parents=True, exist_ok=True)
    export(head, given.out, given.target)
    if given.tests:
        target = Target(given.target, "cpu")
        for path in given.tests:
            found = worth(head, held_out(target, given.target, path, 120))
            print(f"{path.stem} {found}")


if __name__ == "__main__":
    main()
