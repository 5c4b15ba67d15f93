"""Two kernels for a GPU, where PyTorch would read and write several times as much."""

import torch
import triton
import triton.language as tl
from torch import Tensor


def attend_slots(q: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """As `target.attend_masked`, without a look at the room that is left behind each length."""
    slots, pairs, longest, width = keys.shape
    q, seen = q.contiguous(), torch.empty_like(q, memory_format=torch.contiguous_format)
    _attend[(slots, pairs)](
        q, keys, values, seen, lengths, longest, keys.stride(0),
        PAIRS=pairs, GROUP=q.shape[1] // pairs, WIDTH=width, BLOCK=64,
    )  # fmt: skip
    return seen


@triton.jit
def _attend(
    q, keys, values, seen, lengths, longest, slot_stride,
    PAIRS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    slot, pair = tl.program_id(0).to(tl.int64), tl.program_id(1)
    length = tl.load(lengths + slot)
    rows, columns = tl.arange(0, 16), tl.arange(0, WIDTH)  # a product wants 16 rows
    own = ((slot * PAIRS + pair) * GROUP + rows[:, None]) * WIDTH + columns[None, :]
    query = tl.load(q + own, mask=rows[:, None] < GROUP, other=0.0)
    begin = slot * slot_stride + pair * longest * WIDTH
    highest = tl.full((16,), -1e30, tl.float32)
    total = tl.zeros((16,), tl.float32)
    sums = tl.zeros((16, WIDTH), tl.float32)
    for start in range(0, length, BLOCK):
        places = start + tl.arange(0, BLOCK)
        there = begin + places[:, None] * WIDTH + columns[None, :]
        known = places[:, None] < length
        key = tl.load(keys + there, mask=known, other=0.0)
        scores = tl.dot(query, tl.trans(key)) * (WIDTH**-0.5)
        scores = tl.where(places[None, :] < length, scores, -1e30)
        above = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.exp(scores - above[:, None])
        fade = tl.exp(highest - above)
        value = tl.load(values + there, mask=known, other=0.0)
        total = total * fade + tl.sum(weights, 1)
        sums = sums * fade[:, None] + tl.dot(weights.to(value.dtype), value)
        highest = above
    result = (sums / total[:, None]).to(seen.dtype.element_ty)
    tl.store(seen + own, result, mask=rows[:, None] < GROUP)


def compare(
    logits: Tensor, thoughts: Tensor, total: Tensor, which: Tensor, greed: float
) -> tuple[Tensor, Tensor]:
    """As `head.compared`, reading each row once; the gradient takes the place of `logits`."""
    count, rows = logits.shape
    found = torch.empty(count, device=logits.device)
    _compare[(count,)](
        logits, thoughts, total, which, found, rows, thoughts.stride(0), greed,
        BLOCK=triton.next_power_of_2(rows), num_warps=16,
    )  # fmt: skip
    return found, logits


@triton.jit
def _compare(
    logits, thoughts, total, which, found, rows, stride, greed, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    own = tl.load(which + row)
    columns = tl.arange(0, BLOCK)
    there = columns < rows
    z = tl.load(logits + row * rows + columns, mask=there, other=-1e30).to(tl.float32)
    t = tl.load(thoughts + own * stride + columns, mask=there, other=-1e30)
    p = tl.exp(t - tl.load(total + own))
    z = z - tl.max(z, 0)
    log_sum = tl.log(tl.sum(tl.exp(z), 0))
    q = tl.exp(z - log_sum)
    below = tl.where(q < p, q, 0.0)
    entropy = -tl.sum(tl.where(there, p * (z - log_sum), 0.0), 0)
    stands = tl.sum(tl.minimum(p, q), 0)
    tl.store(found + row, (1 - greed) * entropy - greed * stands)
    missed = q * tl.sum(below, 0) - below
    gradient = (1 - greed) * (q * tl.sum(p, 0) - p) + greed * missed
    tl.store(logits + row * rows + columns, gradient.to(logits.dtype.element_ty), mask=there)
