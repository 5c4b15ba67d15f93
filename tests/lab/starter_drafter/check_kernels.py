"""Do the kernels compute what PyTorch does? Those for a GPU on one, or with TRITON_INTERPRET=1.

python check_kernels.py cpu|gpu
"""

import sys
from collections.abc import Callable
from typing import Any

import cpu_kernels
import torch
from answer import drawn
from head import compared
from target import attend_masked


def main() -> None:
    torch.manual_seed(0)
    if sys.argv[1] == "cpu":
        check_cpu()
    else:
        check_gpu()
    print("The kernels compute what PyTorch does.")


def check_cpu() -> None:
    keys, values = torch.randn(2, 5, 3, 200, 64).half()
    q, lengths = torch.randn(5, 9, 64), torch.tensor([1, 64, 65, 130, 200])
    seen = cpu_kernels.attend_slots(q, keys, values, lengths)
    expected = attend_masked(q, keys.float(), values.float(), lengths)
    torch.testing.assert_close(seen, expected, atol=1e-5, rtol=1e-5)
    rounded = cpu_kernels.attend_slots(q.bfloat16(), keys, values, lengths)
    torch.testing.assert_close(rounded.float(), expected, atol=2e-2, rtol=2e-2)
    check_compare(cpu_kernels.compare, "cpu", torch.bfloat16, {"atol": 1e-4, "rtol": 1e-2})
    check_compare(cpu_kernels.compare, "cpu", torch.float32, {"atol": 1e-6, "rtol": 1e-5})
    check_draw(torch.bfloat16)
    check_draw(torch.float32)


def check_draw(kind: torch.dtype) -> None:
    """Greedily the same tokens, else as often as they are probable."""
    logits, slots = 3 * torch.randn(1, 40).to(kind), 40_000
    logits, recent = logits.expand(slots, -1), torch.tensor([[3, 5, 3]]).expand(slots, -1)
    recent, penalties = recent.contiguous(), torch.full((slots,), 1.3)
    for warmth in (0.0, 0.8):
        arguments = (logits, recent, penalties, torch.full((slots,), warmth))
        (own, total), (other, expected) = cpu_kernels.draw(*arguments), drawn(*arguments)
        torch.testing.assert_close(total, expected)
        shares = [one.bincount(minlength=40) / slots for one in (own, other)]
        torch.testing.assert_close(*shares, atol=0.0 if not warmth else 0.015, rtol=0.0)


def check_gpu() -> None:
    from kernels import attend_slots, compare

    on_gpu = torch.cuda.is_available()
    device, kind = ("cuda", torch.bfloat16) if on_gpu else ("cpu", torch.float32)
    nearly = {"atol": 2e-2, "rtol": 2e-2} if on_gpu else {"atol": 1e-5, "rtol": 1e-5}

    keys, values = torch.randn(2, 5, 3, 200, 64, device=device, dtype=kind)
    q = torch.randn(5, 9, 64, device=device, dtype=kind)
    lengths = torch.tensor([1, 64, 65, 130, 200], device=device)
    expected = attend_masked(q, keys, values, lengths)
    torch.testing.assert_close(attend_slots(q, keys, values, lengths), expected, **nearly)

    check_compare(compare, device, kind, nearly)


def check_compare(
    compare: Callable[..., Any], device: str, kind: torch.dtype, nearly: dict[str, float]
) -> None:
    logits = 3 * torch.randn(50, 300, device=device, dtype=kind)
    thoughts = 3 * torch.randn(60, 310, device=device)
    total, which = thoughts.logsumexp(-1) + 0.1, torch.arange(5, 55, device=device)
    for greed in (0.0, 0.5, 1.0):
        arguments = (thoughts[:, :300], total, which, greed)
        expected = compared(logits, *arguments)
        for own, other in zip(compare(logits.clone(), *arguments), expected, strict=True):
            torch.testing.assert_close(own, other, **nearly)


if __name__ == "__main__":
    main()
