"""The models that LM Studio and Ollama keep on this machine: where they are, and their names.

Knows how these programs lay out their folders. Reads names and Ollama's manifests, no model, and
never changes anything there.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from models.errors import Problem
from models.files import read_json_object, written_path
from models.installed import added_folders
from models.installed.inventory import ModelEntry
from models.model_folder import ModelFolder

_LM_STUDIO, _BEFORE_2025 = ".lmstudio", ".cache/lm-studio/models"
_LM_STUDIO_IS_AT, _CHOSEN = ".lmstudio-home-pointer", "downloadsFolder"
_OLLAMA, _OLLAMA_VARIABLE = ".ollama/models", "OLLAMA_MODELS"
OLLAMA_SERVICE = Path("/usr/share/ollama/.ollama/models")  # of a service on Linux
_OWN_PREFIXES = ("registry.ollama.ai/library/", "registry.ollama.ai/")  # which Ollama leaves out
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})", re.ASCII)
_MAXIMUM_MANIFEST_BYTES = 1_000_000
_ONE_FILE = "Choose a model that is whole in one file."
_LAYER = "application/vnd.ollama.image."


def other_models(user_home: Path) -> Iterator[ModelEntry]:
    """Yield other programs' models in the home folder `user_home`. A model without a reason against
    it may be unusable, too: it was not opened yet."""
    for folder in _of_lm_studio(user_home):
        for name, path in added_folders.places(folder):
            yield ModelEntry.at(name, ModelFolder(path), "lm-studio")
    roots = [user_home / _OLLAMA, OLLAMA_SERVICE]
    with suppress(Problem):
        if named := os.environ.get(_OLLAMA_VARIABLE):
            roots = [written_path(named)]
    for root in roots:
        yield from _in_ollama(root)


def _of_lm_studio(user_home: Path) -> dict[Path, None]:
    """The folders of LM Studio, which lets the user move them."""
    home = user_home / _LM_STUDIO
    with suppress(OSError, ValueError, Problem):
        home = written_path((user_home / _LM_STUDIO_IS_AT).read_text(encoding="utf-8").strip())
    chosen = home / "models"
    with suppress(OSError, KeyError, TypeError, Problem):
        chosen = written_path(read_json_object(home / "settings.json")[_CHOSEN])
    return dict.fromkeys((chosen, home / "models", user_home / _BEFORE_2025))


def ollama_name(blob: Path) -> str:
    """Return the name that Ollama has for the model in the file `blob`; empty if it has none."""
    if not _DIGEST.fullmatch(blob.name):
        return ""
    found = (each for each in _in_ollama(blob.parent.parent) if each.folder.path.name == blob.name)
    return next((each.record.name for each in found), "")


def _in_ollama(root: Path) -> Iterator[ModelEntry]:
    """Ollama's models in the folder `root`: host/namespace/model/tag below `manifests`."""
    manifests = root / "manifests"
    try:
        paths = sorted(path for path in manifests.glob("*/*/*/*") if not path.is_dir())
    except OSError:
        return
    for path in paths:
        *model, tag = path.relative_to(manifests).parts
        if any(part.startswith(".") for part in (*model, tag)):
            continue
        name = f"{'/'.join(model)}:{tag}"
        for prefix in _OWN_PREFIXES:
            name = name.removeprefix(prefix)
        try:
            yield ModelEntry.at(name, ModelFolder(_blob(root, path, name)), "ollama")
        except Problem as problem:
            yield ModelEntry.at(name, ModelFolder(path), "ollama").refused(problem)


def _blob(root: Path, manifest: Path, name: str) -> Path:
    """Return the GGUF file that the manifest names. Raises Problem if it names no whole file."""
    again = f"Fetch it again: ollama pull {name}"
    try:
        read = read_json_object(manifest, maximum_bytes=_MAXIMUM_MANIFEST_BYTES)
    except Problem as problem:
        raise Problem(f"Ollama's manifest of {name} is damaged.", again) from problem
    layers = read.get("layers")
    layers = [each for each in layers if isinstance(each, dict)] if isinstance(layers, list) else []
    kinds = [layer.get("mediaType") for layer in layers]
    if f"{_LAYER}adapter" in kinds:
        raise Problem(f"{name} is an adapter on another model.", _ONE_FILE)
    if kinds.count(f"{_LAYER}model") != 1:
        raise Problem(f"Ollama keeps {name} in another way than in one GGUF file.", _ONE_FILE)
    layer = layers[kinds.index(f"{_LAYER}model")]
    digest = _DIGEST.fullmatch(str(layer.get("digest")))
    if digest is None:
        raise Problem(f"Ollama's manifest of {name} is damaged.", again)
    for separator in "-:":  # the second one until 2024
        blob = root / "blobs" / f"sha256{separator}{digest[1]}"
        try:
            if blob.stat().st_size == layer.get("size"):
                return blob
        except OSError:
            continue
        raise Problem(f"The file of {name} in Ollama's folder is not whole.", again)
    raise Problem(f"The file of {name} is missing in Ollama's folder.", again)
