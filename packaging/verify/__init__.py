"""Checks of a bundle that need no Mac."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A fault of a bundle.

    `check` is the name of the check; `path` is relative to the bundle, "" for all of it.
    """

    check: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.check}: {self.path or 'the bundle'}: {self.message}"
