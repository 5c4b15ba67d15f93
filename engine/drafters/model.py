"""A smaller model of the same family drafts (arXiv 2211.17192)."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.draft_length import LONGEST, DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.drafters.abridged import Abridged
from engine.drafters.chain import draft_chain
from engine.drafters.rows import Rows
from engine.request import Sampling


class ModelDrafter(Drafter):
    """Drafts with a model of its own. `vocabulary` is how many logits the target gives."""

    name = "model"

    def __init__(self, decoder: Decoder, *, vocabulary: int) -> None:
        self._decoder = decoder
        self._vocabulary = vocabulary
        self._abridged = Abridged()
        self._committed = 0  # how many tokens of it were committed when it last proposed

    def beside(self, target: Decoder) -> Drafter:
        other = copy(self)
        if target.length:
            other._decoder, _recorded = self._decoder.copy()
        else:
            other._decoder, other._abridged = self._decoder.another(), Abridged()
        return other

    def leave_out(self, skippable: Callable[[], Sequence[range]]) -> None:
        self._abridged = self._abridged.changed(skippable(), rewind=self.rewind)

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        yield from self._decoder.prefill(self._abridged.of(tokens))
        self._decoder.timeline.bookmark()

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        behind = max(len(self._abridged.of(tokens)) - self._decoder.length - 2, 0)
        return (DraftCandidate(self.name, LONGEST, behind=behind),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        if self._abridged.ends_in_gap(tokens):
            return None
        own = self._abridged.of(tokens)
        room = self._decoder.begin_round(own)
        self._committed = len(own)
        return draft_chain(
            self._decoder.read,
            unread=own[self._decoder.length :],
            tokens=tokens,
            choice=choice.within(room + 1),  # the last one is not read
            rows=Rows(self._vocabulary),
            sampling=sampling,
            key=key,
            drafter=self.name,
        )

    def accept(self, path: Sequence[int]) -> None:
        self._decoder.rewind(self._committed + len(path))

    def rewind(self, length: int) -> None:
        self._decoder.rewind(self._abridged.length(length))
