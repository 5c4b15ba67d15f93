"""The folders of a distillation, each with the settings that it was begun with.

Knows paths, and settings by name; nothing of their meaning.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from models.errors import Problem
from models.files import write_text


class WorkFolder:
    """The folder `out` of a distillation, with a folder `work` in it for resuming.

    `work` holds the plan, the answers and the checkpoint until the work is done. Attributes: `out`;
    `answers` and `checkpoint`, paths in `work`.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._work = out / "work"
        self.answers = self._work / "answers"
        self.checkpoint = self._work / "checkpoint.safetensors"
        self._plan = self._work / "plan.json"

    def check(self, plan: Mapping[str, str], *, resume: bool) -> None:
        """Raise `Problem` if this would mix two distillations, or overwrite anything."""
        try:
            if not resume:
                if self._plan.is_file() or not self._is_free():
                    raise Problem(
                        f"{self.out} is not empty.",
                        "Continue with --resume, or choose another --out.",
                    )
            elif not self._plan.is_file():
                raise Problem(f"There is nothing to resume in {self.out}.", "Leave out --resume.")
            else:
                _require_same(self._plan, plan, self.out, "--out")
        except (OSError, ValueError, AttributeError) as error:
            raise _unusable(self.out, "--out", error) from error

    def begin(self, plan: Mapping[str, str]) -> None:
        """Create the folder and store the plan. Raises `Problem`."""
        try:
            self._work.mkdir(parents=True, exist_ok=True)
            write_text(self._plan, json.dumps(dict(plan), indent=2))
        except OSError as error:
            raise _unusable(self.out, "--out", error) from error

    def remove(self) -> None:
        """Remove everything except the drafter."""
        shutil.rmtree(self._work, ignore_errors=True)

    def _is_free(self) -> bool:
        """Whether the folder is empty, or has only the rest of an interrupted `begin`."""
        return not self.out.exists() or all(path == self._work for path in self.out.iterdir())


class KeptAnswers:
    """A folder that keeps answers, so that several distillations can learn from them.

    Attribute: `folder`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._plan = folder / "asked.json"

    def check(self, asking: Mapping[str, str]) -> None:
        """Raise `Problem` if the folder holds other files, or answers with other settings.

        `asking`: the settings that the answers depend on.
        """
        try:
            if self._plan.is_file():
                _require_same(self._plan, asking, self.folder, "--answers")
            elif self.folder.exists() and any(self.folder.iterdir()):
                raise Problem(
                    f"{self.folder} is not empty, and holds no answers.",
                    "Choose another --answers.",
                )
        except (OSError, ValueError, AttributeError) as error:
            raise _unusable(self.folder, "--answers", error) from error

    def begin(self, asking: Mapping[str, str]) -> None:
        """Create the folder. Raises `Problem`."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(self._plan, json.dumps(dict(asking), indent=2))
        except OSError as error:
            raise _unusable(self.folder, "--answers", error) from error


def _require_same(begun: Path, plan: Mapping[str, str], folder: Path, option: str) -> None:
    before = json.loads(begun.read_text())
    others = [name for name in plan if before.get(name) != plan[name]]
    if others:
        raise Problem(
            f"{folder} was begun with other {' and '.join(others)}.",
            f"Repeat the command as it was, or choose another {option}.",
        )


def _unusable(folder: Path, option: str, error: Exception) -> Problem:
    return Problem(f"{folder} cannot be used: {error}.", f"Choose another {option}.")
