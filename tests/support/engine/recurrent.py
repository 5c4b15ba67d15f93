"""Tiny models of the other recurrent architectures of mlx-lm, beside those of `tiny`."""

from tests.support.engine import tiny

# Every one that keeps what a tape needs.
TAPED = tiny.configs("recurrent")
# Their whole rounds are taken back: states made in ways of their own, or caches within caches.
NOT_TAPED = tiny.configs("recurrent, not taped")


def build(architecture, **options):
    """Build as `tiny.build`."""
    return tiny.build(architecture, sizes=(TAPED | NOT_TAPED).get(architecture), **options)
