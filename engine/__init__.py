"""Lossless speculative decoding. No Qt; `engine.core.loop` is the heart. See README.md."""

import sys
from importlib import import_module
from pathlib import Path

from engine.conversation.quick_transformers import Finder
from engine.cpu.blas import choose_blas

# Other projects have a package named models, too, and PYTHONPATH may lead to one.
sys.path.insert(0, str(Path(__file__).parents[1]))
import_module("models")
del sys.path[0]
# Symbols are bound when MLX is first imported, so this comes before any module that does.
choose_blas()
sys.meta_path.insert(0, Finder())
