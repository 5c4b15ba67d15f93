"""Everything that can be checked of a bundle without a Mac, each in a check of its own."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a bundle.

    `check` is the name of the check, `path` is relative to the bundle, "" for all of it.
    """

    check: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.check}: {self.path or 'the bundle'}: {self.message}"
