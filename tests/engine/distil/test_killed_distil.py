"""The command as a process of its own: killed, killed again, interrupted, and then let be."""

import signal
import subprocess
import sys

import mlx.core as mx
import pytest

from engine.drafters.head_network import load_head
from models.drafters.folders import describe_drafter
from models.model_folder import ModelFolder
from tests.support.engine.ended import ROOT
from tests.support.engine.story_samples import STORIES, openings

pytestmark = pytest.mark.slow


class Process:
    """A distillation of eight epochs, however long they take. Attribute: `lines`, what it said."""

    def __init__(self, prompts, out, *words):
        command = ["distil", "--target", STORIES, "--prompts", prompts, "--out", out]
        command += ["--tokens", "3000", "--vocabulary", "300", "--longest-answer", "40", *words]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "engine", *map(str, command)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        self.lines = []

    def until(self, start):
        """Wait for a line that begins so."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith(start):
                return line
        raise AssertionError(f"it ended: {self.lines}")

    def end(self, number=None):
        """Send a signal, and wait; its exit status and standard output."""
        if number is not None:
            self.process.send_signal(number)
        said, errors = self.process.communicate(timeout=120)
        self.lines += errors.splitlines(keepends=True)
        return self.process.returncode, said


def test_killed_interrupted_and_let_be(tmp_path):
    prompts, out = tmp_path / "openings.txt", tmp_path / "drafter"
    prompts.write_text("\n".join(openings(120)))
    answers = out / "work" / "answers"

    first = Process(prompts, out)
    first.until("answering: ")
    assert first.end(signal.SIGKILL)[0] == -signal.SIGKILL
    stored = {path: path.stat().st_mtime_ns for path in answers.glob("[0-9]*")}
    assert stored
    assert not (out / "config.json").exists()

    second = Process(prompts, out, "--resume")
    second.until("epoch 3: ")
    assert second.end(signal.SIGKILL)[0] == -signal.SIGKILL
    assert {path: path.stat().st_mtime_ns for path in stored} == stored, "answered again"
    weights = ModelFolder(STORIES).fingerprint
    load_head(describe_drafter(out), fingerprint=weights, vocabulary=512, like=mx.float32)
    answered = {path: path.stat().st_mtime_ns for path in answers.iterdir()}

    third = Process(prompts, out, "--resume")
    assert third.until("epoch ").startswith(("epoch 3: ", "epoch 4: "))
    assert third.end(signal.SIGINT) == (0, f"{out}\n")
    assert "can be used; improve it with --resume" in third.lines[-1]
    assert not any(line.startswith("answering") for line in third.lines)
    load_head(describe_drafter(out), fingerprint=weights, vocabulary=512, like=mx.float32)

    fourth = Process(prompts, out, "--resume")
    assert fourth.until("epoch ").startswith(("epoch 4: ", "epoch 5: ", "epoch 6: "))
    assert {path: path.stat().st_mtime_ns for path in answers.iterdir()} == answered
    assert fourth.end() == (0, f"{out}\n")
    assert {path.name for path in out.iterdir()} == {"config.json", "head.safetensors"}
    load_head(describe_drafter(out), fingerprint=weights, vocabulary=512, like=mx.float32)
