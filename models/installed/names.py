"""Which of the installed models a name means, and what to say where it means none.

Knows names alone: it reads no files.
"""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from models.errors import Problem
from models.records import Installed

HUB_ID = re.compile(
    r"[\w.-]+/[\w.-]+(?<!\.gguf)(/[\w.-]+\.gguf|/mtp\.safetensors)?(@[\w./+-]+)?",
    re.ASCII | re.I,
)
_NEAR = 3  # names to suggest


def find(text: str, *, models: Sequence[Installed]) -> Installed:
    """Return the one of `models` that `text` names: by its name, a part of it, or a hub id with
    revision.

    Raises Problem if none or several match, naming similar ones.
    """
    found = match(text, models)
    if found is None:
        raise unknown(text, models)
    return found


def match(text: str, models: Sequence[Installed]) -> Installed | None:
    """Return as `find`; None if none matches."""
    wanted = text.lower()
    for matches in (
        [model for model in models if model.name == text],
        [model for model in models if model.name.lower() == wanted],
        [model for model in models if _is_revision(model, wanted)],
        [model for model in models if wanted in _short_names(model)],
    ):
        usable = [model for model in matches if not model.problem] or matches
        names = sorted({model.name for model in usable})
        if len(names) > 1:
            raise Problem(
                f"{text!r} can mean several models: {', '.join(names)}.",
                "Write the whole name of one of them.",
            )
        if usable:
            return usable[0]
    return None


def _is_revision(model: Installed, wanted: str) -> bool:
    """Whether `wanted` is the model's hub id with its revision, in full or from 7 digits on."""
    repository, _, revision = wanted.partition("@")
    of_hub = model.name.lower().partition("@")[0] == repository
    return of_hub and len(revision) >= 7 and Path(model.path).name.startswith(revision)


def _short_names(model: Installed) -> set[str]:
    """Return a model's short names: without the organization; a GGUF file also by its repository, a
    model of Ollama's without its tag."""
    name = model.name.lower()
    words = name.split("/")
    if model.origin == "ollama":
        return {words[-1], words[-1].partition(":")[0], name.partition(":")[0]}
    if len(words) > 2 and name.endswith(".gguf"):
        return {words[-1], words[-1].removesuffix(".gguf"), words[1], "/".join(words[:2])}
    return {words[-1], words[-1].removesuffix(".gguf")}


def parts(name: str) -> set[str]:
    return {name.lower(), name.lower().rpartition("/")[2]}


def unknown(text: str, models: Sequence[Installed]) -> Problem:
    """Return the Problem of a name that none of `models` has."""
    whole = {
        name: model.name
        for model in models
        for name in sorted({*_short_names(model), model.name.lower()})
    }
    near = difflib.get_close_matches(text.lower(), whole, n=2 * _NEAR)
    meant = " or ".join(list(dict.fromkeys(whole[name] for name in near))[:_NEAR])
    if HUB_ID.fullmatch(text):
        hint = f"Did you mean {meant}? If not, fetch it" if meant else "Fetch it"
        return Problem(f"{text} is not on this machine.", f"{hint}: slipstream models pull {text}")
    return Problem(
        f"This machine has no model called {text!r}.",
        f"Did you mean {meant}?" if meant else "List the models: slipstream models list",
    )
