"""A small model that was taught to draft several tokens in one pass (PARD, arXiv 2504.18583).

After the committed tokens it reads mask tokens, and gives at each mask the token that comes one
further. So a draft of any length costs one pass, and each token is drawn without knowledge of the
drafted ones before it: its distribution is given the committed tokens alone.
"""

from collections.abc import Sequence

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.draft_length import DraftChoice
from engine.drafters import DraftArrays
from engine.drafters.chain import draft_chain
from engine.drafters.model import ModelDrafter
from engine.drafters.rows import Rows
from engine.request import Sampling


class ParallelDrafter(ModelDrafter):
    """Drafts with a PARD model. `mask`: the id of its mask token."""

    name = "PARD"

    def __init__(self, decoder: Decoder, *, vocabulary: int, mask: int) -> None:
        super().__init__(decoder, vocabulary=vocabulary)
        self._mask = mask

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        if self._abridged.ends_in_gap(tokens):
            return None
        own = self._abridged.of(tokens)
        self._decoder.rewind(len(own) - 1)  # the pass that drafts reads the last one at least
        room = self._decoder.begin_round(own)
        self._committed = len(own)
        unread = own[self._decoder.length :]
        choice = choice.within(room + 1)
        masks = [self._mask] * (choice.length - 1)
        block = self._decoder.read(mx.array([*unread, *masks]))[-choice.length :]
        slots = iter(block[:, None])
        draft = draft_chain(
            lambda latest: next(slots),
            unread=tokens[-1:],
            tokens=tokens,
            choice=choice,
            rows=Rows(self._vocabulary),
            sampling=sampling,
            key=key,
            drafter=self.name,
        )
        self._decoder.rewind(len(own))  # the masks are no part of the text
        return draft

    def accept(self, path: Sequence[int]) -> None:
        self._decoder.rewind(self._committed)
