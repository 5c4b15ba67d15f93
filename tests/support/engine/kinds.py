"""Every kind of drafter with a network of its own: untrained, with tiny targets for it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.nn as nn

from engine.core.decoder import Decoder
from engine.drafters import Drafter
from engine.drafters.model import ParallelDrafter
from tests.support.engine import gemma4, mtp
from tests.support.engine.blocks import BLOCK_KINDS, block_drafter
from tests.support.engine.eagles import KINDS as EAGLES
from tests.support.engine.eagles import eagle_drafter
from tests.support.engine.heads import lively_drafter
from tests.support.engine.helpers import BLOCK
from tests.support.engine.medusas import untrained_medusa
from tests.support.engine.tiny import build, shallow

ANY = ("llama", "gemma3_text", "qwen3_5", "lfm2")
"""A target of each kind of cache: full, windows, recurrent and full, short convolutions."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of drafter.

    `drafter(target, architecture, seed)`: one seed gives the same weights again.
    `model(architecture, vocabulary)`: a target of one of the `architectures`. `reads_states`:
    whether it reads the target's hidden states.
    """

    name: str
    drafter: Callable[[Decoder, str, int], Drafter]
    model: Callable[[str, int], nn.Module] = lambda name, vocabulary: shallow(
        name, vocabulary=vocabulary
    )
    architectures: tuple[str, ...] = ANY
    reads_states: bool = True

    def pair(self, architecture, *, vocabulary=24, seed=0):
        """A target that has read nothing, and its drafter."""
        target = Decoder(self.model(architecture, vocabulary), block=BLOCK)
        return target, self.drafter(target, architecture, seed)

    def is_exact(self, architecture):
        """Whether several rows are read exactly as one by one; by DeepSeek's attention not."""
        return "kv_lora_rank" not in mtp.TARGETS.get(architecture, {})


def _block(kind, target, _, seed):
    return block_drafter(target, kind, seed=seed)


def _eagle(kind, target, _, seed):
    with TemporaryDirectory() as folder:
        return eagle_drafter(kind, target, Path(folder), seed=seed)


def _pard(target, _, seed):
    vocabulary = target.vocabulary
    model = build("llama", seed=seed + 1, layers=2, vocabulary=vocabulary)
    return ParallelDrafter(Decoder(model), vocabulary=vocabulary, mask=vocabulary - 1)


KINDS = [
    Kind("head", lambda target, _, seed: lively_drafter(target, seed=seed + 5)),
    *(Kind(name, partial(_eagle, name)) for name in EAGLES),
    *(Kind(name, partial(_block, name)) for name in BLOCK_KINDS),
    Kind("Medusa", lambda target, _, seed: untrained_medusa(target, seed=seed + 7)),
    Kind("PARD", _pard, architectures=("llama", "gemma3_text"), reads_states=False),
    Kind(
        "MTP",
        lambda target, _, seed: mtp.mtp_drafter(target, seed=seed),
        lambda name, vocabulary: mtp.build_target(name, vocabulary=vocabulary),
        tuple(mtp.TARGETS),
    ),
    Kind(
        "Gemma-4 assistant",
        lambda target, name, seed: gemma4.assistant_drafter(target, name, seed=seed),
        lambda name, vocabulary: gemma4.build_target(name, vocabulary=vocabulary),
        ("large", "small"),
    ),
]
