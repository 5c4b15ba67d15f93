"""Lossless speculative decoding. No Qt; `engine.core.loop` is the heart. See README.md."""

import sys

from engine.conversation.quick_transformers import Finder
from engine.cpu.blas import choose_blas

# Symbols are bound when MLX is first imported, so this comes before any module that does.
choose_blas()
sys.meta_path.insert(0, Finder())
