"""Random models of an 8B's shape: head dimension 128, full attention; and their greedy texts by
drafts of many kinds against plain ones, on the device as it rounds.

A greedy text is varied, as `tests.support.engine.tiny` makes it. Here the first layers settle it,
so that they can draft. `near_ties` knows what may differ.
"""

from dataclasses import asdict, dataclass
from functools import cache, partial

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map_with_path

from engine.core.batch import can_share
from engine.core.decoder import Decoder
from engine.draft_length.policy import Automatic, Fixed, FixedTree
from engine.drafters.cascade import Cascade
from engine.drafters.copying import SuffixDrafter
from engine.drafters.early_exit import EarlyExitDrafter, first_layers
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.model import ModelDrafter
from tests.support.engine import tiny
from tests.support.engine.heads import untrained_drafter
from tests.support.engine.helpers import now_and_then, task, write
from tests.support.engine.plain_texts import PlainTexts
from tests.support.engine.trees import Guessing

ROWS = (2, 5, 9, 17, 25)
_FADING = 0.03  # what the layers after the first ones add, of what they would
_GROUP_SIZE = 64
_LAST_IN_A_BLOCK = ("o_proj", "down_proj")


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a model is. `drafting`: how many of its first `layers` settle its text."""

    architecture: str
    layers: int
    drafting: int
    hidden: int = 4096
    feed_forward: int = 12288
    heads: int = 32
    key_heads: int = 8
    head_dim: int = 128
    vocabulary: int = 151936

    @property
    def config(self):
        return {
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "intermediate_size": self.feed_forward,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_heads,
            "head_dim": self.head_dim,
            "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1e6,
            "tie_word_embeddings": False,
        }


def make(shape, *, bits):
    """A model in bfloat16, or in so many bits, evaluated."""
    model = tiny.build(
        shape.architecture, sizes=shape.config, vocabulary=shape.vocabulary, dtype=mx.bfloat16
    )

    def fading(path, weight):
        parts = path.split(".")
        late = "layers" in parts and int(parts[parts.index("layers") + 1]) >= shape.drafting
        return weight * _FADING if late and any(n in parts for n in _LAST_IN_A_BLOCK) else weight

    model.update(tree_map_with_path(fading, model.parameters()))
    if bits is not None:
        nn.quantize(model, group_size=_GROUP_SIZE, bits=bits)
    mx.eval(model.parameters())
    mx.clear_cache()
    return model


def prompt(shape, *, seed, length=48):
    """Random ids, the second half as the first, so that there is something to copy."""
    ids = mx.random.randint(0, shape.vocabulary, (length // 2,), key=mx.random.key(seed))
    half = ids.tolist()  # type: ignore[assignment]
    return [*half, *half]


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
