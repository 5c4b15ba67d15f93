"""An engine's process imports what it needs to answer, and transformers lists its models once."""

import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers.utils import import_utils

from engine.quick_transformers import quicken

ROOT = Path(__file__).parents[2]
MODELS = Path(import_utils.__file__).parents[1] / "models"
READS_FILES = import_utils.create_import_structure_from_path.__wrapped__
NOT_YET = (
    "app", "engine.cli", "engine.server", "engine.documents", "engine.tools", "engine.distil",
    "torch", "rich", "typer", "mcp", "uvicorn", "starlette", "openpyxl", "mammoth", "pypdfium2",
    "PySide6", "transformers.models.auto.modeling_auto", "transformers.generation.utils",
)  # fmt: skip


def test_an_engine_begins_without_what_no_answer_needs():
    program = "import engine.process.host, sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    loaded = set(done.stdout.splitlines())
    assert {"engine.process.host", "mlx_lm"} <= loaded
    assert loaded & {*NOT_YET} == set()


@pytest.fixture
def quick(monkeypatch):
    """transformers' own functions, made quick once more."""
    own = SimpleNamespace(
        fetch__all__=getattr(import_utils.fetch__all__, "__wrapped__", import_utils.fetch__all__),
        create_import_structure_from_path=lru_cache(READS_FILES),
    )
    quicken(own)
    return own


WRITTEN = (
    "",
    "x = 1\n",
    "# no __all__ here\n",
    '__all__ = ["A", "B"]\n',
    'x = 1\n__all__ = ["A"]\n',
    'x = 1\n__all__ = [\n    "A",\n    "B",\n]\ny = 2\n',
    '__all__ = ["A"]\nx = 1\n__all__ = [\n    "B",\n]\n',
    '    __all__ = ["A"]\n',
    "x = __all__\n",
)


def test_the_names_of_a_file_are_those_that_transformers_finds(quick):
    written = [*WRITTEN, *(path.read_text("utf-8") for path in MODELS.glob("llama/*.py"))]
    assert quick.fetch__all__ is not quick.fetch__all__.__wrapped__
    for text in written:
        assert quick.fetch__all__(text) == quick.fetch__all__.__wrapped__(text), text[:80]


def test_each_folder_is_read_once():
    """In this process, where transformers was imported after the engine."""
    read = import_utils.create_import_structure_from_path
    assert read.cache_info().maxsize is None
    known = read.cache_info().misses
    assert known > 400
    read(str(MODELS / "llama"))
    assert read.cache_info().misses == known


def test_another_release_is_left_as_it_is():
    for functions in ({}, {"fetch__all__": len}, {"create_import_structure_from_path": len}):
        module = SimpleNamespace(**functions)
        quicken(module)
        assert vars(module) == functions
