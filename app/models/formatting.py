"""Formats counts, licences and names of models; sizes and times are in `models.in_words`."""

import re
from pathlib import Path

from models import in_words
from models.records import KIND_NAMES, MODULE_NAME

_DRAFTERS = {
    **KIND_NAMES,
    "auto": "Automatic",
    "lookup": "Lookup",
    "suffix": "Suffix",
    "lookahead": "Lookahead",
    "early-exit": "Early exit",
    "none": "None",
}
_LICENCE_WORD = re.compile(r"[A-Za-z]+|[\d.]+")
_LICENCE_NAMES = {
    "apache": "Apache",
    "bsd": "BSD",
    "cc": "CC",
    "by": "BY",
    "nc": "NC",
    "sa": "SA",
    "nd": "ND",
    "gemma": "Gemma",
    "lfm": "LFM",
    "llama": "Llama",
    "mistral": "Mistral",
    "mit": "MIT",
    "qwen": "Qwen",
}


def format_count(number: int) -> str:
    """Format a count with one letter for its unit: "1.2 M"."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * unit:
            short = number / unit
            return f"{short:.0f} {name}" if short >= 9.95 else f"{short:.1f} {name}"
    return str(number)


def format_context(tokens: int) -> str:
    """Format a context length: "Context: 32k tokens"."""
    number = f"{round(tokens / 1024)}k" if tokens >= 1024 else str(tokens)
    return f"Context: {number} tokens"


def format_licence(identifier: str) -> str:
    """Format a licence identifier of the hub: "apache-2.0" becomes "License: Apache 2.0"."""
    if not identifier:
        return "License: not stated"
    words = _LICENCE_WORD.findall(identifier)
    return "License: " + " ".join(_LICENCE_NAMES.get(word.lower(), word) for word in words)


def short_name(repository: str) -> str:
    """Return a repository's name without its owner."""
    return repository.rstrip("/").rpartition("/")[2] or repository


def spoken_name(repository: str) -> str:
    """Return a repository's name as people say it, without its packaging."""
    return in_words.short_model(short_name(repository))


def drafts_in_words(drafter: str, length: str) -> str:
    """Return how answers are drafted, in a few words: "Automatic drafts", "Drafts by Head"."""
    if "none" in (drafter, length) or length == "0":
        return "No drafts"
    words = "Automatic drafts" if drafter == "auto" else f"Drafts by {drafter_name(drafter)}"
    return words if length == "auto" else f"{words}, {length.replace(':', ' of ')} ahead"


def drafter_name(drafter: str) -> str:
    """Format a value of `--drafter`: "lookup+head" becomes "Lookup, then Head"."""
    return ", then ".join(_part_name(part.strip()) for part in drafter.split("+"))


def _part_name(part: str) -> str:
    word, _, layers = part.partition(":")
    if part.endswith(f"/{MODULE_NAME}"):
        return f"{short_name(part.removesuffix(f'/{MODULE_NAME}'))} (MTP module)"
    name = _DRAFTERS.get(word) or target_name(part)
    return f"{name} ({layers} layers)" if layers and word == "early-exit" else name


def target_name(target: str) -> str:
    """Return the name of a target's folder, or of its repository in the hub's cache."""
    path = Path(target)
    if path.parent.name == "snapshots" and path.parents[1].name.startswith("models--"):
        return path.parents[1].name.rpartition("--")[2]
    return path.name or "the starter model"
