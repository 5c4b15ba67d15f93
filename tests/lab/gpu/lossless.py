"""Greedy texts by drafts of many kinds against plain ones, on the device as it rounds.

Knows the engine's loop and its drafters; `near_ties` knows what may differ.
"""

from dataclasses import asdict
from functools import cache, partial

from engine.core.batch import can_share
from engine.core.decoder import Decoder
from engine.draft_length.policy import Automatic, Fixed, FixedTree
from engine.drafters.cascade import Cascade
from engine.drafters.copying import SuffixDrafter
from engine.drafters.early_exit import EarlyExitDrafter, first_layers
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.model import ModelDrafter
from tests.support.engine.heads import untrained_drafter
from tests.support.engine.helpers import now_and_then, task, write
from tests.support.engine.plain_texts import PlainTexts
from tests.support.engine.trees import Guessing

ROWS = (2, 5, 9, 17, 25)


class Target:
    """A model, of which every text is written by a decoder of its own. `texts`: the plain ones.
    `promise`: how exact its passes are."""

    def __init__(self, model, *, drafting):
        self.model, self._drafting = model, drafting
        self.promise = None  # of the device, where there is none
        self._trial = cache(partial(can_share, model))
        self._shallow = first_layers(model, drafting)
        self.texts = PlainTexts(self.decoder, rows=ROWS)

    def decoder(self):
        decoder = Decoder(self.model, trial=self._trial)
        decoder.promise = self.promise or decoder.promise
        return decoder

    @property
    def branches(self):
        return self._trial()

    def model_drafter(self, target):
        return ModelDrafter(Decoder(self._shallow), vocabulary=target.vocabulary)

    def drafters(self, script):
        """By name; `known` knows two thirds of `script`, also in trees."""
        guessing = partial(Guessing, script, wrong=now_and_then(5))
        return {
            "known": lambda target: guessing(vocabulary=target.vocabulary),
            "model": self.model_drafter,
            "suffix": lambda _: SuffixDrafter(),
            "early-exit": lambda target: EarlyExitDrafter(target, layers=self._drafting),
            "head": untrained_drafter,
            "lookahead": lambda _: LookaheadDrafter(),
            "suffix+model": lambda target: Cascade(SuffixDrafter(), self.model_drafter(target)),
        }


POLICIES = {
    "4": partial(Fixed, 4),
    "tree:8": partial(FixedTree, 8),
    "16": partial(Fixed, 16),
    "auto": Automatic,
    "tree:24": partial(FixedTree, 24),
    "1": partial(Fixed, 1),
}


def matrix(target, prompt, *, count):
    """First what plain decoding is, then one case for each drafter and policy."""
    texts = target.texts
    plain = texts.plain(prompt, count)
    roundings = texts.roundings(prompt, plain.text)
    yield {
        "case": "plain",
        "distinct": len(set(plain.text)),
        "unrepeated": plain.unrepeated,
        "exact ties": sum(margin == 0.0 for margin in plain.margins),
        "reads trees": target.branches,
        "roundings": [asdict(each) for each in roundings],
    }
    script = [*prompt, *plain.text]
    for length, policy in POLICIES.items():
        for name, make in target.drafters(script).items():
            decoder, case = target.decoder(), {"case": name, "length": length}
            try:
                run = write(decoder, make(decoder), policy(), list(prompt), task(count))
                forks = list(texts.forks(prompt, run.tokens, roundings))
            except Exception as error:  # what a device cannot do is a result, too
                yield case | {"fault": f"{type(error).__name__}: {error}"[:500]}
            else:
                yield case | _figures(run, forks)


def _figures(run, forks):
    return {
        "tokens": len(run.tokens),
        "rounds": len(run.rounds),
        "proposed": run.proposed,
        "accepted": run.accepted,
        "trees": sum(bool(verdict.parents) for _, verdict in run.rounds),
        "near ties": sum(fork.near_tie for fork in forks),
        "different": sum(not fork.near_tie for fork in forks),
        "forks": [asdict(fork) for fork in forks],
    }
