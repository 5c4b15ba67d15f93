"""What the catalog recommends on pretended Macs, and how near its expected speeds are.

`python -m tests.lab.catalog` prints three tables: the choices on each machine beside those of other
programs, the errors against published speeds that are no input of the catalog, and the entries that
no one looked at for half a year. `--hub` also asks the hub for every name, which needs a network.
"""

import argparse
from collections.abc import Iterator
from datetime import date

from models import in_words
from models.catalog import (
    LEAVES_ROOM,
    Catalog,
    CatalogDrafter,
    CatalogModel,
    load_catalog,
    offers,
)
from models.errors import Problem
from models.hub.client import Hub
from models.memory.machine import OWN_BYTES, Machine, mac
from models.records import MODULE_NAME, PairOffer
from models.speed import expect, load_chips
from models.starter import STARTER
from tests.lab.catalog.published import ELSEWHERE, MACHINES, PUBLISHED

_OLD_MONTHS = 6


def pretended(chip: str, memory_gb: int) -> Machine:
    """A Mac with that chip and memory."""
    return mac(f"Apple {chip}", {"hw.memsize": str(memory_gb << 30)})


def recommendations(catalog: Catalog) -> Iterator[str]:
    """The choices on each machine, in Markdown."""
    yield "| Mac | choice | pair | tokens/s | × plain | memory at 4k, 32k | why |"
    yield "|---|---|---|---|---|---|---|"
    for chip, memory_gb in MACHINES:
        found = offers(catalog, machine=pretended(chip, memory_gb))
        for offer in found:
            if not offer.choice:
                continue
            drafter = offer.drafter.rpartition("/")[2]
            pair = offer.target.rpartition("/")[2] + (f" + {drafter}" if drafter else "")
            speed, gain = offer.tokens_per_second or 0.0, offer.gain or 1.0
            memory = f"{in_words.size(offer.needed_bytes)}, {in_words.size(offer.long_bytes)}"
            yield (
                f"| {chip} {memory_gb} GB | {offer.choice} | {pair} | {speed:.0f} | {gain:.2f} "
                f"| {memory} | {_why(offer, found, catalog)} |"
            )
        for program, picks in ELSEWHERE.items():
            least = max((size for size in picks if size <= memory_gb), default=0)
            yield f"| | {program} | {picks.get(least, 'nothing')} | | | | |"


def _why(offer: PairOffer, found: list[PairOffer], catalog: Catalog) -> str:
    """Why that is the choice: what stands above the best one, or what another gains over it."""
    best = next(each for each in found if each.choice == "best")
    if offer.choice == "quickest":
        times = (offer.tokens_per_second or 0.0) / (best.tokens_per_second or 1.0)
        return f"{times:.1f} times as quick as the best"
    if offer.choice == "smallest":
        return f"{offer.needed_bytes / best.needed_bytes:.0%} of the best one's memory"
    quality = {model.name: model.quality for model in catalog.targets}
    above = [each for each in found if quality[each.target] > quality[best.target]]
    above.sort(key=lambda each: each.long_bytes)
    named = [f"{each.target.rpartition('/')[2]} {_obstacle(each)}" for each in above[:2]]
    return "; ".join(named) or "nothing stands above it"


def _obstacle(offer: PairOffer) -> str:
    """Why a better one is not the choice."""
    if "mlx-lm" in offer.reason:
        return "cannot be built by mlx-lm"
    most = round(LEAVES_ROOM * offer.available_bytes - OWN_BYTES)
    if offer.long_bytes > most:
        return f"needs {in_words.size(offer.long_bytes)}, and {in_words.size(most)} leave room"
    if not offer.verified:
        return "was not looked up"
    if offer.caution:
        return f"is meant for {offer.memory_class_gb} GB"
    return f"writes {offer.tokens_per_second or 0.0:.0f} tokens a second"


def errors(catalog: Catalog) -> Iterator[str]:
    """Expected speeds beside published ones, in Markdown."""
    chips = load_chips()
    yield "| Mac | pair | plain: published, expected | error | × plain: the same | error |"
    yield "|---|---|---|---|---|---|"
    for row in PUBLISHED:
        target = catalog.models[row.target]
        drafter = next((each for each in catalog.drafters if each.name == row.drafter), None)
        chip = chips.find(row.chip, row.memory_gb << 30)
        plain = expect(target.reads, None, chip=chip)
        drafted = expect(target.reads, drafter.drafts_for(target) if drafter else None, chip=chip)
        assert plain is not None
        assert drafted is not None
        pair = row.target.rpartition("/")[2]
        pair += f" + {row.drafter.rpartition('/')[2]}" if row.drafter else ""
        speeds = _compared(row.plain, plain.tokens_per_second)
        gains = _compared(row.gain, drafted.gain)
        yield f"| {row.chip} | {pair} ({row.source}) | {speeds} | {gains} |"


def _compared(published: float, expected: float) -> str:
    """Two cells: both figures, and the error; empty where nothing was published."""
    if not published:
        return " | "
    return f"{published:.2f}, {expected:.2f} | {expected / published - 1:+.0%}"


def old(catalog: Catalog, today: date) -> Iterator[str]:
    """The entries whose source was read more than half a year ago."""
    entries: list[CatalogModel | CatalogDrafter] = [*catalog.models.values(), *catalog.drafters]
    for entry in entries:
        year, month = map(int, entry.seen.split("-"))
        age = 12 * (today.year - year) + today.month - month
        if age > _OLD_MONTHS:
            yield f"{entry.name}: seen {entry.seen}, {age} months ago"


def on_the_hub(catalog: Catalog, hub: Hub) -> Iterator[str]:
    """What the hub says otherwise: names that it does not have, sizes that differ by 5 %."""
    named = {model.name: model.download_bytes for model in catalog.models.values()}
    named |= {drafter.name: drafter.size_bytes for drafter in catalog.drafters}
    for name, size_bytes in named.items():
        if name == STARTER.name:
            continue
        try:
            found = hub.describe(name.removesuffix(f"/{MODULE_NAME}"))
        except Problem as problem:
            yield f"{name}: {problem.message}"
            continue
        weights = [file.size_bytes for file in found.files if file.name.endswith(".safetensors")]
        if size_bytes and not name.endswith(MODULE_NAME):
            share = sum(weights) / size_bytes
            if abs(share - 1) >= 0.05:
                yield f"{name}: {in_words.size(sum(weights))}, not {in_words.size(size_bytes)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hub", action="store_true", help="ask the hub for every name")
    asked = parser.parse_args()
    catalog = load_catalog()
    parts = [recommendations(catalog), errors(catalog), old(catalog, date.today())]
    if asked.hub:
        parts.append(on_the_hub(catalog, Hub()))
    for part in parts:
        print("\n".join(part), end="\n\n")


if __name__ == "__main__":
    main()
