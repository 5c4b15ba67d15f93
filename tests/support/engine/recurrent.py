"""Tiny models of the other recurrent architectures of mlx-lm, beside those of `tiny`."""

from tests.support.engine import tiny

# Every one that keeps what a tape needs.
TAPED = tiny.configs("recurrent")


def build(architecture, **options):
    """Build as `tiny.build`."""
    return tiny.build(architecture, sizes=TAPED.get(architecture), **options)
