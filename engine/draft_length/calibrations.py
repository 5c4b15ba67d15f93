"""The calibrations of pairs on this machine: a small JSON file each.

Knows files. A file that is damaged, of an older version or of another key counts as missing, so
that the pair is calibrated again.
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock

from engine.draft_length.acceptance import Acceptance
from engine.draft_length.costs import Calibration, PassCosts
from models.files import data_folder, write_text

_VERSION = 12


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
        self._folder = folder

    def read(self, key: CalibrationKey) -> tuple[Calibration | None, Acceptance | None]:
        """The calibration and the acceptance that are stored under this key, if any."""
        calibration = acceptance = None
        with suppress(OSError, ValueError, RecursionError, TypeError, KeyError):
            value = json.loads(self._path(key).read_text(encoding="utf-8"))
            if (value["version"], value["pair"]) == (_VERSION, asdict(key)):
                if value["costs"] is not None:
                    calibration = Calibration.from_json(value["costs"])
                acceptance = Acceptance.from_json(value["acceptance"])
        return calibration, acceptance

    def passes_of(self, target: str) -> PassCosts | None:
        """The costs of passes of the target with this fingerprint, as the newest file has them,
        whatever drafted; None if it was never calibrated."""
        files = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in reversed(files):
            with suppress(OSError, ValueError, RecursionError, TypeError, KeyError):
                value = json.loads(path.read_text(encoding="utf-8"))
                if value["version"] == _VERSION and value["pair"]["target"] == target:
                    return Calibration.from_json(value["costs"]).passes
        return None

    def write(
        self, key: CalibrationKey, calibration: Calibration | None, acceptance: Acceptance
    ) -> None:
        """Store the calibration and what was learned, atomically. If it is not stored (no
        calibration, or a full disk), the costs are measured again next time."""
        value = {
            "version": _VERSION,
            "pair": asdict(key),
            "costs": calibration and calibration.to_json(),
            "acceptance": acceptance.to_json(),
        }
        path = self._path(key)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self._folder.with_name(f".{self._folder.name}.lock")):
                write_text(path, json.dumps(value))

    def _path(self, key: CalibrationKey) -> Path:
        digest = hashlib.sha256(json.dumps(asdict(key), sort_keys=True).encode()).hexdigest()
        return self._folder / f"{digest[:16]}.json"


def calibration_folder(home: Path | None = None) -> Path:
    """The folder of the files: under `home`, else $SLIPSTREAM_HOME, else the user's data folder."""
    return data_folder(home) / "calibration"
