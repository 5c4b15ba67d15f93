"""The folder that a distillation makes, and `work/` in it: what is needed to go on with it.

Knows files, and what must not have changed in between; nothing of what they hold. `work/` has
`plan.json`, the answers and the checkpoint, until all is done.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from models.errors import Problem
from models.files import write_text


class WorkFolder:
    """Makes and removes `out`/work. Attributes: `out`; `answers` and `checkpoint`, paths in it."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._work = out / "work"
        self.answers = self._work / "answers"
        self.checkpoint = self._work / "checkpoint.safetensors"
        self._plan = self._work / "plan.json"

    def check(self, plan: Mapping[str, str], *, resume: bool) -> None:
        """Refuse to mix two distillations, or to write over anything. Raises `Problem`."""
        try:
            if not resume:
                if self._plan.is_file() or not self._is_free():
                    raise Problem(
                        f"{self.out} is not empty.",
                        "Go on with --resume, or choose another --out.",
                    )
            elif not self._plan.is_file():
                raise Problem(
                    f"There is nothing to go on with in {self.out}.", "Leave out --resume."
                )
            else:
                begun = json.loads(self._plan.read_text())
                others = [name for name in plan if begun.get(name) != plan[name]]
                if others:
                    raise Problem(
                        f"{self.out} was begun with other {' and '.join(others)}.",
                        "Repeat the command as it was, or choose another --out.",
                    )
        except (OSError, ValueError, AttributeError) as error:
            raise self._unusable(error) from error

    def begin(self, plan: Mapping[str, str]) -> None:
        """Make what is not there yet. Raises `Problem`."""
        try:
            self._work.mkdir(parents=True, exist_ok=True)
            write_text(self._plan, json.dumps(dict(plan), indent=2))
        except OSError as error:
            raise self._unusable(error) from error

    def remove(self) -> None:
        """All is done: only the drafter stays."""
        shutil.rmtree(self._work, ignore_errors=True)

    def _is_free(self) -> bool:
        """Whether nothing is there, or only what a begin that was killed has left."""
        return not self.out.exists() or all(path == self._work for path in self.out.iterdir())

    def _unusable(self, error: Exception) -> Problem:
        return Problem(f"{self.out} cannot be used: {error}.", "Choose another --out.")
