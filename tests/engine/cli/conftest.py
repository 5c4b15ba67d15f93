"""The command line, called in this process, on tiny models."""

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import pytest
from mlx_lm.utils import save_model

from engine.cli import line_child
from engine.cli.main import main
from engine.events import Done, Stats, Text
from engine.process.host import CommandQueue, Host, ready
from engine.process.protocol import (
    PROTOCOL,
    RESPONSES,
    Count,
    Counted,
    Generate,
    Keep,
    Kept,
    Load,
    Ready,
    parse_command,
)
from tests.engine.server.conftest import read_here  # noqa: F401
from tests.support.engine import tiny
from tests.support.engine.ended import HOSTILE, PROMPT, Run
from tests.support.engine.scripted_host import LOADED

SEED = 53  # of a target whose answers have letters, and something to look up


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch, on_the_cpu):
    """The CPU, where texts are equal to the letter; models kept apart; no terminal's settings."""
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path / "home"))
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")


class HostedChild:
    """A host on threads of this process, in place of a `LineChild`."""

    def __init__(self):
        self._said = SimpleQueue[bytes]()
        self._reading, self._writing = os.pipe()
        self._queue = CommandQueue(self._send)
        self._threads = [Thread(target=self._read), Thread(target=self._run)]
        for thread in self._threads:
            thread.start()

    def write(self, data):
        while data:
            data = data[os.write(self._writing, data) :]

    def line(self, seconds):
        with suppress(Empty):
            return self._said.get(timeout=seconds)
        return None

    def end(self, seconds):
        os.close(self._writing)
        for thread in self._threads:
            thread.join()
        return 0

    def _send(self, response):
        self._said.put(RESPONSES.to_line(response))

    def _read(self):
        with os.fdopen(self._reading, "rb") as commands:
            self._queue.read(commands)

    def _run(self):
        self._send(ready())
        Host(self._queue, self._send).run()
        self._said.put(b"")


@pytest.fixture(autouse=True)
def engine_here(monkeypatch):
    """An engine that a command starts runs in this process; a scripted one does not."""
    start = line_child.LineChild

    def here(command, **options):
        return HostedChild() if command[-1] == "host" else start(command, **options)

    monkeypatch.setattr(line_child, "LineChild", here)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "target"
    tiny.write_folder("llama", folder, layers=2, seed=SEED)
    return folder


@pytest.fixture(scope="module")
def drafter(target):
    """A model that guesses the target's tokens now and then."""
    folder = Path(shutil.copytree(target, target.with_name("drafter")))
    save_model(folder, tiny.noisy(tiny.write_folder("llama", folder, layers=2, seed=SEED)))
    return folder


@pytest.fixture
def folder(target, tmp_path):
    """A copy of the target, to be broken."""
    return Path(shutil.copytree(target, tmp_path / "model"))


@pytest.fixture
def run(capfd):
    """Runs a command line in this process."""

    def run(*arguments):
        with pytest.raises(SystemExit) as exit_info:
            main(list(map(str, arguments)))
        out, err = capfd.readouterr()
        code = exit_info.value.code
        assert code is None or isinstance(code, int)
        return Run(code or 0, out, err)

    return run


@pytest.fixture
def generate(run, target):
    """Runs `generate` on the target, with a prompt, for 24 tokens, unless the arguments differ.

    Greedy, so that a run can be compared with another.
    """

    def generate(*arguments):
        told = ("--target", target, "--prompt", PROMPT, "--max-tokens", 24, "--temperature", 0)
        return run("generate", *told, *arguments)

    return generate


class Recording:
    """An engine that notes its commands in `asked`, counts letters, and answers `HOSTILE`."""

    def __init__(self, asked):
        self.asked, self.said = asked, [Ready(PROTOCOL, "", "", "", "")]

    def write(self, data):
        for command in map(parse_command, data.splitlines()):
            if isinstance(command, Count):
                self.said.append(Counted(command.id, len(str(command.prompt))))
                continue
            self.asked.append(command)
            answers = {
                Load: [replace(LOADED, id=command.id)],
                Generate: [Text(command.id, HOSTILE), Done(command.id, "stop", Stats())],
                Keep: [Kept(command.id, ())],
            }
            self.said += answers[type(command)]

    def line(self, seconds):
        return RESPONSES.to_line(self.said.pop(0)) if self.said else None

    def end(self, seconds):
        return 0


@pytest.fixture
def asked(monkeypatch):
    """The commands that are sent to an engine which answers `HOSTILE`."""
    asked = []
    start = line_child.LineChild

    def recording(command, **options):
        return Recording(asked) if command[-1] == "host" else start(command, **options)

    monkeypatch.setattr(line_child, "LineChild", recording)
    return asked
