"""The tiny pair, on the CPU, that the benchmark's own tests use."""

from tests.engine.bench.conftest import options, surroundings

__all__ = ["options", "surroundings"]
