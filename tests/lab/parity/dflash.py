"""DFlash and DFlash2 against mlx-vlm; with windows DFlash against dflash-mlx, and in the packaging
of speculators, whose rows share a window, against speculators, in PyTorch.

mlx-vlm's sliding layers are not compared: their ring of keys is out of order once single positions
were appended to it, and their masks count on the order.
"""

from importlib import import_module
from typing import Any

import mlx.core as mx
import numpy as np

from tests.lab.parity import blocks
from tests.lab.parity.blocks import MASK, Context, Draft, drafted
from tests.lab.parity.by_torch import by_torch
from tests.lab.parity.eagle3 import over_target
from tests.lab.parity.subjects import Arrays, Subject, numbers, subjects

PLAIN, CAUSAL, MIXED, TRANSFORMERS, SPECULATORS, SECOND = SUBJECTS = subjects("dflash")


def ours(subject: Subject) -> Arrays:
    """By our network."""
    return blocks.ours(subject)


def theirs(subject: Subject) -> Arrays:
    """By mlx-vlm, dflash-mlx or speculators."""
    if subject is SPECULATORS:
        return _by_speculators(subject)
    windows = subject.config.get("sliding_window") and subject is not TRANSFORMERS
    return _by_dflash_mlx(subject) if windows else _by_mlx_vlm(subject)


def _by_mlx_vlm(subject: Subject) -> Arrays:
    names = {SECOND.name: "dflash2", TRANSFORMERS.name: "muse_glimmer_assistant"}
    kind = names.get(subject.name, "qwen3_dflash")
    drafters = import_module(f"mlx_vlm.speculative.drafters.{kind}")
    Model, ModelConfig = drafters.Model, drafters.ModelConfig
    model = Model(ModelConfig.from_dict(dict(subject.config)))
    tensors = {name: mx.array(array) for name, array in subject.weights().items()}
    model.load_weights(list(model.sanitize(tensors).items()))
    target = subject.target_model()
    model.embed_tokens, model.lm_head = target.model.embed_tokens, target.lm_head

    def begin() -> tuple[Context, Draft]:
        cache, waiting = model.make_cache(), []

        def extend(states: mx.array, position: int) -> None:
            if waiting:  # it reads the context together with a block
                model._hidden(mx.array([[0]]), waiting.pop()[None], cache)
            waiting.append(states)

        def draft(anchor: int, position: int) -> Arrays:
            rows = [anchor, *[MASK] * (model.config.block_size - 1)]
            hidden = model._hidden(mx.array([rows]), waiting.pop()[None], cache)[:, 1:]
            logits = model._logits(hidden)
            if subject is not SECOND:
                return drafted([logits[0]], [mx.argmax(logits[0], axis=-1)], [])
            return _selected(model.candidate_selector, hidden, logits, anchor)

        return extend, draft

    return blocks.walk(subject, begin)


def _selected(selector: Any, hidden: mx.array, logits: mx.array, anchor: int) -> Arrays:
    """The scores of the candidates at each place, as the selector hands them to a sampler."""
    scored: list[mx.array] = []

    class Sampler:
        def sample_proposal(self, scores: mx.array) -> mx.array:
            scored.append(scores)
            return mx.argmax(scores, axis=-1)

    tokens = selector.select(hidden, logits, mx.array([anchor]), Sampler())[0]
    candidates = mx.argpartition(logits, -selector.top_k, axis=-1)[0, :, -selector.top_k :]
    impossible = mx.full(logits[0].shape, -mx.inf)
    scores = mx.put_along_axis(impossible, candidates, mx.concatenate(scored), axis=-1)
    return drafted([scores], [tokens], [])


def _by_dflash_mlx(subject: Subject) -> Arrays:
    from dflash_mlx.model import (
        DFlashDraftModel,
        DFlashDraftModelArgs,
        FullContextDraftKVCache,
    )

    model = DFlashDraftModel(DFlashDraftModelArgs.from_dict(dict(subject.config)))
    tensors = {
        name.removeprefix("model."): mx.array(array) for name, array in subject.weights().items()
    }
    model.load_weights(list(tensors.items()))
    target = subject.target_model()

    def begin() -> tuple[Context, Draft]:
        cache, waiting = [FullContextDraftKVCache() for _ in model.layers], []

        def read(ids: list[int], states: mx.array) -> mx.array:
            embedded = target.model.embed_tokens(mx.array([ids]))
            return model(noise_embedding=embedded, target_hidden=states[None], cache=cache)

        def extend(states: mx.array, position: int) -> None:
            if waiting:
                read([0], waiting.pop())
            waiting.append(states)

        def draft(anchor: int, position: int) -> Arrays:
            hidden = read([anchor, *[MASK] * 5], waiting.pop())[:, 1:]
            logits = target.lm_head(hidden)[0]
            return drafted([logits], [mx.argmax(logits, axis=-1)], [])

        return extend, draft

    return blocks.walk(subject, begin)


def _by_speculators(subject: Subject) -> Arrays:
    """Its training reads whole texts: what is behind the anchor is not seen."""
    target = subject.target_model()

    def begin() -> tuple[Context, Draft]:
        read: list[mx.array] = []

        def extend(states: mx.array, position: int) -> None:
            read.append(states)

        def draft(anchor: int, position: int) -> Arrays:
            inputs = {
                "states": numbers(mx.concatenate(read)),
                "anchor": np.array(anchor),
                "embedding": numbers(target.model.embed_tokens.weight),
            }
            made = by_torch("dflash_torch.py", subject, inputs, packages="speculators")
            logits = over_target(mx.array(made["logits"]))
            return {"logits": logits, "tokens": logits.argmax(axis=-1).astype(np.int32)}

        return extend, draft

    return blocks.walk(subject, begin)
