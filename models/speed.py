"""How fast a pair is expected to write on a chip, before anything is fetched.

Reads resources/chips.json: the memory's speed of each Apple chip, published costs of passes by
rows, and acceptance that is usual for a kind of drafter. A plain token takes as long as its weights
take to read; a draft gains what its expected tokens are worth over the cost of its round. Published
figures and this arithmetic only: measurements on this machine take their place
(`Measured`). Knows no catalog and no files of models.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from models.drafters.kinds import KIND_NAMES, DrafterKind
from models.errors import Problem
from models.files import read_json_object
from models.limits import LONGEST_DRAFT
from models.memory.machine import Machine, this_machine
from models.typed_json import decode

WORTH = 1.05  # times plain: a draft that gains less is not worth a download

# Plain decoding on an M4 Pro used so much of the bandwidth that Apple names, and took so long to
# launch a layer, or one with experts (fitted to the plain speeds in mlx-dspark 0.20.3); that took
# longer on M1 and M2 (fitted to Qwen3.6-35B-A3B in vllm-metal PR 637 and Rapid-MLX).
_USED = 0.85
_LAYER_SECONDS, _EXPERTS_SECONDS = 40e-6, 100e-6
_SLOWER_EXPERTS = {"M1": 350e-6, "M2": 175e-6}
_MOST_BYTES = 1_000_000
_PATH = Path(__file__).parent.parent / "resources" / "chips.json"


@dataclass(frozen=True, slots=True)
class RowCurve:
    """The costs of passes by their number of rows, as multiples of a pass with one row. `points`
    are (rows, cost), from (1, 1.0) on."""

    points: tuple[tuple[int, float], ...]

    def cost(self, rows: float) -> float:
        """Return the cost of a pass over `rows` rows, on lines between and beyond the points."""
        if len(self.points) == 1:
            return rows
        inner = enumerate(self.points[1:-1], 1)
        place = next((i for i, point in inner if rows <= point[0]), len(self.points) - 1)
        (r0, c0), (r1, c1) = self.points[place - 1], self.points[place]
        return c0 + (c1 - c0) * (rows - r0) / (r1 - r0)

    def gain(
        self, length: int, *, acceptance: float, start: float = 0.0, step: float = 0.0
    ) -> float:
        """The speed-up of drafts of `length` tokens, each accepted with chance `acceptance`.

        Drafting takes `start` passes, and `step` more for each token.
        """
        committed = sum(acceptance**i for i in range(length + 1))
        drafting = start + length * step if length else 0.0
        return committed / (self.cost(length + 1) + drafting)

    def best(
        self, *, acceptance: float, start: float = 0.0, step: float = 0.0, longest: int
    ) -> tuple[int, float]:
        """The draft length, from 0 to `longest`, with the largest speed-up, and that speed-up."""
        gains = [
            self.gain(length, acceptance=acceptance, start=start, step=step)
            for length in range(longest + 1)
        ]
        length = max(range(longest + 1), key=gains.__getitem__)
        return length, gains[length]


@dataclass(frozen=True, slots=True)
class Chip:
    """An Apple chip. `memory_gb`: the memory sizes of Macs with it, if they tell it from another
    chip of the same name; otherwise empty."""

    name: str
    bandwidth_gb_s: int
    memory_gb: tuple[int, ...]
    source: str

    @property
    def generation(self) -> str:
        """M1, M2, ..."""
        return self.name.partition(" ")[0]

    @property
    def large(self) -> bool:
        """Whether it is a Pro, Max or Ultra."""
        return self.name != self.generation


@dataclass(frozen=True, slots=True)
class PublishedCurve:
    """The published costs of rows on `chip`, with weights of `bits` bits. `experts`: for a mixture,
    whose rows read experts of their own."""

    chip: str
    bits: int
    points: tuple[tuple[float, float], ...]
    source: str
    experts: bool = False

    @property
    def curve(self) -> RowCurve:
        return RowCurve(tuple((round(rows), cost) for rows, cost in self.points))


@dataclass(frozen=True, slots=True)
class UsualDrafts:
    """The usual figures of a kind of drafter: `committed` tokens in a round that drafts `drafted`;
    `share`, its weights over the target's, both in 16 bits."""

    kind: DrafterKind
    drafted: int
    committed: float
    share: float
    source: str


@dataclass(frozen=True, slots=True)
class Chips:
    chips: tuple[Chip, ...]
    curves: tuple[PublishedCurve, ...]
    usual: tuple[UsualDrafts, ...]

    def find(self, name: str, memory_bytes: int) -> Chip | None:
        """Return the chip called `name`; None if it is not listed. If two have that name and the
        memory does not tell them apart, return the slower one."""
        wanted = name.removeprefix("Apple ").strip()
        found = [chip for chip in self.chips if chip.name == wanted]
        memory_gb = round(memory_bytes / (1 << 30))
        exact = [chip for chip in found if memory_gb in chip.memory_gb]
        return min(exact or found, key=lambda chip: chip.bandwidth_gb_s, default=None)

    def chip_of(self, machine: Machine) -> Chip | None:
        """Return the chip of `machine`; None if it is not listed, or if MLX uses no graphics."""
        return self.find(machine.name, machine.memory_bytes) if machine.unified else None

    def curve(self, chip: Chip, bits: int, *, experts: bool = False) -> PublishedCurve:
        """Return the nearest curve: of the nearest generation, then of the nearest number of bits,
        then of the same chip. The table has each width for each generation, so that no chip is
        judged by the bits of another width while an older one has its own."""

        def distance(each: PublishedCurve) -> tuple[int, int, bool]:
            generations = abs(int(each.chip[1]) - int(chip.generation[1:]))
            return generations, abs(each.bits - bits), each.chip != chip.name

        return min((each for each in self.curves if each.experts == experts), key=distance)

    def usual_of(self, kind: DrafterKind) -> UsualDrafts:
        return next(each for each in self.usual if each.kind == kind)


@cache
def load_chips() -> Chips:
    """Return the table that ships. Raises Problem if it cannot be read."""
    document = read_json_object(_PATH, maximum_bytes=_MOST_BYTES)
    try:
        return decode(Chips, document, place="chips")
    except ValueError as error:
        raise Problem(f"{_PATH} is not usable: {error}", "Install Slipstream again.") from error


@cache
def this_chip() -> Chip | None:
    """Return the chip on which this runs, as `Chips.chip_of` does."""
    return load_chips().chip_of(this_machine())


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights that a target reads for a plain token: `read_bytes`; `head_bytes` of them are
    the output layer's; `bits` of each weight; `experts`: whether it is a mixture."""

    read_bytes: float
    head_bytes: float
    bits: int
    layers: int
    experts: bool = False


@dataclass(frozen=True, slots=True)
class Drafts:
    """A drafter: the bytes that it reads to draft, and its acceptance: `committed` tokens in a
    round that drafts `drafted`, as published by `source`."""

    kind: DrafterKind
    read_bytes: float
    drafted: int
    committed: float
    source: str

    @property
    def acceptance(self) -> float:
        """The chance of acceptance, the same for each drafted token, that gives `committed`."""
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            few = sum(middle**i for i in range(self.drafted + 1)) < self.committed
            low, high = (middle, high) if few else (low, middle)
        return low


@dataclass(frozen=True, slots=True)
class Measured:
    """The calibrated passes of a target on this machine."""

    pass_seconds: float
    curve: RowCurve


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected speed of a pair: tokens a second, that speed over plain decoding's, and the
    draft length. `sources` names the source of each figure, a line each."""

    tokens_per_second: float
    gain: float
    length: int
    sources: tuple[str, ...]


def expect(
    target: Weights,
    drafts: Drafts | None,
    *,
    chip: Chip | None,
    measured: Measured | None = None,
    chips: Chips | None = None,
) -> Expected | None:
    """Return the expected speed of a pair near the beginning of a text; None if neither `chip` nor
    `measured` is known."""
    known = chips or load_chips()
    if measured is not None:
        plain, curve = 1 / measured.pass_seconds, measured.curve
        sources = ["Passes: measured on this machine."]
    elif chip is not None:
        reading = target.read_bytes / (_USED * chip.bandwidth_gb_s * 1e9)
        layer = _SLOWER_EXPERTS.get(chip.generation, _EXPERTS_SECONDS)
        layer = layer if target.experts else _LAYER_SECONDS
        plain = 1 / (reading + layer * target.layers)
        published = known.curve(chip, target.bits)
        curve = published.curve
        sources = [
            f"Plain: {_USED:.0%} of {chip.bandwidth_gb_s} GB/s ({chip.source}) over "
            f"{target.read_bytes / 1e9:.1f} GB a token.",
            f"Rows: {_measured_on(published, chip, target)}.",
        ]
        if target.experts:
            experts = known.curve(chip, target.bits, experts=True)
            curve = _dearer(curve, experts.curve)
            sources.append(f"Rows of experts: {_measured_on(experts, chip, target)}.")
    else:
        return None
    if drafts is None:
        return Expected(plain, 1.0, 0, tuple(sources))
    start, step = _drafting(target, drafts)
    length, gain = curve.best(
        acceptance=drafts.acceptance,
        start=start,
        step=step,
        longest=min(drafts.drafted, LONGEST_DRAFT),
    )
    sources.append(
        f"Drafts: {drafts.committed:.2f} tokens a round of {drafts.drafted} drafted ones "
        f"({KIND_NAMES[drafts.kind]}; {drafts.source})."
    )
    return Expected(plain * gain, gain, length, tuple(sources))


def longest_that_gains(chip: Chip, bits: int, *, acceptance: float = 0.7) -> int:
    """Return the best draft length on a chip, for weights of `bits` bits and a drafter that costs
    next to nothing; 0 if none gains."""
    length, gain = (
        load_chips().curve(chip, bits).curve.best(acceptance=acceptance, longest=LONGEST_DRAFT)
    )
    return length if gain >= WORTH else 0


def _measured_on(published: PublishedCurve, chip: Chip, target: Weights) -> str:
    """Return the chip, bits and source of a curve, and the chip and bits that it replaces."""
    place = f"{published.chip}, {published.bits} bits"
    as_here = published.chip == chip.name and published.bits == target.bits
    stands = "" if as_here else f", in place of {chip.name}, {target.bits} bits"
    return f"{place}{stands} ({published.source})"


def _drafting(target: Weights, drafts: Drafts) -> tuple[float, float]:
    """Return the cost of a draft in plain passes: (at its start, for each token).

    A block is drafted in one pass. Drafters without an output layer of their own borrow the
    target's.
    """
    reads = drafts.read_bytes / target.read_bytes
    head = target.head_bytes / target.read_bytes
    if drafts.kind in ("dflash", "dflash2", "dspark"):
        return reads + head, 0.0
    if drafts.kind == "pard":
        return reads, 0.0
    return 0.0, reads + (head if drafts.kind == "mtp" else 0.0)


def _dearer(one: RowCurve, other: RowCurve) -> RowCurve:
    """Return a curve of the larger of both costs, at the rows of either."""
    rows = sorted({row for curve in (one, other) for row, _ in curve.points})
    return RowCurve(tuple((row, max(one.cost(row), other.cost(row))) for row in rows))
