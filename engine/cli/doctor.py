"""`slipstream doctor`: describes this machine, tests whether a pair runs well on it, and says what
to change.

Every check states a fact that was read or measured here; a check that found a problem has a symptom
and a remedy. The `check_*` functions are pure: figures in, a check out. Changes nothing and
fetches nothing.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from time import perf_counter

import mlx.core as mx
from rich.console import Console

from engine.bench.machine import MachineDescription, this_machine
from engine.bench.measure import PassCurve, at_depth, cache_bytes, curve_of, weight_bytes
from engine.circumstances import OVERLOADED, macos_to_update
from engine.command_buffers import buffers_in_force
from engine.conversation.kept_blocks import held_bytes, kept_blocks_folder
from engine.conversation.loading import load
from engine.conversation.pair import held_as, make_drafter
from engine.conversation.proof import settle
from engine.conversation.session import Session
from engine.conversation.template import abilities_for, closing_of, reply_syntax
from engine.conversation.template_abilities import TemplateAbilities
from engine.cpu.blas import MatrixLibrary, choose_blas
from engine.device import Wired
from engine.draft_length.calibrate import calibrate
from engine.replies.syntax import ReplySyntax
from engine.vision.tower import require_tower
from models.errors import Problem
from models.files import models_folder
from models.in_words import size
from models.installed.resolve import resolve_drafters
from models.memory import machine as memory_of
from models.model_folder import ModelFolder, inspect
from models.speed import Chip, PublishedCurve, load_chips, longest_that_gains
from models.starter import STARTER, shipped_starter

_KV_PROBE = 64
_PICTURE = 1024, 768
_GIB = 2**30
_OLDEST = {"mlx": (0, 32, 4), "mlx-lm": (0, 32, 2)}
_SHOWN_ROWS = (2, 4, 8, 16)
_TYPICAL, _PERFECT = 0.7, 1.0  # acceptance rates for which the gain of drafting is computed
_WORTH = 1.02


class Symptom(Enum):
    """A problem that the doctor recognizes. The value is its remedy, with places for details."""

    OUTDATED = "pip install --upgrade '{package}>={wanted}'"
    NO_METAL = "Use a Mac with Apple Silicon, and a Python built for arm64 (not under Rosetta)."
    OLD_MACOS = "Update macOS to 26.2 or newer."
    SLOW_BLAS = (
        "Install Slipstream again: it includes OpenBLAS. Or install your system's (apt install "
        "libopenblas0-pthread). Import engine before mlx."
    )
    ROWS_DIFFER = "Unset LD_PRELOAD and SLIPSTREAM_ANY_KERNELS, which load another BLAS first."
    BUSY = "Run slipstream doctor again when other programs have finished."
    NOT_HERE = "Download it with any answer (93 MB): slipstream generate --prompt Hello"
    TOO_LARGE = "Choose a smaller model or fewer bits, or close other programs."
    SHORT_CONTEXT = "Keep conversations shorter, or set --context."
    NO_HEAD = "Train one with slipstream distil. suffix alone helps when a text repeats itself."
    NEVER_PAYS = (
        "Nothing to do: the engine does not draft while it does not pay. To make it pay, choose a "
        "cheaper drafter; on a CPU, free memory so that weights can be expanded to float32."
    )
    SELDOM_PAYS = "Choose a cheaper drafter, or lookup."
    REFUSED = "{remedy}"

    def found(self, name: str, fact: str, *, usable: bool = True, **details: str) -> "Check":
        """Return a check that found this symptom. `details`: values for the remedy's places."""
        return Check(name, fact, self.value.format(**details), usable, self)


@dataclass(frozen=True, slots=True)
class Check:
    """A fact about `name`; if it is a problem, with a `symptom` and a `remedy` in words.

    `usable`: whether Slipstream works in spite of it.
    """

    name: str
    fact: str
    remedy: str = ""
    usable: bool = True
    symptom: Symptom | None = None

    def to_json(self) -> dict[str, object]:
        """Return the check as plain JSON values."""
        symptom = self.symptom.name.lower() if self.symptom else None
        return {**asdict(self), "symptom": symptom}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All checks, and the measured curve of passes, if any."""

    checks: tuple[Check, ...]
    curve: PassCurve | None = None

    @property
    def usable(self) -> bool:
        """Whether Slipstream works here: no check says otherwise."""
        return all(check.usable for check in self.checks)

    def to_json(self) -> dict[str, object]:
        """Return the diagnosis as plain JSON values."""
        return {
            "usable": self.usable,
            "lines": [check.to_json() for check in self.checks],
            "curve": self.curve and asdict(self.curve),
        }


def diagnose(
    find: Callable[[], ModelFolder | None] | None,
    drafter: str,
    *,
    bits: int = 0,
    show: Callable[[Check], None] = lambda check: None,
    budget_seconds: float = 5.0,
) -> Diagnosis:
    """Check the machine, then the pair; call `show` with each check as soon as it is made.

    `find` returns the target, or None if it is not downloaded yet; it may raise `Problem`. Without
    `find` only the machine is checked.
    `drafter`, `bits`: as for `resolve_drafters`. Measuring the curve takes about `budget_seconds`.
    """
    checks: list[Check] = []
    machine = this_machine()
    pair = None if find is None else _PairChecks(find, drafter, bits, machine, budget_seconds)
    for check in chain(machine_checks(machine), pair.run() if pair else ()):
        checks.append(check)
        show(check)
    return Diagnosis(tuple(checks), pair.curve if pair else None)


def starter_if_here() -> ModelFolder | None:
    """Return the starter model if it is on this machine; downloads nothing."""
    if came_along := shipped_starter():
        return came_along
    folder = models_folder() / STARTER.name
    return inspect(folder) if folder.is_dir() else None


def show_check(check: Check, console: Console) -> None:
    """Print a check, with its remedy below it."""
    mark = "✗" if not check.usable else "!" if check.symptom else "✓"
    style = "bold red" if not check.usable else "bold yellow" if check.symptom else "green"
    console.print(f"[{style}]{mark}[/] [bold]{check.name:10}[/] ", end="")
    console.print(check.fact, markup=False, highlight=False, soft_wrap=True)
    if check.remedy:
        console.print(f"{'':13}→ {check.remedy}", markup=False, highlight=False, soft_wrap=True)


def machine_checks(machine: MachineDescription) -> Iterator[Check]:
    """Yield checks of versions, chip, memory, backend, matrix library, load and disk cache."""
    yield Check("slipstream", f"{machine.slipstream}, Python {machine.python}")
    for package, installed in (("mlx", machine.mlx), ("mlx-lm", machine.mlx_lm)):
        yield check_version(package, installed)
    yield Check("window", _window())
    yield Check("chip", f"{machine.processor}, {machine.cores} cores, {machine.platform}")
    chip = load_chips().find(machine.processor, machine.memory_bytes)
    if chip is not None:
        yield check_chip(chip)
    memory, free = machine.memory_bytes / _GIB, available_bytes() / _GIB
    yield Check("memory", f"{memory:.1f} GiB, {free:.1f} GiB for models")
    yield check_backend(machine)
    if macos := macos_to_update():
        fact = f"{macos} lacks kernels that this MLX needs on an M5"
        yield Symptom.OLD_MACOS.found("macOS", fact)
    if machine.device != "CPU":
        yield Check("buffers", buffers_in_force() or "MLX's own command buffers")
    yield check_blas(choose_blas(), gigaflops=_gigaflops(), rows_alike=_rows_are_alike())
    yield check_load(os.getloadavg()[0], machine.cores)
    folder = kept_blocks_folder()
    yield Check("cache", f"{size(held_bytes(folder))} of cached prompts, in {folder}")


class _PairChecks:
    """The checks of a target and its drafter; each needs the checks before it."""

    def __init__(
        self,
        find: Callable[[], ModelFolder | None],
        drafter: str,
        bits: int,
        machine: MachineDescription,
        budget_seconds: float,
    ) -> None:
        self._find = find
        self._name, self._bits = drafter, bits
        self._machine = machine
        self._budget_seconds = budget_seconds
        self.curve: PassCurve | None = None

    def run(self) -> Iterator[Check]:
        """Yield the checks; the first that finds the pair unusable is the last."""
        free = available_bytes()
        try:
            folder = self._find()
            if folder is None:
                yield Symptom.NOT_HERE.found("target", "The starter model is not downloaded yet.")
                return
            folder.check()
            if folder.size_bytes > free:
                fact = f"{folder.name} needs {size(folder.size_bytes)}; {size(free)} are free"
                yield Symptom.TOO_LARGE.found("target", fact, usable=False)
                return
            began = perf_counter()
            target = load(folder)
        except Problem as problem:
            yield _refused("target", problem)
            return
        yield Check(
            "target",
            f"{folder.name}, {folder.model_type}, {target.precision}, loaded in "
            f"{perf_counter() - began:.1f} s",
        )
        exact = settle(target, "auto")
        yield Check("text", exact.in_words())
        tokenizer = target.tokenizer
        yield check_template(abilities_for(tokenizer, tools=True), reply_syntax(tokenizer))
        yield check_sight(folder)
        session = Session(target)
        try:
            drafters = resolve_drafters(self._name, folder, bits=self._bits)
            session.drafter = make_drafter(drafters, target=target, decoder=session.decoder)
        except Problem as problem:
            yield _refused("drafter", problem)
            return
        held = [f"{name} is loaded {bits}." for name, bits in held_as(drafters)]
        yield check_drafter(
            self._name, session.drafter.name, " ".join([drafters.why, *held]).strip()
        )
        with at_depth(session.decoder, _KV_PROBE):
            token = cache_bytes(session.decoder) / _KV_PROBE
        yield check_fit(
            weights=mx.get_active_memory() or weight_bytes(target.model),
            token=token,
            context=target.context_length,
            free=available_bytes(),
            device=_device_bytes(),
        )
        calibration = calibrate(
            session.decoder, session.drafter, budget_seconds=self._budget_seconds
        )
        if calibration is None or not calibration.steady:  # its figures would not be true
            yield Symptom.BUSY.found("passes", "the timings varied too much to be used")
            return
        self.curve = curve_of(calibration, session.drafter.name.split("+"))
        yield from check_curve(
            self.curve,
            drafts=session.drafter.name != "none",
            known=_published_curve(self._machine, folder),
        )


def check_sight(target: ModelFolder) -> Check:
    """Report whether the target can see, and how many tokens a picture takes."""
    try:
        tower = require_tower(target)
        words = tower.in_words(tower.size_of(*_PICTURE))
    except Problem as problem:
        return Check("pictures", problem.message)
    width, height = _PICTURE
    return Check("pictures", f"supported; one of {width:,} x {height:,} pixels takes {words}")


def check_template(able: TemplateAbilities, syntax: ReplySyntax) -> Check:
    """Report which parts of a chat the model's template supports, which are written as plain text
    instead, and the options for its thinking."""
    parts = {
        "system text": able.system,
        "tools": able.tools,
        "calls": able.calls,
        "results": able.results,
        "several calls in a message": able.several_calls,
        "two messages of a role in a row": able.same_role,
    }
    shown = ", ".join(part for part, is_shown in parts.items() if is_shown) or "nothing"
    missing = ", ".join(part for part, is_shown in parts.items() if not is_shown)
    written = f"; written as plain text instead: {missing}" if missing else ""
    thinking = f"; --thinking {'|'.join(able.choices)}" if able.choices else ""
    budget = "; --thinking-budget N" if closing_of(able, syntax) else ""
    return Check("template", f"supports {shown}{written}{thinking}{budget}")


def _refused(name: str, problem: Problem) -> Check:
    """Return the check of a model that cannot be loaded or used."""
    return Symptom.REFUSED.found(name, problem.message, usable=False, remedy=problem.remedy)


def check_version(package: str, installed: str) -> Check:
    """Check whether an installed package is new enough."""
    oldest = _OLDEST[package]
    if tuple(int(number) for number in re.findall(r"\d+", installed)[:3]) >= oldest:
        return Check(package, installed)
    wanted = ".".join(map(str, oldest))
    fact = f"{installed}, older than {wanted}"
    return Symptom.OUTDATED.found(package, fact, usable=False, package=package, wanted=wanted)


def check_backend(machine: MachineDescription) -> Check:
    """Report whether MLX computes on Metal or on the CPU."""
    if machine.device != "CPU":
        return Check("backend", f"Metal, {machine.device}")
    if machine.platform.startswith("macOS"):
        return Symptom.NO_METAL.found("backend", "CPU: MLX finds no Metal device")
    return Check("backend", "CPU, without Metal: small models only")


def check_blas(library: MatrixLibrary, *, gigaflops: float, rows_alike: bool) -> Check:
    """Report the library that multiplies matrices on the CPU backend, and whether it suits.

    `rows_alike`: whether a product of several rows had the bits of each row's own product.
    """
    if not (library.slow or library.kernels):
        return Check("BLAS", str(library))  # a Mac's own
    fact = f"{library}, {gigaflops:.0f} GFLOP/s for 8 rows"
    if library.slow:
        fact += ": a pass over N rows costs as much as N passes, so drafting cannot pay"
        return Symptom.SLOW_BLAS.found("BLAS", fact)
    if not rows_alike:
        fact += ": its rounding depends on the number of rows, so greedy texts may differ"
        return Symptom.ROWS_DIFFER.found("BLAS", fact)
    return Check("BLAS", f"{fact}, {library.threads} threads")


def check_load(running: float, cores: int) -> Check:
    """Check whether other programs keep the machine too busy to measure."""
    fact = f"{running:.1f} processes want to run on {cores} cores"
    return Symptom.BUSY.found("load", fact) if running > OVERLOADED * cores else Check("load", fact)


def check_fit(*, weights: int, token: float, context: int, free: int, device: int) -> Check:
    """Check whether a loaded pair fits in memory, with a conversation.

    `weights`: bytes of both models. `token`: bytes of caches for each token. `free`: bytes that
    no program uses, after the pair was loaded. `device`: bytes that the GPU may use, 0: no limit.
    """
    whole = weights + token * context
    fact = (
        f"weights {size(weights)}, and {size(token)} a token: {size(whole)} with a full context "
        f"of {context:,} tokens"
    )
    most = min(weights + free, device or weights + free)
    if whole <= most:
        wired = "; the window and the server keep it from being paged out while they answer"
        return Check("fit", f"{fact}; it fits{wired if weights > Wired.LARGE * device > 0 else ''}")
    if weights > most:
        return Symptom.TOO_LARGE.found("fit", f"{fact}; {size(most)} are available", usable=False)
    tokens = int((most - weights) / token)
    return Symptom.SHORT_CONTEXT.found("fit", f"{fact}; {tokens:,} tokens fit")


def check_chip(chip: Chip) -> Check:
    """Report the published speed of the chip's memory, and the drafts that gain on it."""
    four, eight = (longest_that_gains(chip, bits) for bits in (4, 8))
    fact = f"{chip.name}, {chip.bandwidth_gb_s} GB/s"
    if not four and not eight:
        return Check("drafts", f"{fact}: by published figures, drafting seldom gains on it")
    most = f"up to {four} tokens with 4-bit weights, {eight} with 8-bit"
    return Check("drafts", f"{fact}: by published figures, drafting gains with {most}")


def _published_curve(machine: MachineDescription, target: ModelFolder) -> PublishedCurve | None:
    """Return the published costs of rows on this chip; None if the chip is not in the table."""
    chips = load_chips()
    chip = chips.find(machine.processor, machine.memory_bytes)
    settings = target.config.get("quantization")
    bits = settings.get("bits") if isinstance(settings, dict) else None
    return chips.curve(chip, bits if type(bits) is int else 16) if chip else None


def check_curve(
    curve: PassCurve, *, drafts: bool, known: PublishedCurve | None = None
) -> Iterator[Check]:
    """Report the costs of passes and of a drafted token, and the gain that drafting can have.

    `known`: costs published by others for this chip, or for the nearest chip.
    """
    first = curve.points[0].seconds
    longest = curve.points[-1].rows
    widths = [rows for rows in _SHOWN_ROWS if rows <= longest]
    costs = ", ".join(f"{rows} rows {curve.relative(rows):.2f}" for rows in widths)
    fact = f"1 row takes {1e3 * first:.1f} ms; multiples of that: {costs}"
    if known is not None:
        published = ", ".join(f"{known.curve.cost(rows):.2f}" for rows in widths)
        fact += f"; published for {known.chip}, {known.bits} bits: {published}"
    yield Check("passes", fact)
    if curve.step_seconds is not None:
        share = curve.step_seconds / first
        fact = f"{1e3 * curve.step_seconds:.1f} ms a token, {share:.0%} of a pass"
        yield Check("drafting", f"{curve.drafter}: {fact}")
    if not drafts:
        return
    _, best = curve.best(acceptance=_PERFECT)
    length, gain = curve.best(acceptance=_TYPICAL)
    if best < _WORTH:
        fact = f"drafting cannot pay here: at best {best:.2f} times the speed of plain decoding"
        yield Symptom.NEVER_PAYS.found("gain", fact)
    elif gain < _WORTH:
        fact = f"drafting pays only if nearly all drafted tokens are accepted: at best {best:.2f} "
        fact += f"times plain, no gain if {_TYPICAL:.0%} are accepted"
        yield Symptom.SELDOM_PAYS.found("gain", fact)
    else:
        fact = f"drafts of {length} tokens give {gain:.2f} times plain if {_TYPICAL:.0%} of the "
        yield Check("gain", f"{fact}tokens are accepted (computed)")


def check_drafter(asked: str, found: str, why: str = "") -> Check:
    """Report the drafter `found` for the name `asked`, and why it was chosen."""
    if asked.strip() == "auto" and found == "suffix":
        return Symptom.NO_HEAD.found("drafter", "suffix: this target has no trained head yet")
    return Check("drafter", f"{found}: {why}" if why else found)


def _window() -> str:
    try:
        return f"PySide6 {version('PySide6-Essentials')}"
    except PackageNotFoundError:
        return "PySide6 is not installed: terminal only"


def available_bytes() -> int:
    """Return the bytes that models may use, as loading them does."""
    return memory_of.this_machine().available_bytes


def _device_bytes() -> int:
    """Return the bytes that MLX may use on the GPU; 0 on the CPU, which has no limit of its own."""
    return int(mx.device_info().get("max_recommended_working_set_size", 0))


def _gigaflops() -> float:
    """Measure a product of eight rows, about the work of verifying a draft, in GFLOP/s."""
    rows, width, times = 8, 2048, 5
    left, right = mx.ones((rows, width)), mx.ones((width, width))
    mx.eval(left, right, left @ right)
    began = perf_counter()
    for _ in range(times):
        mx.eval(left @ right)
    return 2e-9 * rows * width * width * times / max(perf_counter() - began, 1e-9)


def _rows_are_alike() -> bool:
    """Whether a product of eight rows has the bits of eight products of one row."""
    left, right = (
        mx.random.normal(shape, key=mx.random.key(0)) for shape in ((8, 576), (576, 576))
    )
    alone = mx.concatenate([left[i : i + 1] @ right.T for i in range(8)])
    return bool(mx.array_equal(left @ right.T, alone).item())
