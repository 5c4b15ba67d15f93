"""A smaller model of the same family drafts (arXiv 2211.17192), token by token or in one pass.

A PARD model (arXiv 2504.18583), taught to draft in one pass, reads mask tokens after the
committed ones, and gives at each mask the token that comes one further. So a draft of any length
costs one pass, and each token is drawn without knowledge of the drafted ones before it: its
distribution is given the committed tokens alone.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import zip_longest

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.draft_length import LONGEST, DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.drafters.chain import DraftRequest, draft_chain
from engine.drafters.rows import Rows
from engine.request import Sampling


@dataclass(frozen=True, slots=True)
class Abridged:
    """The part of a text that a drafting model reads: all but pictures, which only the target sees.

    `gaps`: ranges of token numbers that it does not read: ascending, apart, and not empty.
    """

    gaps: tuple[range, ...] = ()

    def of(self, tokens: list[int]) -> list[int]:
        """Return the part of these committed tokens that is read."""
        read: list[int] = []
        place = 0
        for gap in self.gaps:
            read += tokens[place : gap.start]
            place = gap.stop
        return read + tokens[place:]

    def ends_in_gap(self, tokens: list[int]) -> bool:
        """Whether the last token is not read, so that no draft can begin after it."""
        return any(len(tokens) - 1 in gap for gap in self.gaps)

    def length(self, length: int) -> int:
        """Return how many of the first `length` tokens of a text are read."""
        return length - sum(len(range(gap.start, min(gap.stop, length))) for gap in self.gaps)

    def changed(self, gaps: Sequence[range], *, rewind: Callable[[int], None]) -> "Abridged":
        """Return the text with other gaps. Tokens before the first difference of the gaps stay
        read; `rewind` takes back the rest."""
        pairs = zip_longest(self.gaps, gaps)
        differing = next((pair for pair in pairs if pair[0] != pair[1]), None)
        if differing is None:
            return self
        rewind(min(gap.start for gap in differing if gap is not None))
        return Abridged(tuple(gaps))


class ModelDrafter(Drafter):
    """Drafts with a model of its own. `vocabulary` is how many logits the target gives."""

    name = "model"

    def __init__(self, decoder: Decoder, *, vocabulary: int) -> None:
        self._decoder = decoder
        self._vocabulary = vocabulary
        self._abridged = Abridged()
        self._committed = 0  # how many tokens of it were committed when it last proposed

    def fork(self, target: Decoder) -> Drafter:
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
        choice, rows = choice.within(room + 1), Rows(self._vocabulary)  # the last one is not read
        asked = DraftRequest(tokens, choice, sampling, key, rows, self.name)
        return draft_chain(self._decoder.read, asked, unread=own[self._decoder.length :])

    def accept(self, path: Sequence[int]) -> None:
        self._decoder.rewind(self._committed + len(path))

    def rewind(self, length: int) -> None:
        self._decoder.rewind(self._abridged.length(length))


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
        asked = DraftRequest(tokens, choice, sampling, key, Rows(self._vocabulary), self.name)
        draft = draft_chain(lambda latest: next(slots), asked, unread=tokens[-1:])
        self._decoder.rewind(len(own))  # the masks are not part of the text
        return draft

    def accept(self, path: Sequence[int]) -> None:
        self._decoder.rewind(self._committed)
