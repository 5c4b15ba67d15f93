"""Lossless speculative decoding. No Qt; `engine.core.loop` is the heart. See README.md."""

from engine.cpu.blas import choose_blas
from engine.quick_transformers import hasten

# Symbols are bound when MLX is first imported, so this comes before any module that does.
choose_blas()
hasten()
