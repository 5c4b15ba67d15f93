"""The drafter that comes along: its folder is whole, and its card says what it is."""

from pathlib import Path

import mlx.core as mx

from engine.drafters.head_network import load_head
from models.drafters.folders import describe_drafter, find_head

FOLDER = Path(__file__).parents[2] / "resources" / "drafters" / "smollm2-135m"


def test_it_is_small_and_whole_and_its_card_says_what_it_is(tmp_path):
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 16_000_000
    described = describe_drafter(FOLDER)
    fingerprint = described.description.demands.fingerprint or ""
    bound = load_head(described, fingerprint=fingerprint, vocabulary=49152, like=mx.float32)
    assert bound.shape.hidden_size == 576
    assert find_head(fingerprint, home=tmp_path) == described
    card = (FOLDER / "README.md").read_text()
    for word in ("Apache-2.0", "slipstream distil", "GSM8K", "HumanEval", "MT-Bench"):
        assert word in card
