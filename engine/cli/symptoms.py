"""What the doctor says about each thing that it looked at. Pure: figures in, a line out.

Every line states a fact; one that is a problem has a remedy.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from engine.bench.machine import MachineDescription
from engine.bench.measure import PassCurve
from engine.blas import MatrixLibrary
from engine.circumstances import OVERLOADED

_OLDEST = {"mlx": (0, 32, 4), "mlx-lm": (0, 32, 2)}
_SHOWN_ROWS = (2, 4, 8, 16)
_TYPICAL, _PERFECT = 0.7, 1.0  # chances that a guess stands, for what drafting could gain
_WORTH = 1.02


@dataclass(frozen=True, slots=True)
class Line:
    """A fact about `name`. `remedy`: what to do, where it is a problem; `usable`: whether
    Slipstream works all the same."""

    name: str
    fact: str
    remedy: str = ""
    usable: bool = True


def version_line(package: str, found: str) -> Line:
    """Whether an installed package is new enough."""
    oldest = _OLDEST[package]
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:3])
    if numbers >= oldest:
        return Line(package, found)
    wanted = ".".join(map(str, oldest))
    return Line(
        package,
        f"{found}, older than {wanted}",
        f"pip install --upgrade '{package}>={wanted}'",
        usable=False,
    )


def backend_line(machine: MachineDescription) -> Line:
    """Metal, or the CPU."""
    if machine.device != "CPU":
        return Line("backend", f"Metal, {machine.device}")
    if machine.platform.startswith("macOS"):
        return Line(
            "backend",
            "CPU: MLX finds no Metal device",
            "Use a Mac with Apple Silicon, and a Python built for arm64 (not under Rosetta).",
        )
    return Line("backend", "CPU: no Metal here, small models only")


def matrix_line(library: MatrixLibrary, *, gigaflops: float, alike: bool) -> Line:
    """Which library multiplies matrices on the CPU backend, and whether it is the right one.

    `alike`: whether a block of rows was its rows one by one, bit for bit.
    """
    if not (library.slow or library.kernels):
        return Line("BLAS", str(library))  # a Mac's own
    fact = f"{library}, {gigaflops:.0f} GFLOP/s for 8 rows"
    if library.slow:
        return Line(
            "BLAS",
            f"{fact}: a pass over several rows costs as much as that many passes, so that drafting "
            "cannot pay",
            "Install Slipstream again, which brings OpenBLAS along, or your system's (apt install "
            "libopenblas0-pthread); and let nothing import mlx before engine.",
        )
    if not alike:
        return Line(
            "BLAS",
            f"{fact}: it rounds by the number of rows, so that greedy texts may differ",
            "Let no other BLAS be loaded first: unset LD_PRELOAD and SLIPSTREAM_ANY_KERNELS.",
        )
    return Line("BLAS", f"{fact}, {library.threads} threads")


def load_line(running: float, cores: int) -> Line:
    """Whether the machine has time: what is measured beside other work means little."""
    fact = f"{running:.1f} processes want to run on {cores} cores"
    if running > OVERLOADED * cores:
        return Line("load", fact, "Measure again when other programs are done.")
    return Line("load", fact)


def fit_line(*, weights: int, token: float, context: int, free: int | None, device: int) -> Line:
    """Whether a loaded pair fits, with a conversation in it.

    `weights`: bytes of both models. `token`: bytes of caches for each token. `free`: bytes that
    others leave, the pair's own not counted. `device`: what the GPU may use, 0 for no limit.
    """
    whole = weights + token * context
    fact = (
        f"weights {size(weights)}, {size(token)} more for each token: {size(whole)} with all "
        f"{context:,} tokens of its context"
    )
    limits = [device] if device else []
    limits += [] if free is None else [weights + free]
    most = min(limits, default=whole)
    if whole <= most:
        return Line("fit", f"{fact}; it fits")
    if weights > most:
        return Line(
            "fit",
            f"{fact}; there are {size(most)}",
            "Choose a smaller model or one with fewer bits, or close other programs.",
            usable=False,
        )
    tokens = int((most - weights) / token)
    return Line(
        "fit", f"{fact}; there is room for {tokens:,}", "Keep conversations shorter than that."
    )


def curve_lines(curve: PassCurve, *, drafts: bool) -> Iterator[Line]:
    """What passes cost, what a drafted token costs, and what drafting can gain from that."""
    first = curve.points[0].seconds
    longest = curve.points[-1].rows
    widths = [rows for rows in _SHOWN_ROWS if rows <= longest]
    costs = ", ".join(f"{rows} rows {curve.relative(rows):.2f}" for rows in widths)
    yield Line("passes", f"one row takes {1e3 * first:.1f} ms; times that: {costs}")
    if curve.step_seconds is not None:
        share = curve.step_seconds / first
        fact = f"{1e3 * curve.step_seconds:.1f} ms a token, {share:.0%} of a pass"
        yield Line("drafting", f"{curve.drafter}: {fact}")
    if not drafts:
        return
    length, best = curve.best(acceptance=_PERFECT)
    if best < _WORTH:
        yield Line(
            "gain",
            f"on this curve drafting cannot pay: {best:.2f} times plain at best, if every guess "
            "stood",
            "Nothing is lost, as the engine parks drafting. On a CPU, free memory so that weights "
            "can be expanded to float32; else choose a cheaper drafter.",
        )
        return
    length, gain = curve.best(acceptance=_TYPICAL)
    if gain < _WORTH:
        yield Line(
            "gain",
            f"drafting pays only where nearly all guesses stand: none at {_TYPICAL:.0%}, "
            f"{best:.2f} times plain at best",
            "Choose a cheaper drafter, or lookup.",
        )
        return
    yield Line(
        "gain",
        f"drafts of {length} would give {gain:.2f} times plain if {_TYPICAL:.0%} of the guesses "
        "stood",
    )


def drafter_line(asked: str, found: str) -> Line:
    """Who drafts: `found` is the name of what `asked` for led to."""
    if asked.strip() == "auto" and found == "lookup":
        return Line(
            "drafter",
            "lookup: no head was distilled for this target",
            "slipstream distil makes one; lookup alone pays where a text repeats itself.",
        )
    return Line("drafter", found)


def size(size_bytes: float) -> str:
    """In words: 1.5 GB."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.{1 if unit > 1e6 else 0}f} {name}"
    return f"{size_bytes:.0f} bytes"
