"""Fetches the MTP module out of a target's repository, and nothing else of it.

Such a module is a part of the published model that mlx-lm leaves out. It may be some hundred
megabytes among many gigabytes, so only its bytes are asked for: the headers of the files that hold
its tensors, then the tensors, which become a folder of their own with one mtp.safetensors.

The hub publishes hashes of whole files, so these bytes are checked less than a model's: each answer
must name the place and the file's size that were expected.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from models.drafters.folders import module_folder, module_parts, module_source
from models.drafters.mtp import module_config, prefixes
from models.drafters.reading import classify, classify_inside
from models.errors import Problem, unwritable
from models.files import free_bytes, new_folder, write_json
from models.hub.client import Hub
from models.hub.repository import Repository, RepositoryFile, is_weights_name
from models.hub.stopping import apart
from models.hub.transfer import transfer
from models.hub.watching import Work
from models.in_words import size
from models.model_folder import refuse_absurd
from models.records import MODULE_NAME, Download
from models.safetensors_file import (
    MAXIMUM_HEADER_BYTES,
    SafetensorsWriter,
    StoredTensor,
    TensorLayout,
    header_size,
    read_header,
)

_INDEX_NAME = "model.safetensors.index.json"
_MOST_INDEX_BYTES = 100_000_000


@dataclass(frozen=True)
class _Span:
    """Bytes of a file that lie together, with the tensors in them and where each begins there."""

    file: RepositoryFile
    bytes: range
    tensors: Mapping[str, tuple[TensorLayout, int]]

    @property
    def name(self) -> str:
        return f"{self.file.digest[:16]}-{self.bytes.start}-{self.bytes.stop}"


def fetch_module(
    repository: Repository,
    *,
    hub: Hub,
    home: Path | None = None,
    progress: Callable[[Download], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    wait_seconds: float = 1.0,
) -> Path:
    """Fetch the module of `repository`; its folder, which appears whole or not at all.

    A module from the same commit is not fetched again; a module from another commit must be
    deleted first. The callbacks are as `fetch`'s. Received bytes are kept until the module is
    whole. Raises Problem, and Stopped.
    """
    folder = module_folder(repository.name, home=home)
    if module_source(folder) == _source(repository):
        return folder
    if os.path.lexists(folder):
        raise Problem(
            f"{folder} exists already, and is not of this commit of {repository.name}.",
            f"Delete it first: slipstream models remove {folder.name}",
        )
    parts = module_parts(repository.name, repository.revision, home=home)
    work = Work(repository, hub, progress, cancelled, wait_seconds)
    try:
        fetching = apart(lambda: _bring(work, parts), name="fetch a module")
        work.watch(fetching)
        with new_folder(folder) as made:
            config, spans = fetching.result()
            _assemble(spans, parts, made)
            config = module_config(config) | {"source": _source(repository)}
            write_json(made / "config.json", config)
        shutil.rmtree(parts, ignore_errors=True)
    except OSError as error:
        words = f"The MTP module of {repository.name} cannot be stored"
        raise unwritable(words, error, then="Try again.") from error
    return folder


def weigh_module(repository: Repository, *, hub: Hub) -> int:
    """Return the size of the MTP module of `repository` in bytes, from its headers alone; 0 if it
    has none. Raises Problem."""
    try:
        spans = _find(Work(repository, hub), hub.config(repository))
        return sum(len(span.bytes) for span in spans)
    except NoModule:
        return 0


class NoModule(Problem):
    def __init__(self, repository: Repository) -> None:
        super().__init__(
            f"{repository.name} has no MTP module that Slipstream knows.",
            "Choose another drafter: slipstream models pair --target NAME lists them.",
        )


def _bring(work: Work, parts: Path) -> tuple[dict[str, Any], list[_Span]]:
    """Fetch all bytes of the module into `parts`; the repository's config, and what came. Raises
    Problem, Stopped, OSError."""
    config = work.hub.config(work.repository)
    refuse_absurd(config)
    spans = _find(work, config)
    here = {path.name: path.stat().st_size for path in parts.glob("*")}
    work.done = {span.name: here.get(span.name, 0) for span in spans}
    work.total_bytes = sum(len(span.bytes) for span in spans)
    free = free_bytes(parts)
    # For the parts that are still to come, and the file that is made of all.
    needed = 2 * work.total_bytes - sum(work.done.values())
    if needed > free:
        raise Problem(
            f"The MTP module of {work.repository.name} needs {size(needed)} more while it is put "
            f"together, and {size(free)} are free.",
            "Make room on the disk.",
        )
    parts.mkdir(parents=True, exist_ok=True)
    for span in spans:
        work.bring(span.file, parts / span.name, part=span.bytes)
    return config, spans


def _find(work: Work, config: Mapping[str, Any]) -> list[_Span]:
    """Return the module's tensors, as they lie in the files."""
    repository = work.repository
    alone = repository.file(MODULE_NAME)
    files = [alone] if alone else _shards(work, config)
    with TemporaryDirectory() as place:
        headers = {file: _header(work, file, Path(place) / "header") for file in files}
    layouts = {
        name: tensor.layout for _, tensors in headers.values() for name, tensor in tensors.items()
    }
    within = ("",) if alone else prefixes(config, layouts)
    read = classify if alone else classify_inside
    found = read(config, layouts, name=repository.name)
    if found is None or found.kind != "mtp":
        raise NoModule(repository)
    return [
        span
        for file, (begin, tensors) in headers.items()
        for span in _spans(file, begin, {n: t for n, t in tensors.items() if n.startswith(within)})
    ]


def _shards(work: Work, config: Mapping[str, Any]) -> list[RepositoryFile]:
    """Return the files that hold the module's tensors, by the index if there is one."""
    repository = work.repository
    listed = [file for file in repository.files if is_weights_name(file.name)]
    if repository.file(_INDEX_NAME) is None:
        return listed
    index = work.hub.read(repository, _INDEX_NAME, maximum_bytes=_MOST_INDEX_BYTES)
    try:
        places = json.loads(index)["weight_map"]
        names = {str(name): str(file) for name, file in places.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Problem(
            f"The index of {repository.name} cannot be read.", "Choose another model."
        ) from error
    if not {file.name for file in listed}.issuperset(names.values()):
        return listed  # the index is of other files
    within = prefixes(config, names)
    if not within:
        raise NoModule(repository)
    wanted = {file for name, file in names.items() if name.startswith(within)}
    return [file for file in listed if file.name in wanted]


def _header(work: Work, file: RepositoryFile, place: Path) -> tuple[int, dict[str, StoredTensor]]:
    """Return where the tensors of a file begin, and the tensors by name."""

    def read(part: range) -> bytes:
        place.unlink(missing_ok=True)
        if len(part) > MAXIMUM_HEADER_BYTES:
            raise Problem(f"The header of {file.name} is too long.", "Choose another model.")
        source = work.hub.source(work.repository, file)
        transfer(source, place, stop=work.stop, wait_seconds=work.wait_seconds, part=part)
        return place.read_bytes()

    length = header_size(read(range(min(8, file.size_bytes))), file.size_bytes, file_name=file.name)
    begin = 8 + length
    header = read(range(8, begin))
    return begin, read_header(header, file.size_bytes - begin, file_name=file.name)


def _source(repository: Repository) -> dict[str, str]:
    return {"repository": repository.name, "revision": repository.revision}


def _spans(
    file: RepositoryFile, begin: int, tensors: Mapping[str, StoredTensor]
) -> Iterator[_Span]:
    """Yield the tensors of a file in runs without gaps."""
    run: dict[str, StoredTensor] = {}
    for name, tensor in tensors.items():  # in the file's order
        if run and tensor.start != list(run.values())[-1].stop:
            yield _span(file, begin, run)
            run = {}
        run[name] = tensor
    if run:
        yield _span(file, begin, run)


def _span(file: RepositoryFile, begin: int, run: Mapping[str, StoredTensor]) -> _Span:
    first, last = next(iter(run.values())), list(run.values())[-1]
    places = {name: (each.layout, each.start - first.start) for name, each in run.items()}
    return _Span(file, range(begin + first.start, begin + last.stop), places)


def _assemble(spans: list[_Span], parts: Path, folder: Path) -> None:
    """Write the one file of weights."""
    layouts = {name: layout for span in spans for name, (layout, _) in span.tensors.items()}
    with SafetensorsWriter(folder / MODULE_NAME, layouts) as writer:
        for span in spans:
            with (parts / span.name).open("rb") as file:
                for name, (layout, start) in span.tensors.items():
                    file.seek(start)
                    writer.write(name, file.read(layout.size_bytes))
