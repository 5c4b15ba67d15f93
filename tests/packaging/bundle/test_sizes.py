"""What a bundle's parts take: every byte counted once, and as part of what it came with."""

from pathlib import Path

from bundle.assemble import PACKAGES, STARTER_WEIGHTS
from bundle.sizes import part_sizes, size_bytes, starter_bytes
from configuration import read_configuration

PRUNE = read_configuration().prune
INFO = "tiny_wheel-1.2.dist-info"


def _write(path: Path, size: int) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    return size


def test_every_byte_has_a_part(tmp_path: Path):
    packages = tmp_path / PACKAGES
    wheel = _write(packages / "tiny" / "a.py", 10)
    wheel += _write(packages / "tiny" / "__pycache__" / "a.cpython-313.pyc", 20)
    record = packages / INFO / "RECORD"
    record.parent.mkdir()
    wheel += record.write_text(f"tiny/a.py,,\n{INFO}/RECORD,,\n")
    own = _write(packages / "engine" / "a.py", 3)
    own += _write(packages / "engine" / "__pycache__" / "a.cpython-313.pyc", 4)
    weights = _write(tmp_path / STARTER_WEIGHTS / "a.safetensors", 5)
    head = _write(packages / "resources" / "drafters" / "smollm2-135m" / "head.safetensors", 8)
    python = _write(tmp_path / "Contents/Resources/python/lib/python3.13/os.py", 6)
    others = _write(tmp_path / "Contents/MacOS/Slipstream", 7)
    assert part_sizes(tmp_path, PRUNE) == {
        "tiny_wheel": wheel,
        "the starter's head": head,
        "slipstream": own,
        "launchers, icon, licences and seal": others,
        "python": python,
        "the starter's weights": weights,
    }
    assert starter_bytes(tmp_path, PRUNE) == weights + head
    assert size_bytes(tmp_path) == wheel + own + weights + head + python + others


def test_the_largest_part_comes_first(tmp_path: Path):
    _write(tmp_path / PACKAGES / "engine" / "a.py", 1)
    _write(tmp_path / "Contents/MacOS/Slipstream", 2)
    assert list(part_sizes(tmp_path, PRUNE).values()) == [2, 1]


def test_no_starter_takes_nothing(tmp_path: Path):
    _write(tmp_path / PACKAGES / "resources" / "drafters" / "another" / "head.safetensors", 8)
    assert starter_bytes(tmp_path, PRUNE) == 0
