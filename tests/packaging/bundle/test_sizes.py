"""The bytes of a bundle, and of the starter in it."""

from bundle.assemble import PACKAGES, STARTER_WEIGHTS, size_bytes, starter_bytes
from configuration import read_configuration

PRUNE = read_configuration().prune


def _write(path, size):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    return size


def test_the_starter_is_weights_and_a_head(tmp_path):
    packages = tmp_path / PACKAGES
    own = _write(packages / "engine" / "a.py", 3)
    weights = _write(tmp_path / STARTER_WEIGHTS / "a.safetensors", 5)
    head = _write(packages / "resources" / "drafters" / "smollm2-135m" / "head.safetensors", 8)
    others = _write(tmp_path / "Contents/MacOS/Slipstream", 7)
    assert starter_bytes(tmp_path, PRUNE) == weights + head
    assert size_bytes(tmp_path) == own + weights + head + others


def test_no_starter_takes_nothing(tmp_path):
    _write(tmp_path / PACKAGES / "resources" / "drafters" / "another" / "head.safetensors", 8)
    assert starter_bytes(tmp_path, PRUNE) == 0
