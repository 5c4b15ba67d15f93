"""The starter model in PyTorch, for many sequences at once, on a GPU or a CPU.

Knows how to read whole sequences (for the head to learn from) and how to go on with thousands of
them, each in a slot of its own and as long as it happens to be.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cpu_kernels
import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor


class Target:
    """SmolLM2 from an MLX folder.

    Attributes: `config`; `embedding` (vocabulary, hidden), which is the output layer too;
    `final_norm` (hidden,); `kind`, in which it computes: bfloat16 where that is quick,
    unless it is told.
    """

    def __init__(self, folder: Path, device: str, kind: torch.dtype | None = None) -> None:
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text())
        file = dequantized(folder / "model.safetensors", self.config["quantization"])
        self.kind = kind or (torch.bfloat16 if quick_in_bfloat16(device) else torch.float32)
        weights = {name: tensor.to(device, self.kind) for name, tensor in file}
        self.device = device
        self.embedding = weights["model.embed_tokens.weight"]
        self.final_norm = weights["model.norm.weight"]
        self.epsilon: float = self.config["rms_norm_eps"]
        self.heads: int = self.config["num_attention_heads"]
        self.pairs: int = self.config["num_key_value_heads"]  # of keys and values
        self.width: int = self.config["head_dim"]
        self.cache_kind, self._attend = self.kind, attend_masked
        if device == "cuda":
            from kernels import attend_slots  # Triton is there where a GPU is

            self._attend = attend_slots
        elif torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512"):
            self.cache_kind, self._attend = torch.float16, cpu_kernels.attend_slots
        self.layers = []
        for number in range(self.config["num_hidden_layers"]):
            own = {
                name.removeprefix(f"model.layers.{number}.").removesuffix(".weight"): tensor
                for name, tensor in weights.items()
                if name.startswith(f"model.layers.{number}.")
            }
            own["qkv"] = torch.cat([own[f"self_attn.{name}_proj"] for name in "qkv"])
            own["gate_up"] = torch.cat([own["mlp.gate_proj"], own["mlp.up_proj"]])
            self.layers.append(own)

    @torch.no_grad()
    def read(
        self, tokens: Tensor, layers: tuple[int, ...] = (), caches: list[Tensor] | None = None
    ) -> tuple[Tensor | None, Tensor]:
        """Read sequences (rows, n), padded on the right, from their beginning.

        Returns what `layers` (1 is the first) put out, (rows, n, layers, hidden), and the last
        one's output behind the final norm. Keys and values go to `caches`, if there are.
        """
        x, states = F.embedding(tokens, self.embedding), []
        turns = self.turns(torch.arange(tokens.shape[1], device=tokens.device))
        for number, layer in enumerate(self.layers, start=1):
            q, k, v = self._projected(x, layer, turns)
            if caches is not None:
                caches[number - 1] = torch.stack([k, v])
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = self._second_half(x, seen.transpose(1, 2).flatten(2), layer)
            if number in layers:
                states.append(x)
        return torch.stack(states, 2) if states else None, self.normal(x, self.final_norm)

    @torch.no_grad()
    def go_on(
        self, tokens: Tensor, lengths: Tensor, caches: Tensor, layers: tuple[int, ...] = ()
    ) -> tuple[Tensor | None, Tensor]:
        """Read one more token of each slot, `tokens` (slots,), behind `lengths` (slots,) others.

        `caches` (layers, 2, slots, pairs, longest, width) are filled on. Returns what `read` does,
        without its `n`.
        """
        x, states = F.embedding(tokens, self.embedding)[:, None], []
        turns = self.turns(lengths[:, None])
        slots = torch.arange(len(tokens), device=tokens.device)
        for number, (layer, cache) in enumerate(zip(self.layers, caches, strict=True), start=1):
            q, k, v = self._projected(x, layer, turns)
            cache[0, slots, :, lengths] = k[:, :, 0].to(cache.dtype)
            cache[1, slots, :, lengths] = v[:, :, 0].to(cache.dtype)
            seen = self._attend(q[:, :, 0], cache[0], cache[1], lengths + 1)
            x = self._second_half(x, seen.flatten(1)[:, None], layer)
            if number in layers:
                states.append(x[:, 0])
        last = self.normal(x[:, 0], self.final_norm)
        return torch.stack(states, 1) if states else None, last

    def autocast(self) -> torch.autocast:
        """In which a head computes as the target does."""
        return torch.autocast(self.device, torch.bfloat16, enabled=self.kind == torch.bfloat16)

    def normal(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, self.epsilon)

    def turns(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines for `places` (n,) or (rows, n)."""
        return turns(places, self.width, self.config["rope_theta"])

    def _projected(
        self, x: Tensor, layer: dict[str, Tensor], turns: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        y = F.linear(self.normal(x, layer["input_layernorm"]), layer["qkv"])
        y = y.view(*x.shape[:2], -1, self.width).transpose(1, 2)
        q, k, v = y.split([self.heads, self.pairs, self.pairs], 1)
        return rotated(q, turns), rotated(k, turns), v

    def _second_half(self, x: Tensor, seen: Tensor, layer: dict[str, Tensor]) -> Tensor:
        x = x + F.linear(seen, layer["self_attn.o_proj"])
        y = F.linear(self.normal(x, layer["post_attention_layernorm"]), layer["gate_up"])
        gate, up = y.chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, layer["mlp.down_proj"])


def quick_in_bfloat16(device: str) -> bool:
    """On a CPU that has instructions for it products are 2.5 times as fast as in float32, on any
    other one a seventh as fast."""
    return device != "cpu" or bool(torch.cpu.get_capabilities().get("avx512_bf16"))


def attend_masked(q: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """`q` (slots, heads, width) over the first `lengths` of (slots, pairs, longest, width)."""
    longest = int(lengths.max())
    keys, values = keys[:, :, :longest], values[:, :, :longest]
    mask = torch.arange(longest, device=q.device) < lengths[:, None]
    seen = F.scaled_dot_product_attention(
        q[:, :, None], keys, values, attn_mask=mask[:, None, None], enable_gqa=True
    )
    return seen[:, :, 0]


def turns(places: Tensor, width: int, theta: float) -> tuple[Tensor, Tensor]:
    powers = torch.arange(0, width, 2, device=places.device) / width
    angles = places[..., None].float() / theta**powers
    if places.ndim == 2:
        angles = angles[:, None]  # for all heads
    return angles.cos(), angles.sin()


def rotated(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions: `x` (rows, heads, n, width)."""
    cosine, sine = (part.to(x.dtype) for part in turns)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)


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
            yield name, tensor
