"""Sizes, times, counts and names as a person reads them. Knows nothing of Qt."""

from pathlib import Path


def count(number: int) -> str:
    """A number of many: "1.2 M"."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            short = number / unit
            return f"{short:.0f} {name}" if short >= 9.95 else f"{short:.1f} {name}"
    return str(number)


def context(tokens: int) -> str:
    """How long a context is: "32k tokens"."""
    thousands = round(tokens / 1024)
    return f"{thousands}k tokens" if tokens >= 1024 else f"{tokens} tokens"


def short_name(repository: str) -> str:
    """A repository without whose it is."""
    return repository.rstrip("/").rpartition("/")[2] or repository


def target_name(target: str) -> str:
    """What a target is called: the name of its folder; in the hub's cache that is a number's."""
    path = Path(target)
    if path.parent.name == "snapshots" and path.parents[1].name.startswith("models--"):
        return path.parents[1].name.rpartition("--")[2]
    return path.name or "the starter model"
