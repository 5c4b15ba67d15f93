"""Greedy texts of tiny random models of the five families, with drafts against plain ones."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from engine.conversation.template import encode_prompt, with_thinking
from engine.core.decoder import Decoder
from engine.drafters import Drafter
from engine.drafters.cascade import Cascade
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from tests.lab.five_families.families import Family, asked_of, vocabulary_of
from tests.support.engine.gemma4 import TARGETS
from tests.support.engine.helpers import decoder, plainly, run_greedily
from tests.support.engine.tiny import build, noisy

LENGTHS = (3, 8)
COUNT = 40


def compare(family: Family, tokenizer: Any) -> str:
    """A line on 3 drafters with 2 lengths, behind the prompts of a second turn and of a result."""
    vocabulary = vocabulary_of(tokenizer)
    model = _model(family, vocabulary)
    other = noisy(model)

    def by_model(target: Decoder) -> ModelDrafter:
        return ModelDrafter(decoder(other), vocabulary=target.vocabulary)

    drafters: dict[str, Callable[[Decoder], Drafter]] = {
        "lookup": lambda _: LookupDrafter(),
        "model": by_model,
        "both": lambda target: Cascade(LookupDrafter(), by_model(target)),
    }
    runs = wrong = proposed = accepted = 0
    for prompt in asked_of(family)[1::2]:
        tokens = encode_prompt(tokenizer, with_thinking(tokenizer, prompt, "on"))
        plain = plainly(model, count=COUNT, prompt=tokens)
        for make in drafters.values():
            for length in LENGTHS:
                run = run_greedily(model, make, length, count=COUNT, prompt=tokens)
                runs, wrong = runs + 1, wrong + (run.tokens != plain)
                proposed, accepted = proposed + run.proposed, accepted + run.accepted
    return (
        f"{runs} greedy texts of {COUNT} tokens, {proposed} drafted, {accepted} accepted, "
        f"{wrong} {'differs' if wrong == 1 else 'differ'} from plain"
    )


def _model(family: Family, vocabulary: int) -> Any:
    match family.name:
        case "Gemma-4":
            sizes = TARGETS["large"] | {"vocab_size_per_layer_input": vocabulary}
            return build("gemma4_text", vocabulary=vocabulary, sizes=sizes, dtype=mx.float32)
        case "Qwen3":
            return build("qwen3", vocabulary=vocabulary)
        case "LFM2":
            return build("lfm2", vocabulary=vocabulary)
        case _:
            return build("llama", vocabulary=vocabulary)
