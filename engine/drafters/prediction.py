"""Copies a text that the answer is expected to resemble: the prediction that a client sent.

It proposes from the text's beginning, then the tokens after the longest match of the answer's end
in it. The model never reads the text: a wrong one costs rejected drafts, and changes nothing.
"""

from collections.abc import Sequence

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.draft_length import DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.drafters.lookup import SLOTS, copied
from engine.places import LONGEST_MATCH, Places
from engine.request import Sampling


class PredictionDrafter(Drafter):
    """Proposes from `prediction`, token ids, once the prompt's `start` tokens are there."""

    name = "prediction"

    def __init__(self, prediction: list[int], *, start: int) -> None:
        self._prediction, self._start = prediction, start
        self._places = Places(slots=SLOTS)
        self._places.extend(prediction)

    def beside(self, target: Decoder) -> Drafter:
        return PredictionDrafter(self._prediction, start=self._start)

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        place, matched = self._place(tokens)
        left = len(self._prediction) - place
        return (DraftCandidate(self.name, left, matched),) if matched and left else ()

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        place, matched = self._place(tokens)
        text = self._prediction[place : place + choice.length]
        return copied(text, drafter=self.name, matched=matched) if matched and text else None

    def _place(self, tokens: list[int]) -> tuple[int, int]:
        """Return where the prediction goes on, and how many tokens before that match, 0 if none."""
        answer = tokens[self._start :][-LONGEST_MATCH:]
        if not answer:
            return 0, LONGEST_MATCH
        found = self._places.find(answer)
        return max(found, key=lambda each: each[1], default=(0, 0))
