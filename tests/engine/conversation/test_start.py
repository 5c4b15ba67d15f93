"""A command imports what it needs, and transformers lists its models once."""

import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

from transformers.utils import import_utils

from engine.conversation.quick_transformers import hasten

ROOT = Path(__file__).parents[3]
MODELS = Path(import_utils.__file__).parents[1] / "models"
WRITTEN = (
    "",
    "# no __all__ here\n",
    '__all__ = ["A", "B"]\n',
    'x = 1\n__all__ = [\n    "A",\n    "B",\n]\ny = 2\n',
    '__all__ = ["A"]\nx = 1\n__all__ = [\n    "B",\n]\n',
    '    __all__ = ["A"]\n',
    "x = __all__\n",
)


def test_a_command_begins_without_what_it_does_not_need():
    program = "import engine.cli.main, sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    loaded = set(done.stdout.splitlines())
    assert "typer" in loaded
    assert loaded & {"gguf", "mlx", "numpy", "psutil"} == set()


def test_the_names_of_a_file_are_those_that_transformers_finds_and_each_folder_is_read_once():
    """In this process, too, where transformers was imported after the engine."""
    own = import_utils.fetch__all__.__wrapped__
    quick = SimpleNamespace(fetch__all__=own, create_import_structure_from_path=lru_cache(len))
    hasten(quick)
    assert quick.fetch__all__ is not own
    for text in [*WRITTEN, *(path.read_text("utf-8") for path in MODELS.glob("llama/*.py"))]:
        assert quick.fetch__all__(text) == own(text), text[:80]
    known = import_utils.create_import_structure_from_path.cache_info()
    assert known.maxsize is None
    import_utils.create_import_structure_from_path(str(MODELS / "llama"))
    assert import_utils.create_import_structure_from_path.cache_info().misses == known.misses > 400
