"""Models of a few bytes in the places where models are: our folder, a cache, other folders."""

import hashlib
import json
import os
from pathlib import Path

from models.drafters.kinds import HEAD_MODEL_TYPE, HEAD_WEIGHTS_NAME
from models.installed import store

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 64,
    "max_position_embeddings": 128,
    "quantization": {"bits": 4, "group_size": 64},
}


def weights(size_bytes=1_000, *, fill=0):
    """A sound safetensors file with one tensor."""
    header = {"w": {"dtype": "U8", "shape": [size_bytes], "data_offsets": [0, size_bytes]}}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes([fill]) * size_bytes


def model_files(**config):
    """A whole model; `config` changes its config.json, None takes a key out."""
    changed = {key: value for key, value in (CONFIG | config).items() if value is not None}
    return {
        "config.json": json.dumps(changed).encode(),
        "tokenizer.json": b"{}",
        "tokenizer_config.json": b"{}",
        "model.safetensors": weights(),
    }


def head_files():
    """A drafter head."""
    config = {"model_type": HEAD_MODEL_TYPE, "target": "A target", "target_fingerprint": "0" * 16}
    return {"config.json": json.dumps(config).encode(), HEAD_WEIGHTS_NAME: weights()}


def write(folder, files):
    """The files in a folder of their own."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def commit(letter):
    """A revision that begins with that letter."""
    return letter * 40


def cached(cache, name, files, *, revision="a" * 40, main=True):
    """A snapshot as the hub's own tools leave one: blobs, links, and a reference."""
    home = cache / f"models--{name.replace('/', '--')}"
    snapshot = home / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (home / "blobs").mkdir(exist_ok=True)
    for file_name, data in files.items():
        blob = home / "blobs" / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        link = snapshot / file_name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    if main:
        (home / "refs").mkdir(exist_ok=True)
        (home / "refs" / "main").write_text(revision)
    return snapshot


def partial(cache, name, size_bytes=500):
    """Write the partial file of a large file whose download broke off."""
    blobs = cache / f"models--{name.replace('/', '--')}" / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    path = blobs / f"{'d' * 64}.0123abcd.incomplete"
    path.write_bytes(bytes(size_bytes))
    return path


def find(name, home, cache):
    """The one of that name among what is installed."""
    return next(one for one in store.installed(home=home, cache=cache) if one.name == name)


def disk_bytes(folder):
    """Return the size of all files in it, without those that links lead to."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def clean(home, cache):
    """Delete all that broken downloads and removals have left; the bytes freed."""
    left = store.incomplete(home=home, cache=cache)
    return sum(store.remove_incomplete(each, home=home, cache=cache) for each in left)


def refuse(monkeypatch, owner, name, place):
    """From now on that function of `owner` may not read the file or folder at `place`."""
    function = getattr(owner, name)

    def refusing(path, *arguments):
        if Path(path) == place:
            raise PermissionError(13, "Permission denied")
        return function(path, *arguments)

    monkeypatch.setattr(owner, name, refusing)
