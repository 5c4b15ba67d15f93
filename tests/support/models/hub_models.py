"""A tiny model as files in memory, and the things that most tests of the hub need."""

import json
import random
from contextlib import contextmanager

import pytest
from huggingface_hub.utils import close_session

from models.hub.client import Hub
from models.hub.fetch import fetch

NAME = "tiny-org/Tiny-1B-4bit"
TOKEN = "hf_of_the_test"
CONFIG = {"model_type": "llama", "vocab_size": 64, "max_position_embeddings": 128}


def safetensors(seed, size_bytes):
    """A sound file with one tensor of random bytes."""
    header = {"w": {"dtype": "U8", "shape": [size_bytes], "data_offsets": [0, size_bytes]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + random.Random(seed).randbytes(size_bytes)


def model_files(*, size_bytes=150_000):
    """Two files of weights with their index, a large tokenizer, and what else lies about."""
    names = [f"model-{number}-of-2.safetensors" for number in (1, 2)]
    index = {"metadata": {}, "weight_map": {"w": names[0], "v": names[1]}}
    return {
        ".gitattributes": b"*.safetensors filter=lfs\n",
        "README.md": b"# Tiny\n",
        "config.json": json.dumps(CONFIG).encode(),
        "tokenizer.json": json.dumps({"pad": "x" * 20_000}).encode(),
        "model.safetensors.index.json": json.dumps(index).encode(),
        names[0]: safetensors(1, size_bytes),
        names[1]: safetensors(2, size_bytes),
        "pytorch_model.bin": b"\x80\x04pickle",
        "modeling_tiny.py": b"raise SystemExit('run')",
        "original/model.safetensors": safetensors(3, 1_000),
    }


NEEDED = {
    "README.md",
    "config.json",
    "tokenizer.json",
    "model.safetensors.index.json",
    "model-1-of-2.safetensors",
    "model-2-of-2.safetensors",
}


@contextmanager
def loopback_session():
    """The hub's client, without proxies and tokens of this machine; its connections end here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1,localhost")
        patch.delenv("HF_HUB_OFFLINE", raising=False)
        patch.setenv("HF_TOKEN", TOKEN)
        close_session()
        yield
        close_session()


class Client:
    """Fetches from a server into folders of a test's own."""

    def __init__(self, server, folder, *, name=NAME):
        self.server = server
        self.cache, self.home = folder / "cache", folder / "home"
        self.hub = Hub(endpoint=server.endpoint, token=None)
        self.hub.wait_seconds = 0.0
        self.name = name

    def describe(self):
        return self.hub.describe(self.name)

    def fetch(self, **changes):
        settings = {"hub": self.hub, "cache": self.cache, "home": self.home}
        return fetch(self.describe(), **settings | {"wait_seconds": 0.0} | changes)

    @property
    def folder(self):
        """The repository's, in the cache."""
        return self.cache / f"models--{self.name.replace('/', '--')}"

    @property
    def snapshot(self):
        return self.folder / "snapshots" / self.server.commit(self.name)

    def left_bytes(self):
        """The bytes that are still to come."""
        files, blobs = self.server.repositories[self.name], self.folder / "blobs"
        came = sum(path.stat().st_size for path in blobs.glob("*"))
        return sum(len(files[name]) for name in NEEDED) - came

    def is_right(self, path=None):
        """Whether the snapshot has all that is needed, byte for byte, and nothing else."""
        files = self.server.repositories[self.name]
        found = {one.name: one.read_bytes() for one in (path or self.snapshot).iterdir()}
        return found == {name: files[name] for name in NEEDED}
