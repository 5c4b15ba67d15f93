"""In how many bits a drafter is held for a target: 8, or 4 where that was found to be enough.

Knows the file that keeps what trials on this machine have shown; makes none.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from models.drafters.folders import USUAL, DrafterFolder
from models.files import data_folder, write_text
from models.model_folder import ModelFolder

FEWEST = 4
_ENOUGH = 0.99  # of the acceptance rate in the usual bits


def found_bits(target: ModelFolder, drafter: DrafterFolder, *, home: Path | None = None) -> int:
    """Return the bits of this drafter for this target. Raises `Problem` without their weights."""
    if not (kept := _read(home)):
        return USUAL
    rates = kept.get(f"{target.fingerprint} {drafter.fingerprint}")
    if not isinstance(rates, list) or [*map(type, rates)] != [float, float]:
        return USUAL
    return FEWEST if rates[0] >= _ENOUGH * rates[1] else USUAL


def keep_rates(
    target: ModelFolder,
    drafter: DrafterFolder,
    rates: Sequence[float],
    *,
    home: Path | None = None,
) -> None:
    """Keep the acceptance rates in the fewest and in the usual bits. If there is not room for them,
    the usual ones stay."""
    kept = _read(home) | {f"{target.fingerprint} {drafter.fingerprint}": [*rates]}
    with suppress(OSError):
        _path(home).parent.mkdir(parents=True, exist_ok=True)
        write_text(_path(home), json.dumps(kept))


def _read(home: Path | None) -> dict[str, object]:
    with suppress(OSError, ValueError, RecursionError):
        kept = json.loads(_path(home).read_text(encoding="utf-8"))
        return kept if isinstance(kept, dict) else {}
    return {}


def _path(home: Path | None) -> Path:
    return data_folder(home) / "drafter-bits.json"
