"""DSpark in its packagings against mlx-dspark; gated and recurrent Markov heads, which it does not
have, against those of speculators, in PyTorch."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.core as mx
import numpy as np

from tests.lab.parity import blocks
from tests.lab.parity.blocks import MASK, Context, Draft, drafted
from tests.lab.parity.by_torch import by_torch
from tests.lab.parity.eagle3 import over_target
from tests.lab.parity.subjects import Arrays, Subject, numbers, subjects

SUBJECTS = subjects("dspark")
PLAIN, GEMMA, SPECULATORS, SPECFORGE, LIQUID, LINEAGE, LIKE_QWEN35, GATED, RECURRENT = SUBJECTS
_BY_TORCH = [
    f"markov_head.{name}_proj.{kind}" for name in ("gate", "joint") for kind in ("weight", "bias")
]


def ours(subject: Subject) -> Arrays:
    """By our network."""
    return blocks.ours(subject)


def theirs(subject: Subject) -> Arrays:
    """By mlx-dspark, and by speculators what it does not have."""
    from mlx_dspark.load import load_drafter

    plain = replace(
        subject,
        shapes={name: each for name, each in subject.shapes.items() if name not in _BY_TORCH},
    )
    with TemporaryDirectory() as folder:
        model, _ = load_drafter(str(plain.write(Path(folder))), quantize=False)
    target = subject.target_model()
    if model.lm_head is None:
        model.bind_lm_head(target.lm_head)
    if model.embed_tokens is None:
        model.bind_embed(target.model.embed_tokens)

    def begin() -> tuple[Context, Draft]:
        cache = model.make_ctx_cache()

        def extend(states: mx.array, position: int) -> None:
            model.update_context(states[None], position, cache)

        def draft(anchor: int, position: int) -> Arrays:
            rows = mx.array([[anchor, *[MASK] * (model.block_size - 1)]])
            hidden = model.backbone(model.embed(rows), position, cache)
            hidden = model.head_slice(hidden, model.max_draft)
            base = model.compute_logits(hidden)[0]
            if plain.shapes.keys() != subject.shapes.keys():
                inputs = {
                    "base": numbers(base),
                    "states": numbers(hidden[0]),
                    "anchor": np.array(anchor),
                }
                made = by_torch("markov_torch.py", subject, inputs, packages="speculators")
                return made | {"tokens": made["tokens"].astype(np.int32)}
            tokens = model.sample_block(base, anchor)
            before = mx.concatenate([mx.array([anchor]), tokens[:-1]])
            logits = base + model.markov_head.step_bias(before)
            if subject.given:
                logits = mx.array(over_target(logits))
            sure = model.confidence_logits(hidden[0], before)
            return drafted([logits], [tokens], [] if sure is None else [mx.sigmoid(sure)])

        return extend, draft

    return blocks.walk(subject, begin)
