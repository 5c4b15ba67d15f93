"""Sizes, times, counts and names as a person reads them. Knows nothing of Qt."""

from pathlib import Path

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_AGES = (  # from so many seconds on, the length of one, and its name
    (86_400 * 365, "year"),
    (86_400 * 30, "month"),
    (86_400 * 7, "week"),
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
)


def size(size_bytes: float) -> str:
    """In three figures: "2.31 GB", "310 MB"."""
    for unit, name in _UNITS:
        if size_bytes >= 0.9995 * unit:
            number = size_bytes / unit
            places = 2 if number < 9.995 else 1 if number < 99.95 else 0
            return f"{number:.{places}f} {name}"
    return f"{size_bytes:.0f} bytes"


def share(done: int, total: int) -> str:
    """How far something has come: "1.20 of 2.31 GB"."""
    one, whole = size(done), size(total)
    if one.rpartition(" ")[2] == whole.rpartition(" ")[2]:
        one = one.rpartition(" ")[0]
    return f"{one} of {whole}"


def left(seconds: float) -> str:
    """How long something still takes, as roughly as it is known."""
    if seconds < 5:
        return "a few seconds left"
    if seconds < 55:
        return f"{round(seconds / 5) * 5} s left"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{max(1, minutes)} min left"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest:02d} min left"


def ago(seconds: float) -> str:
    """How long something is past: "3 days ago"."""
    for length, name in _AGES:
        if seconds >= length:
            number = int(seconds // length)
            return f"{number} {name}{'' if number == 1 else 's'} ago"
    return "just now"


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
