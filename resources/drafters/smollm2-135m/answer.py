"""The target's answers that the drafter in this folder learned from, with its hidden states.

    python answer.py asked.jsonl ANSWERS --target TARGET --minutes 40

Batched decoding in PyTorch and bfloat16; the shards are those of `engine.distil.store`. Goes on
where it was stopped.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

LAYERS = (10, 20, 30)  # whose states the head reads
LIKELIEST = 32
ENDS = (0, 2)


# The target


class Target:
    """SmolLM2 from an MLX folder, in bfloat16. Hidden states come out of every pass."""

    def __init__(self, folder: Path) -> None:
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text())
        weights = dict(dequantized(folder / "model.safetensors", self.config["quantization"]))
        self.embedding = weights["model.embed_tokens.weight"]
        self.norm = weights["model.norm.weight"]
        self.epsilon: float = self.config["rms_norm_eps"]
        self.heads: int = self.config["num_attention_heads"]
        self.pairs: int = self.config["num_key_value_heads"]  # of keys and values
        self.width: int = self.config["head_dim"]
        self.layers = []
        for number in range(self.config["num_hidden_layers"]):
            own = {
                name.removeprefix(f"model.layers.{number}.").removesuffix(".weight"): tensor
                for name, tensor in weights.items()
                if name.startswith(f"model.layers.{number}.")
            }
            attention = [own[f"self_attn.{name}_proj"] for name in "qkv"]
            own["qkv"] = torch.cat(attention)
            own["gate_up"] = torch.cat([own["mlp.gate_proj"], own["mlp.up_proj"]])
            self.layers.append(own)

    def normal(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, self.epsilon)

    def new_caches(self, rows: int, length: int) -> list[tuple[Tensor, Tensor]]:
        """Keys lie transposed, (rows * pairs, width, length): what batched products like best."""
        many, kind = rows * self.pairs, torch.bfloat16
        return [
            (
                torch.zeros(many, self.width, length, dtype=kind),
                torch.zeros(many, length, self.width, dtype=kind),
            )
            for _ in self.layers
        ]

    def read(
        self, tokens: Tensor, start: int, caches: list[tuple[Tensor, Tensor]], mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One pass: states (rows, n, layers, hidden), and the last logits (rows, vocabulary)."""
        rows, n = tokens.shape
        end, group = start + n, self.heads // self.pairs
        x, states = F.embedding(tokens, self.embedding), []
        places = torch.arange(start, end)
        for number, layer in enumerate(self.layers, start=1):
            y = F.linear(self.normal(x, layer["input_layernorm"]), layer["qkv"])
            y = y.view(rows, n, -1, self.width).transpose(1, 2)
            q, k, v = y.split([self.heads, self.pairs, self.pairs], 1)
            q = rotated(q, places, self.config["rope_theta"]) * self.width**-0.5
            k = rotated(k, places, self.config["rope_theta"])
            keys, values = caches[number - 1]
            keys[:, :, start:end] = k.transpose(2, 3).flatten(0, 1)
            values[:, start:end] = v.flatten(0, 1)
            scores = torch.bmm(q.reshape(-1, group * n, self.width), keys[:, :, :end])
            scores = scores.view(rows, self.heads, n, end) + mask
            seen = torch.bmm(scores.softmax(-1).view(-1, group * n, end), values[:, :end])
            seen = seen.view(rows, self.heads, n, self.width).transpose(1, 2).reshape(rows, n, -1)
            x = x + F.linear(seen, layer["self_attn.o_proj"])
            y = F.linear(self.normal(x, layer["post_attention_layernorm"]), layer["gate_up"])
            gate, up = y.chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer["mlp.down_proj"])
            if number in LAYERS:
                states.append(x)
        logits = F.linear(self.normal(x[:, -1], self.norm), self.embedding)
        return torch.stack(states, 2), logits.float()


def dequantized(path: Path, quantization: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """The tensors of an MLX file: packed integers become w = scale * q + bias, by groups."""
    with safe_open(path, "pt") as file:
        names = set(file.keys())
        for name in names:
            base = name.removesuffix(".weight")
            if name.endswith((".scales", ".biases")):
                continue
            tensor = file.get_tensor(name)
            if f"{base}.scales" in names:
                how = quantization.get(base, quantization)
                shifts = torch.arange(0, 32, how["bits"], dtype=torch.int32)
                packed = tensor.view(torch.int32)[..., None]
                levels = ((packed >> shifts) & (2 ** how["bits"] - 1)).flatten(-2).float()
                levels = levels.unflatten(-1, (-1, how["group_size"]))
                scales = file.get_tensor(f"{base}.scales").float()[..., None]
                biases = file.get_tensor(f"{base}.biases").float()[..., None]
                tensor = (levels * scales + biases).flatten(-2)
            yield name, tensor if tensor.dtype == torch.int32 else tensor.to(torch.bfloat16)


def rotated(x: Tensor, places: Tensor, theta: float) -> Tensor:
    """Rotary positions: `x` (rows, heads, n, width) at `places` (n,)."""
    width = x.shape[-1]
    turns = places[:, None].float() / theta ** (torch.arange(0, width, 2) / width)
    cosine, sine = turns.cos().to(x.dtype), turns.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)


# The answers, in shards as `engine.distil.store` has them


@dataclass
class Answer:
    """As `engine.distil.answers.Answer`: `states` of all tokens but the last."""

    tokens: list[int]
    prompt: int
    greedy: bool
    states: Tensor
    top_tokens: Tensor
    top_log_probs: Tensor


@torch.no_grad()
def answered(
    target: Target, prompts: list[list[int]], temperatures: list[float], longest: int
) -> list[Answer]:
    """An answer of up to `longest` tokens to each prompt, all at once."""
    count, length = len(prompts), max(map(len, prompts))
    padding = torch.tensor([length - len(prompt) for prompt in prompts])
    tokens = torch.tensor([[0] * (length - len(prompt)) + prompt for prompt in prompts])
    caches = target.new_caches(count, length + longest)
    mask = torch.zeros(count, 1, 1, length + longest, dtype=torch.bfloat16)
    mask.masked_fill_((torch.arange(length + longest) < padding[:, None])[:, None, None], -1e9)
    states = torch.zeros(count, length + longest, len(LAYERS), target.embedding.shape[1])
    states = states.to(torch.bfloat16)
    tops = torch.zeros(count, longest, LIKELIEST, dtype=torch.int32)
    log_probs = torch.zeros(count, longest, LIKELIEST, dtype=torch.float16)
    logits = torch.zeros(count, target.embedding.shape[0])
    later = torch.full((length, length), -1e9, dtype=torch.bfloat16).triu(1)
    for start in range(0, count, 16):  # so that scores stay small
        some = slice(start, min(start + 16, count))
        many = slice(some.start * target.pairs, some.stop * target.pairs)
        own = [(keys[many], values[many]) for keys, values in caches]
        hidden = torch.minimum(mask[some, :, :, :length], later)
        states[some, :length], logits[some] = target.read(tokens[some], 0, own, hidden)

    rows, written = torch.arange(count), [[] for _ in prompts]
    warmth = torch.tensor(temperatures)
    for step in range(longest):
        top = logits.topk(LIKELIEST)
        tops[rows, step] = top.indices.int()
        log_probs[rows, step] = (top.values - logits.logsumexp(-1, keepdim=True)).half()
        chosen, hot = logits.argmax(-1), (warmth[rows] > 0).nonzero()[:, 0]
        if len(hot):
            chances = (logits[hot] / warmth[rows][hot, None]).softmax(-1).cumsum(-1)
            drawn = torch.searchsorted(chances, torch.rand(len(hot), 1) * chances[:, -1:])
            chosen[hot] = drawn[:, 0].clamp(max=logits.shape[1] - 1)
        for row, token in zip(rows.tolist(), chosen.tolist(), strict=True):
            if not (written[row] and written[row][-1] in ENDS):
                written[row].append(token)
        going = torch.tensor([written[row][-1] not in ENDS for row in rows.tolist()])
        if step + 1 == longest or not going.any():
            break
        if going.float().mean() < 0.8:  # those that are done go on until it pays to move the rest
            kept = going.nonzero()[:, 0]
            rows, chosen, mask = rows[kept], chosen[kept], mask[kept]
            many = (kept[:, None] * target.pairs + torch.arange(target.pairs)).flatten()
            caches = [(keys[many], values[many]) for keys, values in caches]
        end = length + step
        read, logits = target.read(chosen[:, None], end, caches, mask[:, :, :, : end + 1])
        states[rows, end] = read[:, 0]

    return [
        Answer(
            prompts[row] + text,
            len(prompts[row]),
            temperatures[row] == 0,
            states[row, int(padding[row]) : length + len(text) - 1],
            tops[row, : len(text)],
            log_probs[row, : len(text)],
        )
        for row, text in enumerate(written)
    ]


def answer(asked: Path, out: Path, target: Target, minutes: float, batch: int = 192) -> None:
    """Answer what is asked, a shard at a time."""
    out.mkdir(parents=True, exist_ok=True)
    questions = [json.loads(line) for line in asked.open()]
    began, number = time.monotonic(), 0
    for start in range(0, len(questions), 8 * batch):
        some = questions[start : start + 8 * batch]
        if all((out / f"{number + i:05}.safetensors").exists() for i in range(8)):
            number += 8
            continue
        for one in some:
            one.setdefault("tokens", None)
        imagined = [one for one in some if "begin" in one]
        for place in range(0, len(imagined), batch):
            part = imagined[place : place + batch]
            users = answered(target, [one["begin"] for one in part], [1.0] * len(part), 120)
            for one, user in zip(part, users, strict=True):
                text = user.tokens[user.prompt :]
                if text[-1] == 2 and len(text) > 4:
                    one["tokens"] = [*one["plain"], *text[:-1], *one["close"]]
        some = sorted((one for one in some if one["tokens"]), key=lambda one: len(one["tokens"]))
        for place in range(0, len(some), batch):
            path = out / f"{number:05}.safetensors"
            number += 1
            if path.exists():
                continue
            part = some[place : place + batch]
            prompts = [one["tokens"] for one in part]
            answers = answered(target, prompts, [one["temperature"] for one in part], 160)
            _write_shard(path, [one for one in answers if len(one.tokens) - one.prompt > 4])
            print(f"{path.name}: {time.monotonic() - began:.0f} s", flush=True)
            if time.monotonic() - began > 60 * minutes:
                return


def _write_shard(path: Path, answers: Sequence[Answer]) -> None:
    def whole(values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int32)

    partial = path.with_name(f".{path.name}")
    tensors = {
        "tokens": whole([token for one in answers for token in one.tokens]),
        "lengths": whole([len(one.tokens) for one in answers]),
        "prompts": whole([one.prompt for one in answers]),
        "greedy": whole([int(one.greedy) for one in answers]),
        "seconds": torch.zeros(1),
        "states": torch.cat([one.states for one in answers]),
        "top_tokens": torch.cat([one.top_tokens for one in answers]),
        "top_log_probs": torch.cat([one.top_log_probs for one in answers]),
    }
    save_file(tensors, partial)
    partial.replace(path)


def read_answers(folder: Path) -> list[Answer]:
    """All of them, mapped into memory and not read."""
    answers = []
    for path in sorted(folder.glob("*.safetensors")):
        shard = load_file(path)
        lengths, prompts = shard["lengths"].tolist(), shard["prompts"].tolist()
        greedy = shard.get("greedy", torch.zeros(len(lengths))).tolist()
        token = state = top = 0
        for length, prompt, sure in zip(lengths, prompts, greedy, strict=True):
            said = length - prompt
            answers.append(
                Answer(
                    shard["tokens"][token : token + length].tolist(),
                    prompt,
                    bool(sure),
                    shard["states"][state : state + length - 1],
                    shard["top_tokens"][top : top + said],
                    shard["top_log_probs"][top : top + said],
                )
            )
            token, state, top = token + length, state + length - 1, top + said
    return answers


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("asked", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=60)
    given = parser.parse_args()
    answer(given.asked, given.out, Target(given.target), given.minutes)
