"""Gemma-4 assistants: their network, what they read of the target, whose text stays its own."""

from engine.core.decoder import Decoder
from engine.drafters.gemma_assistant import load_gemma_assistant
from models.drafters.folders import describe_drafter
from tests.support.engine.gemma4 import build_target, drafter_by, untrained
from tests.support.engine.helpers import BLOCK, assert_same_draft, drafted
from tests.support.engine.parity.drafters import DRAFTERS
from tests.support.engine.parity.subjects import seeded

WHOLE = DRAFTERS["gemma-4-assistant"]
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]


# The network


# Drafting


def test_all_that_the_target_has_not_read_is_read():
    """From one position: then the drafted tokens are what it would draft behind the first."""
    model, assistant = build_target("large"), untrained("large")
    target = Decoder(model, block=BLOCK)
    drafter = drafter_by(assistant, target)
    list(target.prefill(TOKENS))
    guess, likely = drafted(drafter, TOKENS)
    further = drafted(drafter, [*TOKENS, *guess[:2]], length=2)
    assert_same_draft(further, (guess[2:], likely[2:]))


def test_a_target_may_be_part_of_a_model_that_sees(tmp_path):
    sizes = {
        "model_type": "gemma4",
        "vocab_size": 64,
        "text_config": dict(WHOLE.target),
    }
    target = Decoder(seeded(sizes))
    folder = WHOLE.write(tmp_path)
    drafter = load_gemma_assistant(describe_drafter(folder), target)
    assert drafter._network.caches == {"sliding_attention": 4, "full_attention": 5}
    list(target.prefill(TOKENS))
    assert len(drafted(drafter, TOKENS)[0]) == 4
