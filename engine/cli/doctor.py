"""`slipstream doctor`: what this machine has, whether a pair runs well on it, and what to change.

Every line states a fact that was read or measured here; one that is a problem has a remedy.
Changes nothing and fetches nothing.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter

import mlx.core as mx
from rich.console import Console

from engine.bench.machine import MachineDescription, available_bytes, this_machine
from engine.bench.measure import PassCurve, cache_bytes, curve_of, weight_bytes
from engine.blas import choose_blas
from engine.cli.symptoms import (
    Line,
    backend_line,
    curve_lines,
    drafter_line,
    fit_line,
    load_line,
    matrix_line,
    size,
    version_line,
)
from engine.draft_length.calibrate import calibrate
from engine.loading import load
from engine.pair import make_drafter
from engine.session import Session
from models.errors import Problem
from models.folders import ModelFolder, inspect
from models.installed.resolve import resolve_drafters
from models.starter import STARTER, models_folder, shipped_starter

_KV_PROBE = 64
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All lines; `curve`, where one was measured."""

    lines: tuple[Line, ...]
    curve: PassCurve | None = None

    @property
    def usable(self) -> bool:
        """Whether no line says that Slipstream does not work here."""
        return all(line.usable for line in self.lines)

    def to_plain(self) -> dict[str, object]:
        """For JSON."""
        return {"usable": self.usable, **asdict(self)}


def diagnose(
    find: Callable[[], ModelFolder | None],
    drafter: str,
    *,
    show: Callable[[Line], None] = lambda line: None,
    budget_seconds: float = 5.0,
) -> Diagnosis:
    """Look at the machine, and at the pair; `show` gets each line as it is known.

    `find` gives the target, None where it is not here yet; it may raise `Problem`.
    `drafter`: as in `engine.pair`. The
    curve is measured for about `budget_seconds`.
    """
    lines: list[Line] = []
    machine = this_machine()
    for line in machine_lines(machine):
        lines.append(line)
        show(line)
    pair = _Pair(find, drafter, machine, budget_seconds)
    for line in pair.lines():
        lines.append(line)
        show(line)
    return Diagnosis(tuple(lines), pair.curve)


def starter_if_here() -> ModelFolder | None:
    """The starter model, if it came along or was fetched; nothing is fetched."""
    if came_along := shipped_starter():
        return came_along
    folder = models_folder() / STARTER.name
    return inspect(folder) if folder.is_dir() else None


def show_line(line: Line, console: Console) -> None:
    """Print it, the remedy below it."""
    mark = "✗" if not line.usable else "!" if line.remedy else "✓"
    style = "bold red" if not line.usable else "bold yellow" if line.remedy else "green"
    console.print(f"[{style}]{mark}[/] [bold]{line.name:10}[/] ", end="")
    console.print(line.fact, markup=False, highlight=False, soft_wrap=True)
    if line.remedy:
        console.print(f"{'':13}→ {line.remedy}", markup=False, highlight=False, soft_wrap=True)


def machine_lines(machine: MachineDescription) -> Iterator[Line]:
    """Versions, chip, memory, backend and matrix library."""
    yield Line("slipstream", f"{machine.slipstream}, Python {machine.python}")
    for package, found in (("mlx", machine.mlx), ("mlx-lm", machine.mlx_lm)):
        yield version_line(package, found)
    yield Line("window", _window())
    yield Line("chip", f"{machine.processor}, {machine.cores} cores, {machine.platform}")
    free = available_bytes()
    known = f", {free / _GIB:.1f} GiB free" if free is not None else ""
    yield Line("memory", f"{machine.memory_bytes / _GIB:.1f} GiB{known}")
    yield backend_line(machine)
    yield matrix_line(choose_blas(), gigaflops=_gigaflops(), alike=_rows_are_alike())
    yield load_line(os.getloadavg()[0], machine.cores)


class _Pair:
    """The checks of a target and its drafter, in an order in which each needs those before."""

    def __init__(
        self,
        find: Callable[[], ModelFolder | None],
        drafter: str,
        machine: MachineDescription,
        budget_seconds: float,
    ) -> None:
        self._find = find
        self._name = drafter
        self._machine = machine
        self._budget_seconds = budget_seconds
        self.curve: PassCurve | None = None

    def lines(self) -> Iterator[Line]:
        """What is wrong with the pair ends them."""
        free = available_bytes()
        try:
            folder = self._find()
            if folder is None:
                yield Line(
                    "target",
                    "the starter model is not here yet",
                    "Any answer fetches it (93 MB): slipstream generate --prompt Hello",
                )
                return
            folder.check()
            if free is not None and folder.size_bytes > free:
                yield Line(
                    "target",
                    f"{folder.name} takes {size(folder.size_bytes)}, and {size(free)} are free",
                    "Choose a smaller model or one with fewer bits, or close other programs.",
                    usable=False,
                )
                return
            began = perf_counter()
            target = load(folder)
        except Problem as problem:
            yield Line("target", problem.message, problem.remedy, usable=False)
            return
        yield Line(
            "target",
            f"{folder.name}, {folder.model_type}, {target.precision}, loaded in "
            f"{perf_counter() - began:.1f} s",
        )
        session = Session(target)
        try:
            drafters = resolve_drafters(self._name, folder)
            session.drafter = make_drafter(drafters, target=target, decoder=session.decoder)
        except Problem as problem:
            yield Line("drafter", problem.message, problem.remedy, usable=False)
            return
        yield drafter_line(self._name, session.drafter.name)
        token = cache_bytes(session.decoder, _KV_PROBE) / _KV_PROBE
        yield fit_line(
            weights=mx.get_active_memory() or weight_bytes(target.model),
            token=token,
            context=target.context_length,
            free=available_bytes(),
            device=_device_bytes(),
        )
        calibration = calibrate(
            session.decoder, session.drafter, budget_seconds=self._budget_seconds
        )
        if calibration is None:
            yield Line(
                "passes",
                "the same passes took now so long, now so long: nothing to be relied on",
                "Measure again when other programs are done.",
            )
            return
        self.curve = curve_of(calibration, session.drafter.name.split("+"))
        yield from curve_lines(self.curve, drafts=session.drafter.name != "none")


def _window() -> str:
    try:
        return f"PySide6 {version('PySide6-Essentials')}"
    except PackageNotFoundError:
        return "no PySide6: the terminal only"


def _device_bytes() -> int:
    """What MLX may use on the GPU; 0 on the CPU, where there is no limit but the memory."""
    if mx.default_device() == mx.cpu:
        return 0
    return int(mx.device_info().get("max_recommended_working_set_size", 0))


def _gigaflops() -> float:
    """Of a product of eight rows, about what verifying a draft does."""
    rows, width, times = 8, 2048, 5
    left, right = mx.ones((rows, width)), mx.ones((width, width))
    mx.eval(left, right, left @ right)
    began = perf_counter()
    for _ in range(times):
        mx.eval(left @ right)
    return 2e-9 * rows * width * width * times / max(perf_counter() - began, 1e-9)


def _rows_are_alike() -> bool:
    """Whether a product of eight rows is that of each row, bit for bit."""
    left, right = (
        mx.random.normal(shape, key=mx.random.key(0)) for shape in ((8, 576), (576, 576))
    )
    alone = mx.concatenate([left[i : i + 1] @ right.T for i in range(8)])
    return bool(mx.array_equal(left @ right.T, alone).item())
