"""Sizes, times and names of models in words, and other people's texts made fit to be shown.

Knows how numbers, times and names are written in a terminal or a window.
"""

import re

CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but \t and \n, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi
    "\u2028\u2029\ufdd0-\ufdef\ufff9-\ufffc"  # what Qt's documents use themselves
    "\ud800-\udfff\U000e0000-\U000e007f]"  # lone surrogates; tags, which show nothing
)
_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_AGES = (  # the least seconds, and the name
    (86_400 * 365, "year"), (86_400 * 30, "month"), (86_400 * 7, "week"), (86_400, "day"),
    (3_600, "hour"), (60, "minute"),
)  # fmt: skip
_SIZE = re.compile(r"(a|e)?\d+(\.\d+)?[mb]|\d+x\d+b", re.IGNORECASE)
_PACKAGING = re.compile(  # what a name says of files, not of the model
    r"instruct|it|chat|mlx|gguf|qat|dwq|awq|\d+-?bit|[bf]+p?(16|32)|(mx|nv)fp\d|i?q\d|k|m|s|\.gguf",
    re.IGNORECASE,
)
_SPELLINGS = ("SmolLM2", "SmolLM", "GPT", "OSS", "DSpark", "DFlash", "v0.3")
_SPELLED = {word.lower(): word for word in _SPELLINGS}
_LONG_SECONDS = 99 * 3600.0


def clean(text: str) -> str:
    """Return `text` without characters that could drive a terminal, or reorder or hide the text."""
    return CONTROLS.sub("", text)


def one_line(text: str) -> str:
    """`text` in one line, clean, with single spaces between its words."""
    return " ".join(filter(None, map(clean, text.split())))


def size(size_bytes: float) -> str:
    """In three figures: "2.31 GB", "310 MB"."""
    for unit, name in _UNITS:
        if size_bytes >= 0.9995 * unit:
            number = size_bytes / unit
            places = 2 if number < 9.995 else 1 if number < 99.95 else 0
            return f"{number:.{places}f} {name}"
    return f"{size_bytes:.0f} byte{'' if round(size_bytes) == 1 else 's'}"


def share(done_bytes: int, total_bytes: int) -> str:
    """Format a part of a whole: "1.20 of 2.31 GB"."""
    done, total = size(done_bytes), size(total_bytes)
    if done.rpartition(" ")[2] == total.rpartition(" ")[2]:
        done = done.rpartition(" ")[0]
    return f"{done} of {total}"


def left(seconds: float) -> str:
    """Format the time that is left, as roughly as it is known."""
    if seconds < 5:
        return "a few seconds left"
    if seconds < 55:
        return f"{round(seconds / 5) * 5} s left"
    if seconds > _LONG_SECONDS:  # or without an end, where next to nothing arrives
        return "days left"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{max(1, minutes)} min left"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest:02d} min left"


def ago(seconds: float) -> str:
    """Format the time since then: "3 days ago"."""
    for length, name in _AGES:
        if seconds >= length:
            number = int(seconds // length)
            return f"{number} {name}{'' if number == 1 else 's'} ago"
    return "just now"


def short_model(name: str) -> str:
    """Return a model's name as people say it: "smollm2-135m-instruct" becomes "SmolLM2 135M"."""
    words = [word for word in re.split(r"[-_ ]+", name) if not _PACKAGING.fullmatch(word)]
    spoken = (
        word.upper()
        if _SIZE.fullmatch(word)
        else _SPELLED.get(word.lower(), word[:1].upper() + word[1:])
        for word in words
    )
    return " ".join(spoken) or name
