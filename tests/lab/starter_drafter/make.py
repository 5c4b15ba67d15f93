"""How the starter's drafter is made: `slipstream distil` in PyTorch, for much more text.

What the target makes of the text is read anew for every batch, which
costs less than to keep it, so the head learns from all of the target's distribution. Runs on a
GPU or a CPU. Needs torch, safetensors and tokenizers, and nothing of Slipstream:

    python ask.py PROMPTS asked.jsonl.gz
    python answer.py asked.jsonl.gz ANSWERS --target TARGET --minutes 5
    python make.py ANSWERS NEW_FOLDER --target TARGET --minutes 10

TARGET is the starter model's folder. Learning goes on where it was stopped, or from a head that is
there: --begin FOLDER.
"""

import argparse
import hashlib
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from answer import KEPT, SPARE, Conversation, Script, Slots, read_conversations
from head import HIDDEN_FROM, STEPS, Batch, Head, chains, loss, weighed
from safetensors.torch import save_file
from target import Target, dequantized, quick_in_bfloat16
from torch import Tensor, nn

POSITIONS = {"cuda": 49_152, "cpu": 5_120}  # of a batch


# What it learns from


class Reader:
    """Conversations, as batches of what the target makes of them."""

    def __init__(self, target: Target, data: Sequence[Conversation]) -> None:
        self.target, self.data = target, data
        self.tokens = [np.array(one.tokens, dtype=np.int64) for one in data]
        self.said = [one.said for one in data]
        self.places = [
            np.concatenate([np.arange(first - 2, end - 2) for first, end in one.said])
            for one in data
        ]
        self.ranks = [
            np.concatenate([np.arange(end - first) for first, end in one.said]) for one in data
        ]

    def frequent(self) -> Tensor:
        """All tokens, the most frequent in answers first."""
        pairs = zip(self.tokens, self.places, strict=True)
        said = np.concatenate([tokens[places + 2] for tokens, places in pairs])
        counts = np.bincount(said, minlength=len(self.target.embedding))
        return torch.from_numpy(np.argsort(-counts, kind="stable"))

    def shuffled(self, seed: int) -> list[list[int]]:
        """Numbers of conversations of similar length together, in random order."""
        chance = random.Random(seed)
        lengths = [len(tokens) for tokens in self.tokens]
        order = sorted(range(len(lengths)), key=lambda i: lengths[i] * chance.uniform(0.9, 1.1))
        batches: list[list[int]] = [[]]
        longest = 0
        for i in order:
            longest = max(longest, lengths[i])
            if batches[-1] and (len(batches[-1]) + 1) * longest > POSITIONS[self.target.device]:
                batches.append([])
                longest = lengths[i]
            batches[-1].append(i)
        chance.shuffle(batches)
        return batches

    @torch.no_grad()
    def batch(self, numbers: list[int], kept: Tensor, layers: tuple[int, ...]) -> Batch:
        """`kept` (rows,): the tokens that the head has rows for."""
        target, n = self.target, max(len(self.tokens[i]) for i in numbers)
        tokens = np.zeros((len(numbers), n), dtype=np.int64)
        for row, i in enumerate(numbers):
            tokens[row, : len(self.tokens[i])] = self.tokens[i]
        places = [self.places[i] + row * (n - 2) for row, i in enumerate(numbers)]
        said = [self.places[i] + row * n + 1 for row, i in enumerate(numbers)]

        def sent(arrays: list[np.ndarray]) -> Tensor:
            return torch.from_numpy(np.concatenate(arrays)).to(target.device, non_blocking=True)

        whole = torch.from_numpy(tokens).to(target.device, non_blocking=True)
        borrowed, unmet = (part.to(target.device) for part in self._borrowed(numbers, kept))
        columns = torch.cat([kept, borrowed])
        table, some = target.embedding[columns], [self.data[i] for i in numbers]
        if layers == KEPT and all(one.states is not None for one in some):
            states = side_by_side([one.states for one in some], n).to(target.kind)
            states, last = states[:, :, :-1], states[:, :, -1].flatten(0, 1)[sent(said)]
            thoughts = product(last, table)
            total = side_by_side([one.totals for one in some], n).flatten()[sent(said)]
        else:
            states, last = target.read(whole, layers)
            parts = [
                (product(x, table), product(x, target.embedding).logsumexp(-1))
                for x in last.flatten(0, 1)[sent(said)].split(4096)
            ]
            thoughts, total = (torch.cat(part) for part in zip(*parts, strict=True))
        thoughts[:, len(kept) :].masked_fill_(unmet, HIDDEN_FROM)
        return Batch(
            states=states[:, :-2],
            after=whole[:, 1:-1],
            predicting=sent(places),
            rank=sent([self.ranks[i] for i in numbers]),
            borrowed=borrowed,
            unmet=unmet,
            thoughts=thoughts,
            total=total,
        )

    def _borrowed(self, numbers: list[int], kept: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens of these conversations that are not `kept`, and where they are not met yet."""
        known = np.zeros(len(self.target.embedding), dtype=bool)
        known[kept.cpu().numpy()] = True
        found = np.unique(np.concatenate([self.tokens[i] for i in numbers]))
        found = found[~known[found]]
        unmet = []
        for i in numbers:
            tokens, first = np.unique(self.tokens[i], return_index=True)
            met = np.full(len(known), len(self.tokens[i]))
            met[tokens] = first
            unmet.append(met[found] > self.places[i][:, None] + 1)
        return torch.from_numpy(found), torch.from_numpy(np.concatenate(unmet))


def side_by_side(parts: Sequence[Tensor], n: int) -> Tensor:
    """Parts of several lengths as rows of one tensor, padded on the right."""
    whole = parts[0].new_zeros(len(parts), n, *parts[0].shape[1:])
    for row, part in zip(whole, parts, strict=True):
        row[: len(part)] = part
    return whole


def product(x: Tensor, table: Tensor) -> Tensor:
    """x @ table.T in float32."""
    if x.is_cuda:
        return torch.mm(x, table.T, out_dtype=torch.float32)
    return F.linear(x, table).float()


# What it is worth


@dataclass(frozen=True)
class Worth:
    """Of greedy chains: tokens committed per pass, how many of the drafted tokens stood by
    position, and the chance that the first one stands when it is sampled at temperature 0.8."""

    per_pass: float
    by_position: list[float]
    sampled: float

    def __str__(self) -> str:
        by_position = "/".join(f"{100 * share:.0f}" for share in self.by_position)
        return f"{self.per_pass:.3f} ({by_position} %), sampled {100 * self.sampled:.1f} %"


@torch.no_grad()
def worth(head: Head, reader: Reader) -> Worth:
    """Found from greedy answers alone, as `engine.distil.measure` does."""
    target, kept, stood_at = reader.target, head.kept, np.zeros(STEPS)
    said = passes = 0
    sampled = []
    for start in range(0, len(reader.tokens), 32):
        numbers = list(range(start, min(start + 32, len(reader.tokens))))
        batch = reader.batch(numbers, kept, head.shape["layers"])
        with target.autocast():
            drafted = list(chains(head, batch, target.embedding))
        tokens_of = torch.cat([kept, batch.borrowed])
        flat = np.zeros((batch.after.numel(), STEPS), dtype=np.int64)
        chosen = torch.stack([tokens_of[logits.argmax(-1)] for logits in drafted], -1)
        flat[batch.predicting.cpu().numpy()] = chosen.cpu().numpy()
        drafts = flat.reshape(*batch.after.shape, STEPS)
        chances = [(x.float() / 0.8).softmax(-1) for x in (drafted[0], batch.thoughts)]
        sampled.append(torch.minimum(*chances).sum(-1).mean().item())
        for row, i in enumerate(numbers):
            tokens = reader.tokens[i]
            for first, end in reader.said[i]:
                place = first - 2
                while place < end - 2:
                    truth = tokens[place + 2 : min(place + 2 + STEPS, end)]
                    same = drafts[row, place, : len(truth)] == truth
                    stood = int(np.argmin(np.append(same, False)))
                    stood_at[:stood] += 1
                    said += min(stood + 1, end - 2 - place)
                    passes += 1
                    place += stood + 1
    return Worth(said / passes, list(stood_at / passes), sum(sampled) / len(sampled))


def held_out(target: Target, folder: Path, prompts: Path, longest: int) -> Reader:
    """Greedy answers to the prompts of a file, a JSON string a line."""
    room, texts = 1600, [json.loads(line) for line in prompts.open()]
    script = Script(folder, room - SPARE)
    how = {"temperature": 0.0, "penalty": 1.0, "longest": longest, "answers": 1}
    on_cpu, found = target.device == "cpu", []
    desk = Slots(target, len(texts), room, KEPT if on_cpu else ())
    desk.fill({i: script.begin({"prompt": text, **how}) for i, text in enumerate(texts)})
    desk.go_on(longest)
    for slot, one, new in desk.done():
        script.go_on(one, new)
        kept = desk.known(slot, len(one.tokens)) if on_cpu else ()
        found.append(Conversation(one.tokens, one.said, *kept))
    return Reader(target, found)


# Training


SHAPES: dict[str, dict[str, Any]] = {
    "one": {},
    "16384 rows": {"rows": 16384},
    "12288 rows": {"rows": 12288},
    "two layers": {"depth": 2},
    "wide": {"intermediate_size": 3072},
    "five states": {"layers": (6, 12, 18, 24, 30)},
    "768": {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 2048},
    "acceptance": {"greed": 0.85},
    "faster": {"rate": 2.0},
    "block": {"parallel": True},
    "block, markov": {"parallel": True, "markov": 128},
    "block of two layers, markov": {"parallel": True, "markov": 128, "depth": 2},
    "five states, two layers": {"layers": (6, 12, 18, 24, 30), "depth": 2},
}


def train(
    out: Path, folder: Path, reader: Reader, shapes: Sequence[str], tests: dict[str, Reader],
    minutes: float, begin: Path | None = None, rate: float = 1.0, steps: int = STEPS,
    shallow: float = 0.0,
) -> None:  # fmt: skip
    """Learn for some minutes, heads of several shapes from the same batches; write the folders.

    All begin from the head in `begin` where there is one: rows that they have more of begin as what
    it borrows, layers as in a new head. They learn `steps` guesses deep; in the first `shallow`
    minutes the first guess alone, about twice as many tokens.
    """
    target = reader.target
    torch.manual_seed(0)
    begun = exported(begin) if begin else {}
    frequent = reader.frequent()
    if begun:
        frequent = torch.cat([begun["kept"], frequent[~torch.isin(frequent, begun["kept"])]])
    frequent = frequent.to(target.device)
    learners = [
        Learner(out / name.replace(" ", "-"), target, SHAPES[name], frequent, begun)
        for name in shapes
    ]
    layers = tuple(sorted({layer for one in learners for layer in one.head.shape["layers"]}))
    most = frequent[: max(one.head.shape["rows"] for one in learners)]
    began, told, tested, seen, step = time.monotonic(), 0.0, 0.0, 0, 0
    spent = learners[0].spent
    for epoch in range(1000):
        for numbers in reader.shuffled(epoch + int(spent)):
            elapsed = spent + time.monotonic() - began
            if elapsed > 60 * minutes:
                break
            batch = reader.batch(numbers, most, layers)
            for one in learners:
                faded = min(1, (step + 1) / 60) * (1 - elapsed / 60 / minutes)
                one.learn(batch, layers, rate * faded, 1 if elapsed < 60 * shallow else steps)
            step, seen = step + 1, seen + len(batch.predicting)
            if elapsed - told > 20:
                told = elapsed
                values = ", ".join(f"{one.value():.3f}" for one in learners)
                print(
                    f"{elapsed:.0f} s, step {step}, epoch {epoch}, {seen} tokens: {values}",
                    flush=True,
                )
            if elapsed - tested > 600:
                tested = elapsed
                for one in learners:
                    one.save(elapsed)
                    print(f"  {one.out.name}: {one.tested(tests)}", flush=True)
        else:
            continue
        break
    for one in learners:
        one.save(60 * minutes)
        one.export(folder)
        print(f"{one.out.name}: {one.tested(tests)}", flush=True)


class Learner:
    """A head on its way: its optimizers, and the folder where it is kept."""

    def __init__(
        self, out: Path, target: Target, shape: dict[str, Any], frequent: Tensor,
        begun: dict[str, Tensor],
    ) -> None:  # fmt: skip
        names = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
        names += ("intermediate_size", "rope_theta")
        whole = {name: target.config[name] for name in names}
        whole |= {"layers": (10, 20, 30), "rows": 8192, "rms_norm_eps": 1e-5}
        whole |= {"target_size": target.config["hidden_size"]} | shape
        self.greed: float = whole.pop("greed", 0.0)
        rate = whole.pop("rate", 1.0)
        self.out, self._target = out, target
        self.head = new_head(whole, target, frequent[: whole["rows"]])
        if begun:
            with torch.no_grad():  # its new rows: what it borrowed until now
                self.head.output.weight[:, : len(begun["moved"])] += begun["moved"]
        for name, own in self.head.state_dict().items() if begun else ():
            if (known := begun.get(name)) is not None:  # of its rows these are the first
                own[tuple(map(slice, known.shape))].copy_(known)
        self.head.to(target.device)
        inner = [p for name, p in self.head.named_parameters() if p.ndim == 2 and _inside(name)]
        outer = [p for name, p in self.head.named_parameters() if p.ndim != 2 or not _inside(name)]
        self._optimizers: list[torch.optim.Optimizer] = [
            Muon(inner, lr=2e-3 * rate),
            torch.optim.AdamW(
                outer, lr=1e-3 * rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True
            ),
        ]
        self._rates = [one.param_groups[0]["lr"] for one in self._optimizers]
        self._value = torch.zeros(())
        self.spent = 0.0
        out.mkdir(parents=True, exist_ok=True)
        if (out / "checkpoint.pt").exists():
            stored = torch.load(out / "checkpoint.pt", map_location=target.device)
            self.head.load_state_dict(stored["head"])
            for one, state in zip(self._optimizers, stored["optimizers"], strict=True):
                one.load_state_dict(state)
            self.spent = stored["spent"]

    def learn(self, batch: Batch, layers: tuple[int, ...], rate: float, steps: int) -> None:
        """`rate` is a share of the highest; `layers` are those whose states are in the batch;
        `steps`: how many guesses deep."""
        own = [layers.index(layer) for layer in self.head.shape["layers"]]
        if len(own) < len(layers):
            batch = replace(batch, states=batch.states[:, :, own])
        for optimizer, highest in zip(self._optimizers, self._rates, strict=True):
            optimizer.param_groups[0]["lr"] = highest * rate
            optimizer.zero_grad()
        with self._target.autocast():
            parts = loss(self.head, batch, self._target.embedding, self.greed, steps)
            value = weighed(parts)
        value.backward()
        nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        for optimizer in self._optimizers:
            optimizer.step()
        self._value = value.detach()

    def value(self) -> float:
        return self._value.item()

    def tested(self, tests: dict[str, Reader]) -> str:
        return "; ".join(f"{name} {worth(self.head, one)}" for name, one in tests.items())

    def save(self, spent: float) -> None:
        partial = self.out / "checkpoint.partial"
        states = [one.state_dict() for one in self._optimizers]
        stored = {"head": self.head.state_dict(), "optimizers": states, "spent": spent}
        torch.save(stored, partial)
        partial.replace(self.out / "checkpoint.pt")

    def export(self, folder: Path) -> None:
        export(self.head, self.out, folder)


class Muon(torch.optim.Optimizer):
    """As PyTorch's with match_rms_adamw, which is in bfloat16 whether that is quick or not.

    Source: https://kellerjordan.github.io/posts/muon/
    """

    def __init__(self, matrices: list[nn.Parameter], lr: float, momentum: float = 0.95) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:  # no later guess is learned
                    continue
                state = self.state[matrix]
                if not state:
                    state["momentum"] = torch.zeros_like(matrix)
                state["momentum"].lerp_(matrix.grad, 1 - group["momentum"])
                direction = orthogonal(matrix.grad.lerp(state["momentum"], group["momentum"]))
                matrix.sub_(direction, alpha=group["lr"] * 0.2 * max(matrix.shape) ** 0.5)


def orthogonal(matrix: Tensor) -> Tensor:
    """Its singular values near 1, by five Newton-Schulz steps."""
    x = matrix.bfloat16() if quick_in_bfloat16(matrix.device.type) else matrix
    tall = len(x) > len(x[0])
    x = x.T if tall else x
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        squared = x @ x.T
        x = 3.4445 * x + (-4.7750 * squared + 2.0315 * squared @ squared) @ x
    return (x.T if tall else x).to(matrix.dtype)


def _inside(name: str) -> bool:
    return not name.startswith(("output", "after", "masks"))


def new_head(shape: dict[str, Any], target: Target, kept: Tensor) -> Head:
    """As `engine.drafters.head_network.new_head`."""
    head, scale = Head(shape, kept), 0.3
    width, own = shape["target_size"], shape["hidden_size"]
    with torch.no_grad():
        head.fuse.weight.mul_(scale)
        head.embed.weight.mul_(scale)
        head.fuse.weight[:width, -width:] += torch.eye(width)
        if "parallel" not in shape:
            head.carry.weight.mul_(scale).add_(torch.eye(own))
        for block in head.blocks:
            block.self_attn.o_proj.weight.zero_()
            block.mlp.down_proj.weight.zero_()
        if "markov" in shape:
            head.after.weight.zero_()
        head.output.weight[:, :width] = target.embedding[kept].float().cpu()
        head.norm.weight[:width] = target.final_norm.float().cpu()
    return head


# The drafter's folder


def export(head: Head, out: Path, folder: Path) -> None:
    """Write config.json and head.safetensors, 8-bit in groups of 64 as MLX has them."""
    weights = {name: tensor.detach().float().cpu() for name, tensor in head.state_dict().items()}
    if len(head.blocks) == 1:
        weights = {name.replace("blocks.0.", "block."): one for name, one in weights.items()}
    order = weights.pop("kept").long().argsort()
    tensors = {"kept": head.kept.cpu()[order].int()}
    for name, tensor in weights.items():
        if name.startswith(("output", "after")):
            tensor = tensor[order]
        if tensor.ndim == 2 and tensor.shape[1] % 64 == 0:
            base = name.removesuffix(".weight")
            groups = tensor.unflatten(-1, (-1, 64))
            low, high = groups.amin(-1), groups.amax(-1)
            scales, biases = ((high - low) / 255).clamp(min=1e-7).half(), low.half()
            levels = (groups - biases.float()[..., None]) / scales.float()[..., None]
            levels = levels.round().clamp(0, 255).to(torch.uint8).flatten(-2)
            tensors[name] = levels.contiguous().view(torch.uint32)
            tensors |= {f"{base}.scales": scales, f"{base}.biases": biases}
        else:
            tensors[name] = tensor.half()
    save_file(tensors, out / "head.safetensors")
    shape = dict(head.shape)
    if shape["target_size"] == shape["hidden_size"]:  # as the engine has it
        del shape["target_size"]
    config = {
        "model_type": "slipstream-head",
        "target": folder.name,
        "target_fingerprint": fingerprint(folder / "model.safetensors"),
        **shape,
    }
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def exported(folder: Path) -> dict[str, Tensor]:
    """The weights of a folder that `export` wrote, as a head of one layer names them."""
    file = dequantized(folder / "head.safetensors", {"bits": 8, "group_size": 64})
    weights = {name.replace("block.", "blocks.0."): tensor.float() for name, tensor in file}
    unmoved = torch.zeros(len(weights["norm.weight"]))
    return {"moved": unmoved} | weights | {"kept": weights["kept"].long()}


def fingerprint(path: Path) -> str:
    """As `ModelFolder.fingerprint`, of a model in one file."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header.pop("__metadata__", None)
        lines = []
        for name, entry in header.items():
            start, end = entry["data_offsets"]
            file.seek(8 + size + start)
            digest = hashlib.sha256(file.read(min(end - start, 4096))).hexdigest()
            lines.append(json.dumps([name, entry["dtype"], entry["shape"], digest]))
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("answers", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["one"])
    parser.add_argument("--begin", type=Path, help="a head's folder, to go on from")
    parser.add_argument("--rate", type=float, default=1.0, help="of learning, against the usual")
    parser.add_argument("--steps", type=int, default=STEPS, help="guesses deep")
    parser.add_argument(
        "--shallow", type=float, default=0.0, help="minutes of the first guess alone"
    )
    parser.add_argument("--tests", nargs="*", type=Path, default=[], help="prompts to measure with")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    target = Target(given.target, device)
    tests = {path.stem: held_out(target, given.target, path, 120) for path in given.tests}
    reader = Reader(target, read_conversations(given.answers))
    train(
        given.out, given.target, reader, given.shapes, tests, given.minutes, given.begin,
        given.rate, given.steps, given.shallow,
    )  # fmt: skip


if __name__ == "__main__":
    main()
