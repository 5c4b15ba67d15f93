"""The target's own first layers draft, with its own caches (arXiv 2404.16710).

Needs no weights, no memory and no prefill of its own: the caches of the first layers are the
target's. Its acceptance rate depends on how early the target's layers settle on a token.
"""

import copy
from collections.abc import Sequence

import mlx.core as mx
import mlx.nn as nn

from engine.core.decoder import Decoder
from engine.core.sights import lowered
from engine.draft_length import LONGEST, DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter, DrafterRefused
from engine.drafters.chain import DraftRequest, draft_chain
from engine.drafters.rows import Rows
from engine.request import Sampling


class EarlyExitDrafter(Drafter):
    """Drafts with the first `layers` layers of `target` and its output layer."""

    name = "early-exit"

    def __init__(self, target: Decoder, *, layers: int) -> None:
        if target.group:
            raise DrafterRefused(
                "unsupported",
                "early-exit does not support a target on several Macs.",
                "Choose suffix, a head or a drafting model.",
            )
        depth = len(target.model.layers)
        if not 1 <= layers < depth:
            raise DrafterRefused(
                "unsupported",
                f"The target has {depth} layers: it cannot exit after {layers}.",
                f"Choose from 1 to {depth - 1}.",
            )
        self._target = target
        self._layers = layers
        self._model = first_layers(target.model, layers)
        try:
            self._model(mx.zeros((1, 1), dtype=mx.int32), cache=[None] * layers)
        except (IndexError, AttributeError, TypeError) as error:
            raise DrafterRefused(
                "unsupported",
                f"This target cannot run its first {layers} layers alone.",
                "Choose more layers, or another drafter.",
            ) from error

    def fork(self, target: Decoder) -> Drafter:
        return EarlyExitDrafter(target, layers=self._layers)

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        return (DraftCandidate(self.name, LONGEST),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        target, last = self._target, self._target.vocabulary - 1
        with target.timeline.borrow(self._layers) as caches, lowered(target.model, target.lower):
            return draft_chain(
                lambda inputs: self._model(mx.minimum(inputs, last)[None], cache=caches)[0],
                DraftRequest(tokens, choice, sampling, key, Rows(target.vocabulary), self.name),
                unread=tokens[target.length :],
            )


def first_layers(model: nn.Module, layers: int) -> nn.Module:
    """A model that shares all weights with `model` but ends after `layers` layers."""
    shallow = copy.copy(model)
    if "layers" in shallow:
        shallow.layers = shallow.layers[:layers]
        return shallow
    for name in ("model", "language_model", "backbone"):
        if name in shallow:
            setattr(shallow, name, first_layers(shallow[name], layers))
            return shallow
    message = "This target's layers are not in one list."
    raise DrafterRefused("unsupported", message, "Choose another drafter.")
