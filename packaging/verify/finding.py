"""What verifying found: one thing wrong with a bundle."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """`check` is the name of the check, `path` is relative to the bundle, "" for all of it."""

    check: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.check}: {self.path or 'the bundle'}: {self.message}"
