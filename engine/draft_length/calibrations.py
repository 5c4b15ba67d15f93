"""Keeps measurements of this machine, mostly calibrations of pairs: a small JSON file each.

Knows files. A file that is damaged, of an older version or of another key counts as missing, so
that the pair is calibrated again.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from engine.draft_length.acceptance import Acceptance
from engine.draft_length.costs import Calibration, PassCosts
from models.files import data_folder, write_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_VERSION = 12
_DAMAGES = OSError, ValueError, RecursionError, TypeError, KeyError


@dataclass(frozen=True, slots=True)
class CalibrationKey:
    """The circumstances of a calibration: a stored one is not used when any field has changed.

    `target` and `drafter` identify the weights, `precision` and `caches` their form in memory.
    `matrices` and `threads` are of the library that the CPU backend calls, `power` is a Mac's mode.
    """

    target: str
    drafter: str
    precision: str
    caches: str
    chip: str
    backend: str
    mlx: str
    matrices: str
    threads: int
    power: str


class CalibrationStore:
    """Reads and writes the files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, key: CalibrationKey) -> tuple[Calibration | None, Acceptance | None]:
        """The calibration and the acceptance that are stored under this key, if any."""
        calibration = acceptance = None
        with suppress(*_DAMAGES):
            value = self.found(asdict(key))
            if value["costs"] is not None:
                calibration = Calibration.from_json(value["costs"])
            acceptance = Acceptance.from_json(value["acceptance"])
        return calibration, acceptance

    def found(self, circumstances: Mapping[str, Any]) -> dict[str, Any]:
        """The values that `keep` has stored under these, if any."""
        with suppress(*_DAMAGES):
            value = json.loads(self._path(circumstances).read_text(encoding="utf-8"))
            if (value["version"], value["pair"]) == (_VERSION, circumstances):
                return dict(value)
        return {}

    def once[Seen: DataclassInstance](
        self, circumstances: Mapping[str, Any], lost: Seen, look: Callable[[], Seen], *, again: bool
    ) -> Seen:
        """Return the result of `look` under these circumstances, now or earlier. `lost` is stored
        first, as looking may end this process; it has a `why`. `again`: look again after `lost`."""
        stored = self.found(circumstances).get("seen")
        if stored is not None and not (again and stored == asdict(lost)):
            return type(lost)(**stored)
        self.keep(circumstances, {"seen": asdict(lost)})
        try:
            seen = look()
        except Exception as error:  # of a device, or of a model that cannot be read so
            seen = replace(lost, why=f"{type(error).__name__}: {error}"[:200])
        self.keep(circumstances, {"seen": asdict(seen)})
        return seen

    def keep(self, circumstances: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Store values under their circumstances, both JSON, atomically; not on a full disk."""
        value = {"version": _VERSION, "pair": circumstances, **values}
        path = self._path(circumstances)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.folder.with_name(f".{self.folder.name}.lock")):
                write_text(path, json.dumps(value))

    def passes_of(self, target: str) -> PassCosts | None:
        """The costs of passes of the target with this fingerprint, as the newest file has them,
        with any drafter; None if it was never calibrated."""
        written = dict[Path, float]()
        for path in self.folder.glob("*.json"):
            with suppress(OSError):  # another process is replacing it
                written[path] = path.stat().st_mtime
        for path in sorted(written, key=written.__getitem__, reverse=True):
            with suppress(*_DAMAGES):
                value = json.loads(path.read_text(encoding="utf-8"))
                if value["version"] == _VERSION and value["pair"]["target"] == target:
                    return Calibration.from_json(value["costs"]).passes
        return None

    def write(
        self, key: CalibrationKey, calibration: Calibration | None, acceptance: Acceptance
    ) -> None:
        """Store the calibration and the acceptance, atomically. If it is not stored (no
        calibration, or a full disk), the costs are measured again next time."""
        costs = calibration and calibration.to_json()
        self.keep(asdict(key), {"costs": costs, "acceptance": acceptance.to_json()})

    def _path(self, circumstances: Mapping[str, Any]) -> Path:
        written = json.dumps(circumstances, sort_keys=True)
        return self.folder / f"{hashlib.sha256(written.encode()).hexdigest()[:16]}.json"


def calibration_folder(home: Path | None = None) -> Path:
    """The folder of the files: under `home`, else $SLIPSTREAM_HOME, else the user's data folder."""
    return data_folder(home) / "calibration"
