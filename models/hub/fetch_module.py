"""Fetches the MTP module out of a target's repository, and nothing else of it.

Such a module is a part of the published model that mlx-lm leaves out. It may be some hundred
megabytes among many gigabytes, so only its bytes are asked for: the headers of the files that hold
its tensors, then the tensors, which become a folder of their own with one mtp.safetensors.

The hub publishes hashes of whole files, so these bytes are checked less than a model's: each answer
must name the place and the file's size that were expected.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from models.drafters.folders import module_folder
from models.drafters.mtp import module_config, prefixes
from models.drafters.reading import classify, classify_inside
from models.errors import Problem
from models.files import models_folder, new_folder, write_json
from models.hub.client import Hub
from models.hub.repository import Repository, RepositoryFile, is_weights_name
from models.hub.stopping import Stop, apart
from models.hub.transfer import transfer
from models.hub.watching import watch
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
_NO_MODULE = "Choose another drafter: slipstream models pair --target NAME lists them."


@dataclass(frozen=True)
class _Span:
    """Bytes of a file that lie together, with the tensors in them and where each begins there."""

    file: RepositoryFile
    bytes: range
    tensors: Mapping[str, tuple[TensorLayout, int]]


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
    if _is_there(folder, repository):
        return folder
    parts = models_folder(home) / ".hub" / f"mtp--{repository.revision}"
    try:
        parts.mkdir(parents=True, exist_ok=True)
        stop = Stop()
        work = _Work(repository, hub, parts, stop, wait_seconds, {})
        watch(
            [apart(work.run, name="fetch a module")],
            repository,
            stop=stop,
            bytes_of=work.done_and_total,
            progress=progress,
            cancelled=cancelled,
        )
        with new_folder(folder) as made:
            _assemble(work, made)
        shutil.rmtree(parts, ignore_errors=True)
    except OSError as error:
        raise Problem(
            f"The MTP module of {repository.name} cannot be stored: {error.strerror or error}.",
            "Make room on the disk, and try again.",
        ) from error
    return folder


def weigh_module(repository: Repository, *, hub: Hub) -> int:
    """Return the size of the MTP module of `repository` in bytes, from its headers alone; 0 if it
    has none. Raises Problem."""
    with TemporaryDirectory() as parts:
        work = _Work(repository, hub, Path(parts), Stop(), 1.0, {}, hub.config(repository))
        try:
            return sum(len(span.bytes) for span in work.find())
        except NoModule:
            return 0


class NoModule(Problem):
    """A repository has no module that Slipstream knows."""


@dataclass
class _Work:
    """The state of a fetch. `spans` is known once the headers are read; `done`: bytes by span."""

    repository: Repository
    hub: Hub
    parts: Path
    stop: Stop
    wait_seconds: float
    done: dict[int, int]
    config: Mapping[str, Any] | None = None
    spans: tuple[_Span, ...] = ()

    def run(self) -> None:
        """Find the tensors, and bring all spans. Raises Problem, Stopped, OSError."""
        self.config = self.hub.config(self.repository)
        refuse_absurd(self.config)
        self.spans = tuple(self.find())
        needed = sum(len(span.bytes) for span in self.spans)
        free = shutil.disk_usage(self.parts).free
        if 2 * needed > free:  # the parts, and the file that is made of them
            raise Problem(
                f"The MTP module of {self.repository.name} needs {size(2 * needed)} while it is "
                f"put together, and {size(free)} are free.",
                "Make room on the disk.",
            )
        for number in range(len(self.spans)):
            self.bring(number)

    def done_and_total(self) -> tuple[int, int]:
        """Return how many bytes were received, and how many there are."""
        return sum(self.done.values()), sum(len(span.bytes) for span in self.spans)

    def bring(self, number: int) -> None:
        span = self.spans[number]
        transfer(
            self.hub,
            self.repository,
            span.file,
            self.path(span),
            stop=self.stop,
            came=lambda came: self.done.__setitem__(number, came),
            wait_seconds=self.wait_seconds,
            part=span.bytes,
        )
        self.done[number] = len(span.bytes)

    def path(self, span: _Span) -> Path:
        """Return the file that the bytes of a span are kept in."""
        return self.parts / f"{span.file.digest[:16]}-{span.bytes.start}-{span.bytes.stop}"

    def find(self) -> Iterator[_Span]:
        """Yield the module's tensors, as they lie in the files."""
        config = self.config or {}
        beside = self.repository.file(MODULE_NAME)
        files = [beside] if beside else self._shards(config)
        headers = {file: self._header(file) for file in files}
        layouts = {
            name: tensor.layout for found in headers.values() for name, tensor in found[1].items()
        }
        within: tuple[str, ...] = ()
        if beside is None:
            within = prefixes(config, layouts)
            if classify_inside(config, layouts, name=self.repository.name) is None:
                raise self._no_module()
        elif classify(config, layouts, name=self.repository.name).kind != "mtp":
            raise self._no_module()
        for file, (begin, tensors) in headers.items():
            own = {name: each for name, each in tensors.items() if name.startswith(within or "")}
            yield from _spans(file, begin, own)

    def _shards(self, config: Mapping[str, Any]) -> list[RepositoryFile]:
        """Return the files that hold the module's tensors, by the index if there is one."""
        listed = [file for file in self.repository.files if is_weights_name(file.name)]
        if self.repository.file(_INDEX_NAME) is None:
            return listed
        index = self.hub.read(self.repository, _INDEX_NAME, maximum_bytes=_MOST_INDEX_BYTES)
        try:
            places = json.loads(index)["weight_map"]
            names = {str(name): str(file) for name, file in places.items()}
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise Problem(
                f"The index of {self.repository.name} cannot be read.", "Choose another model."
            ) from error
        if not {file.name for file in listed}.issuperset(names.values()):
            return listed  # the index is of other files
        within = prefixes(config, names)
        if not within:
            raise self._no_module()
        wanted = {file for name, file in names.items() if name.startswith(within)}
        return [file for file in listed if file.name in wanted]

    def _header(self, file: RepositoryFile) -> tuple[int, dict[str, StoredTensor]]:
        """Return where the tensors of a file begin, and the tensors by name."""
        prefix = self._bytes(file, range(min(8, file.size_bytes)))
        length = header_size(prefix, file.size_bytes, file_name=file.name)
        begin = 8 + length
        header = self._bytes(file, range(8, begin))
        return begin, read_header(header, file.size_bytes - begin, file_name=file.name)

    def _bytes(self, file: RepositoryFile, part: range) -> bytes:
        """Fetch a few bytes of a file."""
        path = self.parts / "header"
        path.unlink(missing_ok=True)
        if len(part) > MAXIMUM_HEADER_BYTES:
            raise Problem(f"The header of {file.name} is too long.", "Choose another model.")
        transfer(
            self.hub,
            self.repository,
            file,
            path,
            stop=self.stop,
            came=lambda came: None,
            wait_seconds=self.wait_seconds,
            part=part,
        )
        data = path.read_bytes()
        path.unlink()
        return data

    def _no_module(self) -> Problem:
        return NoModule(
            f"{self.repository.name} has no MTP module that Slipstream knows.", _NO_MODULE
        )


def _is_there(folder: Path, repository: Repository) -> bool:
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("source") == _source(repository)


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


def _assemble(work: _Work, folder: Path) -> None:
    """Write the one file of weights, and its config.json."""
    layouts = {name: layout for span in work.spans for name, (layout, _) in span.tensors.items()}
    with SafetensorsWriter(folder / MODULE_NAME, layouts) as writer:
        for span in work.spans:
            with work.path(span).open("rb") as file:
                for name, (layout, start) in span.tensors.items():
                    file.seek(start)
                    writer.write(name, file.read(layout.size_bytes))
    config = module_config(work.config or {}) | {"source": _source(work.repository)}
    write_json(folder / "config.json", config)
