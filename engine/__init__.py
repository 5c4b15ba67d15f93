"""Lossless speculative decoding. No Qt, no network; `engine.speculate` is the heart."""

from engine.blas import choose_blas

# Symbols are bound when MLX is first imported, so this comes before any module that does.
choose_blas()
