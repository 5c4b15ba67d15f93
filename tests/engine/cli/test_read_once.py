"""A load reads each model's folder once, however the pair is named.

Counted are our own opens of config.json and of the weights: one for the headers, and one more for
the samples of a fingerprint, or for the digest of a head. mlx-lm's own loaders open them besides.
"""

from collections import Counter
from pathlib import Path

import pytest

import engine.conversation.pair_costs
from engine.conversation.loading import load
from engine.drafters.head_network import save_head
from engine.process.protocol import Load, Loaded
from models.drafters import folders as drafter_folders
from models.model_folder import ModelFolder
from tests.support.engine import tiny
from tests.support.engine.heads import untrained
from tests.support.engine.hosted import hosted
from tests.support.models.tiny_store import cached

NAMES = ("org/target", "org/drafter")
_SEEDS = {"target": 0, "drafter": 1}


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A target and a drafter in a hub's cache, and nothing else anywhere. Nothing is measured."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(drafter_folders, "_SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr("models.installed.store._SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(engine.conversation.pair_costs, "calibrate", lambda *_, **__: None)
    found = {}
    for name, seed in _SEEDS.items():
        tiny.write_folder("llama", tmp_path / name, seed=seed)
        files = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        found[name] = cached(tmp_path / "hub", f"org/{name}", files, revision=name[0] * 40)
    return found


@pytest.fixture
def opened(monkeypatch, folders):
    """How often each model's config and weights were opened."""
    counts = Counter()
    names = {folder: name for name, folder in folders.items()}
    original = Path.open

    def count(path, *arguments, **options):
        if path.suffix == ".safetensors" or path.name == "config.json":
            kind = "config" if path.name == "config.json" else "weights"
            counts[f"{names.get(path.parent, path.parent.name)}'s {kind}"] += 1
        return original(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", count)
        yield counts


# A config is read once, and its first bytes are looked at before mlx-lm reads it.
ONCE = {"target's config": 2, "target's weights": 1}
KNOWN = {"target's config": 2, "target's weights": 2}
BOTH = KNOWN | {"drafter's config": 2, "drafter's weights": 2}
# `auto` looks once at every model here, as it may be a drafter that was trained for the target.
LISTED = {
    "target's config": 3,
    "target's weights": 3,
    "drafter's config": 1,
    "drafter's weights": 1,
}


@pytest.mark.parametrize(
    ("drafter", "expected", "named"),
    [
        ("none", ONCE, "by folder"),
        ("lookup", KNOWN, "by name"),
        ("auto", LISTED, "by name"),
        ("auto", LISTED, "by folder"),
        ("model", BOTH, "by name"),
        ("head", LISTED | {"head's config": 2, "head's weights": 3}, "by name"),
    ],
)
def test_a_load_reads_each_folder_once(drafter, expected, named, folders, opened, tmp_path):
    target, other = map(str, folders.values()) if named == "by folder" else NAMES
    if drafter == "head":  # which is found as that of its target
        folder = ModelFolder(folders["target"])
        head, place = untrained(load(folder).model), tmp_path / "home" / "drafters" / "head"
        save_head(head, place, target="target", fingerprint=folder.fingerprint)
        opened.clear()
    asked = {"model": other, "head": "auto"}.get(drafter, drafter)
    *_, loaded = hosted([Load("1", target, asked)])
    assert isinstance(loaded, Loaded)
    assert opened == expected
