"""What a model folder is: config.json, safetensors weights and tokenizer.json, and no code.

Reads JSON and safetensors headers only, so a folder from anywhere can be inspected safely: no
weights are loaded, nothing in the folder is run, nothing is unpickled.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.architectures import known_to_mlx
from models.errors import Problem
from models.gguf.importing import import_gguf
from models.safetensors_file import check_safetensors

MAXIMUM_CONFIG_BYTES = 16_000_000
MOST_LAYERS = 4096  # of everything that mlx-lm makes one by one
_COUNTED = re.compile(r"(^|_)(layers?|blocks?|heads?|experts|loops|inputs)$")
_LISTED = ("hybrid_override_pattern", "block_configs", "layer_types", "layers_block_type")
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_OTHER_VERSION = "Use an MLX version of the model, with safetensors weights."


@dataclass(frozen=True)
class ModelFolder:
    """A folder that can be loaded, as far as its headers tell.

    model_type is the architecture as mlx-lm names it; vocabulary_size counts the rows of the
    output layer, which may be more than the tokens there are; quantization_bits is the
    commonest width, None for a float model; size_bytes is that of the weights. What the config
    leaves open is None.
    """

    path: Path
    model_type: str
    vocabulary_size: int | None
    context_length: int | None
    quantization_bits: int | None
    size_bytes: int
    tokenizer_path: Path


def open_model(
    path: Path, *, imports: Path, progress: Callable[[int, int], None] | None = None
) -> ModelFolder:
    """The model folder at `path`; a GGUF file is imported first, into a folder under `imports`.

    A file that was imported before, and has not changed since, is not imported again.
    Raises Problem as `inspect` and `import_gguf` do.
    """
    if not _is_gguf(path):
        return inspect(path)
    state = path.stat()
    identity = f"{path.resolve()}\0{state.st_size}\0{state.st_mtime_ns}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
    folder = imports / f"{path.stem}-{digest}"
    if not folder.exists():
        import_gguf(path, folder, progress=progress)
    return inspect(folder)


def inspect(folder: Path) -> ModelFolder:
    """What `folder` holds. Raises Problem if that is not a complete, harmless MLX model."""
    if _is_gguf(folder):
        raise Problem(
            f"{folder} is a GGUF file, not a model folder.",
            f"Import it first: slipstream import {folder} NEW_FOLDER",
        )
    if not folder.is_dir():
        raise Problem(f"There is no model folder at {folder}.", "Check the path.")
    config_path = folder / "config.json"
    if not config_path.is_file():
        raise Problem(
            f"{folder} is not a model folder: it has no config.json.",
            "Give the folder that holds config.json and the weights.",
        )
    config = read_json_object(config_path)
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise Problem(f"{config_path} names no model_type.", _OTHER_VERSION)
    _refuse_code(folder, config, model_type)
    refuse_absurd(config)
    tokenizer_path = folder / "tokenizer.json"
    if not tokenizer_path.is_file():
        raise Problem(f"{folder} has no tokenizer.json.", _OTHER_VERSION)
    return ModelFolder(
        path=folder,
        model_type=model_type,
        vocabulary_size=_number(config, "vocab_size"),
        context_length=_number(config, "max_position_embeddings", "n_positions"),
        quantization_bits=_quantization_bits(config),
        size_bytes=sum(path.stat().st_size for path in _checked_weights(folder)),
        tokenizer_path=tokenizer_path,
    )


def read_json_object(path: Path, *, maximum_bytes: int = MAXIMUM_CONFIG_BYTES) -> dict[str, Any]:
    """The JSON object in the file at `path`. Raises Problem if there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(maximum_bytes + 1)
        value = json.loads(data.decode()) if len(data) <= maximum_bytes else None
    except (ValueError, RecursionError):
        value = None
    except OSError as error:
        raise Problem(
            f"{path} cannot be read: {error.strerror or error}.",
            "Check that the disk is there and that you may read the file.",
        ) from error
    if not isinstance(value, dict):
        raise Problem(f"{path} is not a JSON object.", "Download or import the model again.")
    return value


def refuse_absurd(config: Mapping[str, Any]) -> None:
    """Raises Problem where a config.json has so many layers, or the like, that making them would
    take the memory before anybody sees that there are no weights for them."""
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
    """What is said of a number in a config.json that no model has."""
    short = f"{min(number, 10**300):.4g}"  # no number in JSON is too large, but many for a float
    return Problem(
        f"The model's config.json says that its {name} is {short}.",
        "Download the model again, or choose another.",
    )


def _is_gguf(path: Path) -> bool:
    return path.suffix.lower() == ".gguf" and path.is_file()


def _refuse_code(folder: Path, config: dict[str, Any], model_type: str) -> None:
    wants_code = "model_file" in config or ("auto_map" in config and not known_to_mlx(model_type))
    if wants_code:
        raise Problem(
            f"The model in {folder} wants to run program code that comes with it.",
            "Slipstream never runs such code: use a model of an architecture that MLX knows.",
        )


def _checked_weights(folder: Path) -> list[Path]:
    """The weight files, as mlx-lm picks them, with sound headers and none missing."""
    weights = sorted(folder.glob("model*.safetensors"))
    if not weights:
        if any(path.suffix in PICKLE_SUFFIXES for path in folder.iterdir()):
            raise Problem(
                f"The weights in {folder} are pickled, and unpickling can run any code.",
                _OTHER_VERSION,
            )
        raise Problem(f"{folder} has no weights (model*.safetensors).", _OTHER_VERSION)
    index_path = folder / "model.safetensors.index.json"
    if index_path.is_file():
        places = read_json_object(index_path).get("weight_map")
        names = set(map(_text, places.values())) if isinstance(places, dict) else set()
        missing = sorted(names - {path.name for path in weights})
        if missing:
            raise Problem(
                f"{folder} lacks {repr(missing[0])[:120]}, which holds a part of the weights.",
                "Download the model again; what is there is kept.",
            )
    for path in weights:
        check_safetensors(path)
    return weights


def _text(name: object) -> str:
    return name if isinstance(name, str) else "a file without a name"


def _number(config: dict[str, Any], *keys: str) -> int | None:
    """The first positive whole number under `keys`, in the config or its text_config."""
    nested = config.get("text_config")
    for table in (config, nested if isinstance(nested, dict) else {}):
        for key in keys:
            value = table.get(key)
            if type(value) is int and value > 0:
                return value
    return None


def _quantization_bits(config: dict[str, Any]) -> int | None:
    for key in ("quantization", "quantization_config"):
        settings = config.get(key)
        if isinstance(settings, dict):
            return _number(settings, "bits")
    return None
