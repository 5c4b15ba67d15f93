"""How the drafter in this folder was made: `slipstream distil` in PyTorch, for speed on one CPU.

PyTorch's bfloat16 products are several times faster than float32 on CPUs that have them. The
network, the loss, the order of things and the files are those of `engine.head` and
`engine.distil`, where they are explained; a test compares the two losses. Needs torch
and safetensors, and nothing of Slipstream:

    python ask.py PROMPTS asked.jsonl TARGET
    python answer.py asked.jsonl ANSWERS --target TARGET --minutes 60
    python make.py train ANSWERS NEW_FOLDER --target TARGET --epochs 8

TARGET is the starter model's folder. Answers take 8 MB for a thousand tokens; each command goes
on where it was stopped.
"""

import argparse
import hashlib
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from answer import LAYERS, Answer, Target, dequantized, read_answers, rotated
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

STEPS = 3
STEP_WEIGHT = 0.8
HIDDEN_FROM = -1e4  # added to a score, it leaves nothing


# The head, and its loss


class Head(nn.Module):
    """As `engine.head.Head`, with the names of its weights."""

    def __init__(self, shape: dict[str, Any]) -> None:
        super().__init__()
        self.shape = shape
        hidden, between = shape["hidden_size"], shape["intermediate_size"]
        self.heads, self.pairs = shape["num_attention_heads"], shape["num_key_value_heads"]
        self.width, self.theta = shape["head_dim"], shape["rope_theta"]

        def matrix(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False)

        def norm() -> nn.RMSNorm:
            return nn.RMSNorm(hidden, eps=shape["rms_norm_eps"])

        self.fuse = matrix(len(shape["layers"]) * hidden, hidden)
        self.carry, self.embed = matrix(hidden, hidden), matrix(hidden, hidden)
        attention, mlp = nn.Module(), nn.Module()
        attention.q_proj = matrix(hidden, self.heads * self.width)
        attention.k_proj = matrix(hidden, self.pairs * self.width)
        attention.v_proj = matrix(hidden, self.pairs * self.width)
        attention.o_proj = matrix(self.heads * self.width, hidden)
        mlp.gate_proj, mlp.up_proj = matrix(hidden, between), matrix(hidden, between)
        mlp.down_proj = matrix(between, hidden)
        self.block = nn.Module()
        self.block.self_attn, self.block.mlp = attention, mlp
        self.block.input_layernorm, self.block.post_attention_layernorm = norm(), norm()
        self.norm, self.output = norm(), matrix(hidden, shape["rows"])

    def begin(self, states: Tensor) -> Tensor:
        return self.fuse(self.normal(states).flatten(-2))

    def go_on(self, state: Tensor) -> Tensor:
        return self.carry(self.normal(state))

    def normal(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), (x.shape[-1],), None, self.shape["rms_norm_eps"])

    def projected(self, x: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of `x` (rows, n, hidden)."""
        y, own = self.block.input_layernorm(x.float()), self.block.self_attn

        def split(matrix: nn.Linear) -> Tensor:
            return matrix(y).unflatten(-1, (-1, self.width)).transpose(1, 2)

        q, k, v = split(own.q_proj), split(own.k_proj), split(own.v_proj)
        q = rotated(q, places, self.theta) * self.width**-0.5
        return q, rotated(k, places, self.theta), v

    def attended(
        self, q: Tensor, keys: Tensor, values: Tensor, mask: Tensor,
        own: list[tuple[Tensor, Tensor]],
    ) -> Tensor:  # fmt: skip
        """`keys` of the target's states under `mask` (n, n), and of each step of its `own` the
        one key that belongs to each query."""
        rows, _, n, width = q.shape
        group = self.heads // self.pairs
        q = q.view(rows, self.pairs, group, n, width)
        scores = torch.matmul(q.flatten(2, 3), keys.transpose(2, 3))
        scores = scores.view(rows, self.pairs, group, n, n) + mask
        single = [(q * k[:, :, None]).sum(-1, keepdim=True) for k, _ in own]
        weights = torch.cat([scores, *single], -1).softmax(-1)
        seen = torch.matmul(weights[..., :n].flatten(2, 3), values)
        seen = seen.view(rows, self.pairs, group, n, width)
        for i, (_, v) in enumerate(own):
            seen = seen + weights[..., n + i, None] * v[:, :, None]
        seen = seen.reshape(rows, self.heads, n, width).transpose(1, 2).reshape(rows, n, -1)
        return self.block.self_attn.o_proj(seen)

    def thought(self, x: Tensor) -> Tensor:
        """The layer's second half."""
        y, own = self.block.post_attention_layernorm(x.float()), self.block.mlp
        return x + own.down_proj(F.silu(own.gate_proj(y)) * own.up_proj(y))


class SoftCrossEntropy(torch.autograd.Function):
    """The mean of -sum_k p_k log softmax(logits)[rows_k]; its gradient is made on the way."""

    @staticmethod
    def forward(context: Any, logits: Tensor, rows: Tensor, chances: Tensor) -> Tensor:
        count, x = len(logits), logits.to(torch.float32, copy=True)
        x -= x.amax(-1, keepdim=True)
        likeliest = x.gather(-1, rows)
        x.exp_()
        total, mass = x.sum(-1, keepdim=True), chances.sum(-1, keepdim=True)
        loss = (mass * total.log() - (chances * likeliest).sum(-1, keepdim=True)).sum() / count
        x *= mass / (total * count)
        x.scatter_add_(-1, rows, -chances / count)
        context.save_for_backward(x.to(logits.dtype))
        return loss

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (x,) = context.saved_tensors
        return x * gradient.to(x.dtype), None, None


@dataclass
class Batch:
    """As `engine.distil.loss.Batch`."""

    states: Tensor
    after: Tensor
    guessed: Tensor
    rank: Tensor
    rows: Tensor
    chances: Tensor


def make_batch(answers: Sequence[Answer], row_of: Tensor) -> Batch:
    """Answers side by side; `row_of` (vocabulary,) is -1 where a token has no row."""
    length = max(len(one.tokens) for one in answers) - 2
    after = torch.zeros(len(answers), length, dtype=torch.long)
    states = torch.zeros(len(answers), length, *answers[0].states.shape[1:], dtype=torch.bfloat16)
    guessed, rank, tops, log_probs = [], [], [], []
    for i, one in enumerate(answers):
        own, first = len(one.tokens) - 2, max(one.prompt - 2, 0)
        after[i, :own] = torch.tensor(one.tokens[1:-1])
        states[i, :own] = one.states[:own]
        guessed.append(i * length + torch.arange(first, own))
        rank.append(torch.arange(own - first))
        skipped = first + 2 - one.prompt
        tops.append(one.top_tokens[skipped:])
        log_probs.append(one.top_log_probs[skipped:])
    rows = row_of[torch.cat(tops).long()]
    chances = torch.cat(log_probs).float().exp() * (rows >= 0)
    return Batch(states, after, torch.cat(guessed), torch.cat(rank), rows.clamp(min=0), chances)


def loss(head: Head, batch: Batch, embedding: Tensor) -> Tensor:
    """As `engine.distil.loss.loss`."""
    rows, n = batch.after.shape
    places = torch.arange(n)
    embedded = head.embed(head.normal(F.embedding(batch.after, embedding)))
    total, own, begun = torch.zeros(()), [], head.begin(batch.states)
    for step in range(STEPS):
        x = begun + embedded
        q, k, v = head.projected(x, places)
        if step == 0:
            keys, values = k, v
        else:
            own.append((k, v))
        mask = torch.full((n, n), HIDDEN_FROM).triu(1 - step).to(q.dtype)
        lagging = [(_shifted(k, step - 1 - i), _shifted(v, step - 1 - i))
                   for i, (k, v) in enumerate(own)]  # fmt: skip
        x = x + head.attended(q, keys, values, mask, lagging)
        state = head.thought(x.flatten(0, 1)[batch.guessed])  # nothing else is looked at
        counted = (batch.rank >= step).nonzero()[:, 0]
        logits = head.output(head.norm(state.float()[counted]))
        entropy = SoftCrossEntropy.apply(logits, batch.rows[counted], batch.chances[counted])
        total = total + STEP_WEIGHT**step * entropy
        spread = torch.zeros(rows * n, state.shape[-1], dtype=state.dtype)
        spread = spread.index_copy(0, batch.guessed, state).view(rows, n, -1)
        begun = head.go_on(_shifted(spread[:, None], 1)[:, 0])
    return total


def _shifted(x: Tensor, by: int) -> Tensor:
    """What stood at place j of (rows, heads, n, width) stands at j + by."""
    return F.pad(x, (0, 0, by, 0))[:, :, : x.shape[2]]


# Training


def train(
    answers: Path, out: Path, target_folder: Path, rows: int, epochs: int, before: Path | None
) -> None:
    """Learn from stored answers for some epochs, and write the drafter's folder.

    With the folder of a drafter `before`, go on from that one, more gently.
    """
    torch.manual_seed(0)
    out.mkdir(parents=True, exist_ok=True)
    target = Target(target_folder)
    data = read_answers(answers)
    random.Random(0).shuffle(data)
    if before is None:
        mass = torch.zeros(len(target.embedding))
        for one in data:
            chances = one.top_log_probs.float().exp()
            mass.index_add_(0, one.top_tokens.flatten().long(), chances.flatten())
        kept = mass.topk(rows).indices.sort().values
        head = new_head(target, kept)
    else:
        head, kept = read_head(before)
    row_of = rows_of(kept, len(target.embedding))
    inner = [p for name, p in head.named_parameters() if p.ndim == 2 and "output" not in name]
    outer = [p for name, p in head.named_parameters() if p.ndim != 2 or "output" in name]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(inner, lr=2e-3, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(outer, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    gentleness = 1.0 if before is None else 0.5
    rates = [gentleness * optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    step, began, saved = 0, time.monotonic(), time.monotonic()
    checkpoint = out / "checkpoint.pt"
    if checkpoint.exists():
        stored = torch.load(checkpoint)
        step = stored["step"]
        head.load_state_dict(stored["head"])
        for optimizer, state in zip(optimizers, stored["optimizers"], strict=True):
            optimizer.load_state_dict(state)

    def save() -> None:
        states = [optimizer.state_dict() for optimizer in optimizers]
        partial = checkpoint.with_suffix(".partial")
        torch.save({"step": step, "head": head.state_dict(), "optimizers": states}, partial)
        partial.replace(checkpoint)

    each = len(_batches(data, 0))
    for epoch in range(step // each, epochs):
        for batch in _batches(data, epoch)[step - epoch * each :]:
            share = step / (epochs * each)
            for optimizer, rate in zip(optimizers, rates, strict=True):
                optimizer.param_groups[0]["lr"] = rate * min(1, (step + 1) / 60) * (1 - share)
                optimizer.zero_grad()
            made = make_batch(batch, row_of)
            with torch.autocast("cpu", torch.bfloat16):
                value = loss(head, made, target.embedding)
            value.backward()
            nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
            step += 1
            if step % 25 == 0:
                seconds = time.monotonic() - began
                print(f"{step}/{epochs * each}: {value.item():.3f}, {seconds:.0f} s", flush=True)
            if time.monotonic() - saved > 100:
                save()
                saved = time.monotonic()
        save()
        export(head, kept, out, target_folder)


def new_head(target: Target, kept: Tensor) -> Head:
    """As `engine.head.new_head`."""
    names = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    names += ("intermediate_size", "rope_theta")
    shape = {name: target.config[name] for name in names}
    head = Head(shape | {"layers": LAYERS, "rows": len(kept), "rms_norm_eps": 1e-5})
    hidden, scale = shape["hidden_size"], 0.3
    with torch.no_grad():
        for part in (head.fuse, head.carry, head.embed):
            part.weight.mul_(scale)
        head.fuse.weight[:, -hidden:] += torch.eye(hidden)
        head.carry.weight += torch.eye(hidden)
        head.block.self_attn.o_proj.weight.zero_()
        head.block.mlp.down_proj.weight.zero_()
        head.output.weight.copy_(target.embedding[kept].float())
        head.norm.weight.copy_(target.norm.float())
    return head


def read_head(folder: Path) -> tuple[Head, Tensor]:
    """What `export` wrote: the head, and the token of each row."""
    head = Head(json.loads((folder / "config.json").read_text()))
    quantization = {"bits": 8, "group_size": 64}
    weights = dict(dequantized(folder / "head.safetensors", quantization))
    kept = weights.pop("kept").long()
    head.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    return head, kept


def rows_of(kept: Tensor, vocabulary: int) -> Tensor:
    """The row of each token of the vocabulary, -1 where it has none."""
    row_of = torch.full((vocabulary,), -1, dtype=torch.long)
    row_of[kept] = torch.arange(len(kept))
    return row_of


def _batches(data: Sequence[Answer], seed: int, positions: int = 6000) -> list[list[Answer]]:
    """Answers of similar length together, in random order; the same ones for the same seed."""
    chance = random.Random(seed)
    batches: list[list[Answer]] = [[]]
    longest = 0
    for one in sorted(data, key=lambda one: len(one.tokens) + 40 * chance.random()):
        longest = max(longest, len(one.tokens))
        if batches[-1] and (len(batches[-1]) + 1) * longest > positions:
            batches.append([])
            longest = len(one.tokens)
        batches[-1].append(one)
    chance.shuffle(batches)
    return batches


# The drafter's folder


def export(head: Head, kept: Tensor, out: Path, target: Path) -> None:
    """Write config.json and head.safetensors, 8-bit in groups of 64 as MLX has them."""
    tensors = {"kept": kept.int()}
    for name, tensor in head.state_dict().items():
        if tensor.ndim == 2:
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
    config = {
        "model_type": "slipstream-head",
        "target": target.name,
        "target_fingerprint": fingerprint(target / "model.safetensors"),
        **head.shape,
    }
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def fingerprint(path: Path) -> str:
    """As `models.folders.ModelFolder.fingerprint`, of a model in one file."""
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


def print_loss(example: Path, answers: Path) -> None:
    """For the test: the loss of a head of `engine.distil` on answers that it has stored."""
    tensors = load_file(example)
    with safe_open(example, "pt") as file:
        shape = json.loads(file.metadata()["shape"])
    head, prefix = Head(shape), "head."
    head.load_state_dict(
        {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    )
    row_of = rows_of(tensors["kept"].long(), len(tensors["embedding"]))
    batch = make_batch(read_answers(answers), row_of)
    batch.states = batch.states.float()
    print(loss(head, batch, tensors["embedding"]).item())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    learning = commands.add_parser("train")
    learning.add_argument("answers", type=Path)
    learning.add_argument("out", type=Path)
    learning.add_argument("--target", type=Path, required=True)
    learning.add_argument("--epochs", type=int, default=8)
    learning.add_argument("--rows", type=int, default=8192)
    learning.add_argument("--before", type=Path, help="a drafter to go on from")
    comparing = commands.add_parser("loss")
    comparing.add_argument("example", type=Path)
    comparing.add_argument("answers", type=Path)
    given = parser.parse_args()
    if given.command == "train":
        train(given.answers, given.out, given.target, given.rows, given.epochs, given.before)
    else:
        print_loss(given.example, given.answers)


if __name__ == "__main__":
    main()
