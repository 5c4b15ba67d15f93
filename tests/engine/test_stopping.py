"""Drafts that end where the drafter is unsure still write the target's distribution, and why the
token that made them end must be proposed."""

from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx
import pytest

from engine.core.accept import AcceptanceRule, by_block, by_token
from engine.draft_length import DraftCandidate, DraftChoice
from engine.draft_length.policy import Fixed
from engine.drafters import DraftArrays
from engine.drafters.model import ModelDrafter
from engine.request import Sampling
from tests.support.engine.chi_square import excess
from tests.support.engine.drawn_texts import (
    DRAFTING,
    TABLE,
    VOCABULARY,
    WARM,
    long_text,
    model_drafter,
)
from tests.support.engine.markov import decoder, exact
from tests.support.mostly_slow import mostly_slow


class Unsure(Fixed):
    """Stops inside a draft where it is unlikely to stand."""

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int, beside: int = 0
    ) -> DraftChoice:
        return replace(super().choose(candidates, most=most, context=context), floor=0.4)


class Dropping(ModelDrafter):
    """Keeps back the token that it stopped at, as if it had not been drawn."""

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        whole = super().propose(tokens, choice, sampling, key)
        if whole is None or whole.tokens.size == choice.length:
            return whole
        if whole.tokens.size == 1:
            return None
        assert whole.distributions is not None
        kept = (whole.tokens[:-1], whole.q[:-1], whole.distributions[:-1])
        return DraftArrays(*kept, self.name)


@pytest.mark.parametrize("rule", mostly_slow([by_token, by_block], quick=[by_block]))
def test_drafts_that_stop_where_they_are_unsure(rule: AcceptanceRule) -> None:
    drafter = model_drafter(DRAFTING["noisy"])

    counts, rulings = long_text(drafter, Unsure(4), WARM, length=1_000, accept=rule)

    assert excess(counts, exact(TABLE, WARM)) < 1.0
    assert len({len(verdict.p) for verdict in rulings}) >= 2


def test_dropping_the_token_that_it_stopped_at_is_refuted() -> None:
    # A drafter that is always right shows it best: what is likely comes even more often.
    cold = replace(WARM, temperature=0.5)
    drafter = Dropping(decoder(DRAFTING["self"]), vocabulary=VOCABULARY)

    counts, _ = long_text(drafter, Unsure(4), cold, length=1_200)

    assert excess(counts, exact(TABLE, cold)) > 1.5
