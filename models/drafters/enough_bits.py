"""In how many bits a drafter is held for a target: 8, or 4 where that was found to be enough.

Knows the file in which it is kept what a trial on this machine has shown; makes no trial.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from models.drafters.folders import USUAL
from models.files import data_folder, write_text

FEWEST = 4
_ENOUGH = 0.99  # of the acceptance rate in the usual bits


def found_bits(target: str, drafter: str, *, home: Path | None = None) -> int:
    """Return the bits for the drafter with this fingerprint, for the target with that one."""
    rates = _read(home).get(f"{target} {drafter}")
    if not isinstance(rates, list) or len(rates) != 2 or not all(type(r) is float for r in rates):
        return USUAL
    few, usual = rates
    return FEWEST if few >= _ENOUGH * usual else USUAL


def keep_rates(
    target: str, drafter: str, rates: Sequence[float], *, home: Path | None = None
) -> None:
    """Keep the acceptance rates in the fewest and in the usual bits. If there is no room for them,
    the usual ones stay."""
    with suppress(OSError):
        _path(home).parent.mkdir(parents=True, exist_ok=True)
        write_text(_path(home), json.dumps(_read(home) | {f"{target} {drafter}": [*rates]}))


def _read(home: Path | None) -> dict[str, object]:
    with suppress(OSError, ValueError, RecursionError):
        rates = json.loads(_path(home).read_text(encoding="utf-8"))
        return rates if isinstance(rates, dict) else {}
    return {}


def _path(home: Path | None) -> Path:
    return data_folder(home) / "drafter-bits.json"
