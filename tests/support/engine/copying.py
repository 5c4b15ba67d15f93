"""A drafter that copies, rightly or wrongly, as a part of drafts of several."""

from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx

from engine.draft_length import DraftCandidate, DraftChoice
from engine.drafters import DraftArrays
from engine.request import Sampling
from tests.support.engine.helpers import Known


class Copying(Known):
    """As `Known`, but says that so many tokens matched before what it proposes."""

    name = "copy"
    match = 8

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        left = len(self._script) - len(tokens)
        if left <= 0 or len(tokens) in self._silent:
            return ()
        return (DraftCandidate(self.name, left, self.match),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        made = super().propose(tokens, choice, sampling, key)
        return made and replace(made, match=self.match, copied=tuple(made.tokens.tolist()))
