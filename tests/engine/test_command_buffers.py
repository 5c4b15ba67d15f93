"""MLX's command buffers: which process starts with larger ones, and what is said of them."""

import json
import subprocess
from dataclasses import replace

import pytest

from engine.bench.machine import this_machine
from engine.cli.doctor import machine_checks
from engine.command_buffers import buffers_in_force, with_buffers
from engine.process.client import host_command
from models import speed

OPERATIONS, NUMBERS = "MLX_MAX_OPS_PER_BUFFER", "MLX_MAX_MB_PER_BUFFER"
LARGER = {OPERATIONS: "1000", NUMBERS: "400"}
PRINT = ("/usr/bin/env",)


@pytest.fixture(autouse=True)
def mac(monkeypatch):
    """Makes this a Mac with this chip, on which the user has set nothing."""
    for name in LARGER:
        monkeypatch.delenv(name, raising=False)

    def mac(name):
        chip = speed.load_chips().find(name, 64 << 30)
        monkeypatch.setattr(speed, "this_chip", lambda: chip)

    mac("M1 Ultra")
    return mac


@pytest.fixture
def model(tmp_path):
    """A folder with this config."""

    def model(**config):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3_moe", **config}))
        return str(tmp_path)

    return model


def seen_by(command):
    """The variables in the environment of a process."""
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    named = dict(line.split("=", 1) for line in lines if "=" in line)
    return {name: named[name] for name in LARGER if name in named}


def test_a_process_for_a_target_with_experts_starts_with_them(mac, model):
    target = model(num_experts=128)
    for chip in ("M1 Ultra", "M2", "M3 Max", "M4 Pro"):
        mac(chip)
        assert seen_by(with_buffers(PRINT, target)) == LARGER, chip
    for chip in ("M5", "M5 Max", "x86_64"):
        mac(chip)
        assert seen_by(with_buffers(PRINT, target)) == {}, chip
    mac("M4")
    for config in ({}, {"num_experts": None}, {"text_config": {"num_experts": 0}}):
        assert seen_by(with_buffers(PRINT, model(**config))) == {}
    assert seen_by(with_buffers(PRINT, model(text_config={"num_local_experts": 8}))) == LARGER
    for none in ("", "/no/such/model"):
        assert seen_by(with_buffers(PRINT, none)) == {}
    # An engine starts so.
    assert host_command(model(num_experts=8)) == with_buffers(host_command(), model(num_experts=8))
    assert host_command(model()) == host_command()


def test_what_the_user_has_set_wins_and_the_doctor_says_what_is_in_force_on_a_gpu(
    model, monkeypatch
):
    def told(device):
        machine = replace(this_machine(), device=device)
        return [check.fact for check in machine_checks(machine) if check.name == "buffers"]

    assert told("CPU") == []
    assert told("GPU Apple M1") == ["MLX's own command buffers"]
    monkeypatch.setenv(OPERATIONS, "77")
    assert seen_by(with_buffers(PRINT, model(num_experts=128))) == {OPERATIONS: "77"}
    assert told("GPU Apple M1") == [buffers_in_force()] == [f"{OPERATIONS}=77"]
