"""Tiny models of the other recurrent architectures of mlx-lm, beside those of `tiny`."""

from unittest import mock

from tests.support.engine import tiny

# Every one that keeps what a tape needs.
TAPED = tiny.configs("recurrent")
# Their whole rounds are taken back: states made in ways of their own, or caches within caches.
NOT_TAPED = tiny.configs("recurrent, not taped")


def build(architecture, **options):
    """Build as `tiny.build`."""
    with mock.patch.dict(tiny._CONFIGS, TAPED | NOT_TAPED):
        return tiny.build(architecture, **options)
