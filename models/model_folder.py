"""A model folder: config.json, safetensors weights and tokenizer.json, and no code.

Reads JSON and safetensors headers only, so a folder from anywhere can be inspected safely: no
weights are loaded, nothing in the folder is run, nothing is unpickled.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

from models.architectures import known_to_mlx, number, text_fields
from models.errors import Problem, unreadable
from models.files import file_stem, read_json_object
from models.gguf.file import is_gguf, parts
from models.gguf.importing import import_gguf
from models.in_words import one_line
from models.safetensors_file import TensorLayout, check_safetensors
from models.token_tables import TokenTable, read_table

MOST_LAYERS = 4096  # and most of everything else that mlx-lm builds one by one
_COUNTED = re.compile(r"(^|_)(layers?|blocks?|heads?|experts|loops|inputs)$")
_LISTED = ("hybrid_override_pattern", "block_configs", "layer_types", "layers_block_type")
_MLX_WEIGHTS = "model*.safetensors"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapters.safetensors"  # mlx-lm's
_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{1,6})-of-(?P<total>\d{1,6})\.safetensors", re.ASCII)
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_OTHER_VERSION = "Use an MLX version of the model, with safetensors weights."
_SAMPLE_BYTES = 4096  # of the fingerprint, from the start of each tensor


@dataclass(frozen=True)
class ModelFolder:
    """A model folder. Each part of it is read once, when it is first used.

    Callers that load, weigh or compare a model pass this value on, so the files are read once. A
    part that the files do not have raises Problem; `check` reads all of them. `weights_pattern`
    selects the files that hold the weights.
    """

    path: Path
    weights_pattern: str = _MLX_WEIGHTS

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def tokenizer_path(self) -> Path:
        return self.path / "tokenizer.json"

    @cached_property
    def config(self) -> Mapping[str, Any]:
        if is_gguf(self.path):
            raise Problem(
                f"{self.path} is a GGUF file, not a model folder.",
                f"Convert it first: slipstream convert {self.path} NEW_FOLDER",
            )
        if not os.path.isdir(self.path):
            raise Problem(f"The model folder {self.path} was not found.", "Check the path.")
        config_path = self.path / "config.json"
        if not config_path.is_file():
            self._refuse_adapter()
            raise Problem(
                f"The folder {self.path} holds no model: it has no config.json.",
                "Choose one with config.json, tokenizer.json and .safetensors files, or a GGUF "
                "file.",
            )
        return MappingProxyType(read_json_object(config_path))

    @cached_property
    def generation_config(self) -> Mapping[str, Any]:
        """The contents of generation_config.json; empty if it is missing or cannot be read."""
        try:
            return MappingProxyType(read_json_object(self.path / "generation_config.json"))
        except Problem:
            return MappingProxyType({})

    @property
    def model_type(self) -> str:
        """The architecture, as mlx-lm names it."""
        model_type = self.config.get("model_type")
        if not isinstance(model_type, str):
            raise Problem(f"{self.path / 'config.json'} names no model_type.", _OTHER_VERSION)
        return model_type

    @property
    def vocabulary_size(self) -> int | None:
        """The rows of the output layer, which may be more than the tokens there are."""
        return number(self.config, "vocab_size")

    @property
    def context_length(self) -> int | None:
        """The longest context in tokens; None if the config does not say."""
        return number(self.config, "max_position_embeddings", "n_positions")

    @property
    def ends(self) -> frozenset[int]:
        """The ids of the tokens that end a text, as config.json and generation_config.json say."""
        tables = (self.config, text_fields(self.config), self.generation_config)
        stated = [table.get("eos_token_id") for table in tables]
        ids = [one for each in stated for one in (each if isinstance(each, list) else [each])]
        return frozenset(one for one in ids if type(one) is int and one >= 0)

    @property
    def quantization_bits(self) -> int | None:
        """The commonest width; None for a float model."""
        for key in ("quantization", "quantization_config"):
            settings = self.config.get(key)
            if isinstance(settings, dict):
                return number(settings, "bits")
        return None

    @cached_property
    def _index(self) -> Mapping[str, str]:
        """The weight file of each tensor, as the index says; nothing without an index."""
        path = self.path / "model.safetensors.index.json"
        files = read_json_object(path).get("weight_map") if path.is_file() else None
        known = files if isinstance(files, dict) else {}
        text = {name: file for name, file in known.items() if isinstance(file, str)}
        return MappingProxyType(dict.fromkeys(known, "a file without a name") | text)

    @cached_property
    def lacks(self) -> str:
        """A missing file that holds a part of the weights; empty if the weights are whole.

        A converted model may still have the index of its original, so an index proves nothing.
        Weights are whole if the numbers of their files are complete, or if the files hold all
        tensors of the index. Example: 1-of-2 and 2-of-2 are whole, also if the index names more.
        """
        here = {path.name for path in self._weight_files}
        if self.weights_pattern != _MLX_WEIGHTS or (here and self._drafter_weights):
            return _missing_part(here)
        files = set(self._index.values())
        missing = _missing_part(here) or min(files - here, default="")
        complete = any(map(_PART.fullmatch, here)) or "model.safetensors" in here - files
        if not missing or (complete and not _missing_part(here)):
            return ""
        tensors = {name for header in self._headers.values() for name in header}
        return "" if here and self._index and tensors >= self._index.keys() else missing

    @property
    def headers(self) -> Mapping[Path, Mapping[str, TensorLayout]]:
        """The tensors of each weight file; none of the files is missing.

        They are the files that mlx-lm would load, otherwise a drafter's, of any name.
        """
        if not self._weight_files:
            self._refuse_adapter()
            raise self._no_weights()
        if self.lacks:
            raise Problem(
                f"{self.path} lacks {repr(self.lacks)[:120]}, which holds a part of the weights.",
                "Download the model again: the files that are there are kept.",
            )
        return self._headers

    @cached_property
    def _headers(self) -> Mapping[Path, Mapping[str, TensorLayout]]:
        files = self._weight_files
        return MappingProxyType({path: MappingProxyType(check_safetensors(path)) for path in files})

    @cached_property
    def _weight_files(self) -> list[Path]:
        return self._drafter_weights or sorted(self.path.glob(self.weights_pattern))

    @cached_property
    def _drafter_weights(self) -> list[Path]:
        """The weight files of a drafter that are not named as mlx-lm wants them."""
        found = sorted(self.path.glob("*.safetensors"))
        if not found or any(path.match(self.weights_pattern) for path in found):
            return []
        return [] if known_to_mlx(str(self.config.get("model_type"))) else found

    def _refuse_adapter(self) -> None:
        """Raise Problem if this is a LoRA adapter, which only changes a model."""
        place = self.path / ADAPTER_CONFIG
        if place.is_file():
            base = adapted_model(self.path)
            raise Problem(
                f"{self.path} is an adapter for {base or 'a model'}, not a whole model.",
                "Fuse it into that model: "
                f"slipstream convert {'' if base else 'MODEL '}--adapter {self.path}",
            )

    def _no_weights(self) -> Problem:
        if any(self.path.glob("*.part")):  # as LM Studio names a file that it is downloading
            remedy = "Finish the download where it was begun: in LM Studio, say."
            return Problem(f"{self.path} was not downloaded whole.", remedy)
        if any(path.suffix in PICKLE_SUFFIXES for path in self.path.glob("*")):
            return Problem(
                f"The weights in {self.path} are pickled, and unpickling can run any code.",
                _OTHER_VERSION,
            )
        return Problem(f"{self.path} has no weights ({self.weights_pattern}).", _OTHER_VERSION)

    @property
    def layouts(self) -> Mapping[str, TensorLayout]:
        return {name: layout for header in self.headers.values() for name, layout in header.items()}

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.headers)

    @cached_property
    def file_states(self) -> tuple[tuple[str, int, int], ...]:
        """The name, the size and the time of change of each weight file."""
        states = ((path.name, path.stat()) for path in sorted(self.headers))
        return tuple((name, state.st_size, state.st_mtime_ns) for name, state in states)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the weights: 16 hexadecimal digits over names, types, shapes and samples.

        It does not depend on how tensors are spread over files, and changes with any training or
        quantization. Reads a few kilobytes per tensor.
        """
        lines = [line for path, header in self.headers.items() for line in _samples(path, header)]
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]

    @cached_property
    def tokens(self) -> TokenTable:
        return read_table(self.path)

    def check(self) -> None:
        """Raises Problem if this is not a complete, harmless MLX model, as far as headers tell."""
        _ = self.model_type
        refuse_code(self.config, f"The model in {self.path}")
        refuse_absurd(self.config)
        if not self.tokenizer_path.is_file():
            raise Problem(f"{self.path} has no tokenizer.json.", _OTHER_VERSION)
        _ = self.headers


def inspect(path: Path) -> ModelFolder:
    """The model in the folder at `path`. Raises Problem as `ModelFolder.check`."""
    folder = ModelFolder(path)
    folder.check()
    return folder


def adapted_model(adapter: Path) -> str:
    """Return the name of the model that an adapter is for; empty if it does not say. Raises
    Problem."""
    config = read_json_object(adapter / ADAPTER_CONFIG)
    names = (config.get("model"), config.get("base_model_name_or_path"))  # mlx-lm's, and PEFT's
    return next((one_line(name)[:200] for name in names if name and isinstance(name, str)), "")


def open_model(
    path: Path,
    *,
    imports: Path,
    name: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> ModelFolder:
    """The model folder at `path`; a GGUF file is imported first, into a folder under `imports`.

    That folder is called after `name`, or else after the file. A file that has not changed since
    it was imported is not imported again.
    Raises Problem as `inspect` and `import_gguf` do.
    """
    if not is_gguf(path):
        return inspect(path)
    identity = str(path.resolve())
    for part in filter(Path.exists, parts(path)):
        state = part.stat()
        identity += f"\0{state.st_size}\0{state.st_mtime_ns}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
    folder = imports / f"{file_stem(name) or path.stem}-{digest}"
    if not folder.exists():
        import_gguf(path, folder, progress=progress)
    return inspect(folder)


def refuse_code(config: Mapping[str, Any], what: str) -> None:
    """Raise Problem if the model with this config, called `what`, needs code that comes with it.

    A Python class that `auto_map` names is needed only if mlx-lm has none for the model.
    """
    model_type = config.get("model_type")
    known = isinstance(model_type, str) and known_to_mlx(model_type)
    if "model_file" in config or ("auto_map" in config and not known):
        raise Problem(
            f"{what} wants to run program code that comes with it.",
            "Slipstream never runs such code: use a model of an architecture that MLX knows.",
        )


def refuse_absurd(config: Mapping[str, Any]) -> None:
    """Raise Problem if config.json has sizes, such as the number of layers, with which the model
    would use up the memory before missing weights are noticed."""
    tables = [config]
    while tables:
        table = tables.pop()
        tables += [value for value in table.values() if isinstance(value, Mapping)]
        for name, value in table.items():
            many = len(value) if name in _LISTED and isinstance(value, list | str) else value
            counted = name in _LISTED or _COUNTED.search(name)
            if counted and type(many) is int and many > MOST_LAYERS:
                raise absurd(name, many)


def absurd(name: str, number: int) -> Problem:
    """The Problem of an absurd number in a config.json."""
    short = f"{min(number, 10**300):.4g}"  # no number in JSON is too large, but many for a float
    return Problem(
        f"The model's config.json says that its {name} is {short}.",
        "Download the model again, or choose another.",
    )


def _missing_part(names: Iterable[str]) -> str:
    """A part that the numbers in `names` prove missing, such as 2-of-3 between 1-of-3 and 3-of-3;
    empty if none is. Some makers count from 0."""
    families: dict[tuple[str, str], set[int]] = {}
    for part in filter(None, map(_PART.fullmatch, names)):
        families.setdefault((part["stem"], part["total"]), set()).add(int(part["number"]))
    for (stem, total), numbers in sorted(families.items()):
        if len(numbers) < int(total):
            lost = next(number for number in count(1) if number not in numbers)
            return f"{stem}-{lost:0{len(total)}}-of-{total}.safetensors"
    return ""


def _samples(path: Path, header: Mapping[str, TensorLayout]) -> list[str]:
    """A line for each tensor in the file: its name, type and shape, and how its values begin."""
    lines = []
    try:
        with path.open("rb") as file:
            start = path.stat().st_size - sum(layout.size_bytes for layout in header.values())
            for name, layout in header.items():  # they lie end to end, in this order
                file.seek(start)
                start += layout.size_bytes
                sample = file.read(min(layout.size_bytes, _SAMPLE_BYTES))
                digest = hashlib.sha256(sample).hexdigest()
                lines.append(json.dumps([name, layout.dtype, layout.shape, digest]))
    except OSError as error:
        raise unreadable(path, error) from error
    return lines
