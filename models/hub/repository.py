"""The files of a repository on the hub: which of them are needed, and why others are refused.

Knows names, sizes and hashes as the hub lists them; uses neither network nor disk. The hub's
listings are checked here: one with a hostile name or without a size is a Problem.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from models.drafters.reading import kind_of
from models.errors import Problem
from models.gguf.file import part_names, shown
from models.in_words import one_line
from models.model_folder import PICKLE_SUFFIXES

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REFERENCE = re.compile(r"[A-Za-z0-9][\w.+-]*(/[A-Za-z0-9][\w.+-]*)*", re.ASCII)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)
# mlx-lm's, a head's, and the names of Medusa's heads and MTP modules in a model's folder.
_WEIGHTS = re.compile(r"(model[\w.+-]*|head|medusa_lm_head|mtp[\w.+-]*)\.safetensors", re.ASCII)
_GGUF = re.compile(r"[A-Za-z0-9][\w.+-]*\.gguf", re.ASCII | re.IGNORECASE)
_SMALL_SUFFIXES = (".json", ".jinja", ".txt", ".model", ".tiktoken")
_PROSE_NAMES = ("LICENSE", "LICENCE", "NOTICE", "README")
_SMALL_BYTES = 100_000_000  # of a tokenizer; the largest known have some 35 million
_PROSE_BYTES = 2_000_000
_TEXT_TASKS = (None, "", "text-generation", "image-text-to-text", "any-to-any", "conversational")


@dataclass(frozen=True, slots=True)
class RepositoryFile:
    """A file as the hub lists it. `sha256` is published for large files only; small files have
    their git blob's sha1."""

    name: str
    size_bytes: int
    sha256: str | None
    git_sha1: str

    @property
    def digest(self) -> str:
        """The hash of the file's content, which is also the name of its blob in the cache."""
        return self.sha256 or self.git_sha1


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository at one commit.

    `name` is as the hub spells it, `revision` the commit in 40 hexadecimal digits; `reference`,
    the branch or tag that was asked for, is empty if a commit was asked for.
    """

    name: str
    revision: str
    reference: str
    files: tuple[RepositoryFile, ...]
    gated: bool
    licence: str

    def file(self, name: str) -> RepositoryFile | None:
        return next((file for file in self.files if file.name == name), None)


def check_name(name: str) -> str:
    """Return `name` if it is a valid name of a repository. Raises Problem."""
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise Problem(
            f"{shown(name)} is not the name of a model on the hub.",
            "Write it as the hub does: organization/model.",
        ) from error
    return name


def check_revision(revision: str) -> str:
    """Return `revision` if it is a valid branch, tag or commit. Raises Problem."""
    if not _REFERENCE.fullmatch(revision) or ".." in revision or len(revision) > 200:
        remedy = "Give a branch, a tag or a commit of the model."
        raise Problem(f"{shown(revision)} is not a revision.", remedy)
    return revision


def is_commit(revision: str) -> bool:
    """Whether `revision` is a full commit hash."""
    return _COMMIT.fullmatch(revision) is not None


def parse_repository(facts: Any, *, asked: str, revision: str | None) -> Repository:
    """The repository that the hub's answer describes. Raises Problem if it is malformed."""
    try:
        name, commit = check_name(facts["id"]), facts["sha"]
        if not is_commit(commit):
            raise ValueError(commit)
        files = tuple(_parse_file(sibling) for sibling in facts["siblings"])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Problem(
            f"The hub's description of {asked} cannot be understood.",
            "Check the address of the hub (HF_ENDPOINT), and try again later.",
        ) from error
    for file in files:
        if _is_hostile(file.name):
            raise Problem(
                f"{asked} lists the file {shown(file.name)}, which would lie outside its folder.",
                "Do not use this model: no honest repository has such a file.",
            )
    reference = "" if is_commit(revision or "") else (revision or "main")
    return Repository(
        name=name,
        revision=commit,
        reference=reference,
        files=files,
        gated=bool(facts.get("gated")),
        licence=licence(facts),
    )


def _parse_file(sibling: Any) -> RepositoryFile:
    large = sibling.get("lfs")
    size_bytes, sha256 = sibling["size"], None
    if large:
        size_bytes, sha256 = large["size"], large["sha256"]
        if not _SHA256.fullmatch(sha256):
            raise ValueError(sha256)
    if type(size_bytes) is not int or size_bytes < 0 or not is_commit(sibling["blobId"]):
        raise ValueError(sibling)
    return RepositoryFile(str(sibling["rfilename"]), size_bytes, sha256, sibling["blobId"])


def _is_hostile(name: str) -> bool:
    """Whether the name leads out of its folder on any operating system."""
    parts = name.replace("\\", "/").split("/")
    pure = [PurePosixPath(name), PureWindowsPath(name), *map(PureWindowsPath, name.split("/"))]
    return (
        not name
        or not name.isprintable()
        or ".." in parts
        or any(path.drive or path.root for path in pure)
    )


def licence(facts: Any) -> str:
    """The licence in the hub's answer about a model; empty if it names none."""
    card = facts.get("cardData")
    named = card.get("license") if isinstance(card, dict) else None
    if isinstance(named, list):
        named = ", ".join(map(str, named))
    if isinstance(named, str) and named:
        return _line(named)
    licences = [tag for tag in _tags(facts) if tag.startswith("license:")]
    return _line(licences[0].removeprefix("license:")) if licences else ""


def _tags(facts: Any) -> list[str]:
    tags = facts.get("tags")
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []


def _line(text: str) -> str:
    """Text from the hub in one line, without control characters, cut at 100."""
    return one_line(text)[:100]


def needed(repository: Repository, *, gguf: str | None = None) -> tuple[RepositoryFile, ...]:
    """Return the files that are needed to load the model: no pickles, no code, no second copy of
    weights.

    In a repository with GGUF files only, `gguf` names the needed one, or the first of those into
    which a model is split. Raises Problem if the repository cannot be used.
    """
    names = [file.name for file in repository.files]
    if gguf is not None:
        needed_names = set(part_names(gguf))
        chosen = tuple(file for file in repository.files if file.name in needed_names)
        if not _GGUF.fullmatch(gguf) or not 0 < len(needed_names) == len(chosen):
            raise Problem(
                f"{repository.name} has no GGUF file called {gguf!r}, or not all of its parts.",
                f"It has: {_offered(names) or 'none'}.",
            )
        return chosen
    if reason := why_not(names):
        raise Problem(f"{repository.name} cannot be used: {reason}", _remedy(names))
    return tuple(file for file in repository.files if _is_needed(file))


def _remedy(names: Collection[str]) -> str:
    if offered := _offered(names):
        return f"Choose one of its files: {offered}."
    if any(name.endswith(PICKLE_SUFFIXES) for name in names):
        return (
            "Choose a version with safetensors weights: the hub can make one, in its space "
            "safetensors/convert."
        )
    return "Choose another model."


def _offered(names: Collection[str]) -> str:
    return ", ".join(name for name in names if _GGUF.fullmatch(name) and part_names(name))


def _is_needed(file: RepositoryFile) -> bool:
    if is_weights_name(file.name):
        return True
    largest = _PROSE_BYTES if file.name.startswith(_PROSE_NAMES) else _SMALL_BYTES
    return is_needed_name(file.name) and file.size_bytes <= largest


def is_weights_name(name: str) -> bool:
    """Whether loaders take a file of this name for weights."""
    return _WEIGHTS.fullmatch(name) is not None


def is_gguf_name(name: str) -> bool:
    return _GGUF.fullmatch(name) is not None


def is_needed_name(name: str) -> bool:
    """Whether a file of this name belongs to a model, its licence included."""
    return is_weights_name(name) or (
        _PLAIN_NAME.fullmatch(name) is not None
        and (name.startswith(_PROSE_NAMES) or name.endswith(_SMALL_SUFFIXES))
    )


def why_not(names: Iterable[str], *, facts: Any = None) -> str:
    """Return why a repository with these files cannot be used, as a sentence; empty if it can.

    `facts`: the hub's facts about it: its task, its tags, its config.
    """
    names = set(names)
    facts = facts if isinstance(facts, dict) else {}
    task = facts.get("pipeline_tag")
    if task not in _TEXT_TASKS:
        return f"It is made for {_line(str(task))}, not for chatting."
    if not any(map(_WEIGHTS.fullmatch, names)):
        return _why_no_weights(names)
    if "config.json" not in names:
        return "It has no config.json."
    config = facts.get("config")
    model_type = config.get("model_type") if isinstance(config, dict) else None
    if isinstance(model_type, str) and kind_of(config) is None:
        if "custom_code" in _tags(facts):
            return "It needs program code that comes with it, which is never run here."
        return f"MLX does not know its architecture, {_line(model_type)}."
    return ""


def _why_no_weights(names: set[str]) -> str:
    if any(map(_GGUF.fullmatch, names)):
        return "It holds GGUF files only; one of them can be fetched by its name."
    if "adapter_config.json" in names:
        return "It is an adapter for a model, not a whole model."
    if any(name.endswith(PICKLE_SUFFIXES) for name in names):
        return "Its weights are pickled, and unpickling can run any code."
    return "It has no safetensors weights."
