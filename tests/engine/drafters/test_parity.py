"""Our drafters' networks compute what other people's programs computed of the same weights.

What those programs gave is kept: see `tests.support.engine.parity.subjects`.
"""

from dataclasses import replace

import pytest
from mlx_lm.models.base import create_attention_mask

import engine.drafters.block
import engine.drafters.gemma_assistant
import engine.drafters.mtp
from engine.drafters.dflash import DFlash
from engine.drafters.eagle import Eagle3
from engine.drafters.gemma_assistant import Assistant
from engine.drafters.mtp import MtpNetwork
from tests.support.engine.blocks import shape_blocks
from tests.support.engine.parity.drafters import DRAFTERS, ours
from tests.support.engine.parity.subjects import TOLERANCE, difference, kept

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("name", DRAFTERS)
def test_it_computes_what_others_compute(name):
    assert difference(ours(DRAFTERS[name]), kept(DRAFTERS[name])) <= TOLERANCE


def wrong_norm(monkeypatch):
    class Swapped(DFlash):
        def __call__(self, *arguments):
            self.norm = self.hidden_norm
            return super().__call__(*arguments)

    monkeypatch.setattr(engine.drafters.block, "DFlash", Swapped)


def windows_move_from_row_to_row(monkeypatch):
    shape_blocks(monkeypatch, lambda shape: replace(shape, shared_windows=False))


def wrong_first_slot(patch):
    """Which halves acceptance, and shows nowhere else."""
    shape_blocks(patch, lambda shape: replace(shape, first_slot=0, block_size=shape.block_size - 1))


def norms_of_qwen_as_they_are_stored(patch):
    patch.setattr("engine.drafters.block.are_centred", lambda tensors: False)


def mixed_again(patch):
    """Its own state passes the final norm once more before it goes on."""
    patch.setattr(Eagle3, "go_on", lambda network, state: network.norm(state))


def no_window(patch):
    unlimited = create_attention_mask
    patch.setattr(
        "engine.drafters.eagle.create_attention_mask",
        lambda state, kept, **_: unlimited(state, kept),
    )


def norms_as_they_are_stored(patch):
    patch.setattr(engine.drafters.mtp, "_ZERO_CENTRED", ())


def continue_from_what_was_given(patch):
    def go_on(self, state):
        return self._module.norm(state)  # a norm too many

    patch.setattr(MtpNetwork, "go_on", go_on)


def positions_that_go_on(patch):
    call, steps = Assistant.__call__, iter(range(1000))

    def broken(self, state, embedded, memory, position):
        return call(self, state, embedded, memory, position + next(steps) % 4)

    patch.setattr(Assistant, "__call__", broken)


def more_than_the_window(patch):
    def broken(layer):
        end = layer.offset - layer.base
        return layer.keys[..., :end, :], layer.values[..., :end, :]

    patch.setattr(engine.drafters.gemma_assistant, "keys_and_values", broken)


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("mutant", "name"),
    [
        (wrong_norm, "dflash"),
        (windows_move_from_row_to_row, "dflash-speculators"),
        (wrong_first_slot, "dspark-speculators"),
        (norms_of_qwen_as_they_are_stored, "dspark-qwen3-5"),
        (mixed_again, "eagle3-official"),
        (no_window, "eagle3-window"),
        (norms_as_they_are_stored, "mtp-qwen3.5"),
        (continue_from_what_was_given, "mtp-qwen3.5"),
        (positions_that_go_on, "gemma-4-assistant"),
        (more_than_the_window, "gemma-4-assistant"),
    ],
)
def test_parity_refutes_mutants(mutant, name, monkeypatch):
    mutant(monkeypatch)
    assert difference(ours(DRAFTERS[name]), kept(DRAFTERS[name])) > 100 * TOLERANCE
