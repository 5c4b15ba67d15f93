"""Where it is kept what was measured of pairs: a small JSON file for each, on this machine.

Knows files. What is damaged, of an older version, or was measured of anything else, is as if it
were not there: it is measured again.
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock

from engine.draft_length.acceptance import Acceptance
from engine.draft_length.costs import Calibration
from models.files import data_folder, write_text

_VERSION = 2


@dataclass(frozen=True, slots=True)
class CalibrationKey:
    """What costs and chances belong to. Another of any of these, and they are others.

    `target` and `drafter` tell the weights apart, `precision` and `caches` what they are here.
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
    """The files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, pair: CalibrationKey) -> tuple[Calibration | None, Acceptance | None]:
        """What is known of a pair."""
        calibration = acceptance = None
        with suppress(OSError, ValueError, RecursionError, TypeError, KeyError):
            value = json.loads(self._path(pair).read_text(encoding="utf-8"))
            if (value["version"], value["pair"]) == (_VERSION, asdict(pair)):
                if value["costs"] is not None:
                    calibration = Calibration.from_json(value["costs"])
                acceptance = Acceptance.from_json(value["acceptance"])
        return calibration, acceptance

    def write(
        self, pair: CalibrationKey, calibration: Calibration | None, acceptance: Acceptance
    ) -> None:
        """Keep it: the old file or the new one, nothing between. Without a calibration, and where
        there is no room for it, costs are measured again another time."""
        value = {
            "version": _VERSION,
            "pair": asdict(pair),
            "costs": calibration and calibration.to_json(),
            "acceptance": acceptance.to_json(),
        }
        path = self._path(pair)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self._folder.with_name(f".{self._folder.name}.lock")):
                write_text(path, json.dumps(value))

    def _path(self, pair: CalibrationKey) -> Path:
        digest = hashlib.sha256(json.dumps(asdict(pair), sort_keys=True).encode()).hexdigest()
        return self._folder / f"{digest[:16]}.json"


def calibration_folder(home: Path | None = None) -> Path:
    """Where they are: under `home`, else $SLIPSTREAM_HOME, else the user's data folder."""
    return data_folder(home) / "calibration"
