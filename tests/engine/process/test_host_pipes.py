"""Commands and responses as lines: whole, from any thread, and nothing else among them."""

import ctypes
import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.events import Failed, Text
from engine.pipes import claim_pipes
from engine.process import protocol
from engine.process.host import CommandQueue, Disconnected, ResponseLines, read_lines
from engine.process.protocol import (
    COMMANDS,
    RESPONSES,
    Cancel,
    Hurry,
    Quit,
    Unload,
    Unloaded,
)
from tests.support.engine.hosted import queued


def test_prints_do_not_reach_the_protocol(monkeypatch):
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    saved = [os.dup(descriptor) for descriptor in (0, 1)]
    pipes = [os.pipe() for _ in saved]
    try:
        os.write(pipes[0][1], b"command\n")
        os.close(pipes[0][1])
        os.dup2(pipes[0][0], 0)
        os.dup2(pipes[1][1], 1)
        commands, responses = claim_pipes()
        assert sys.stdout is sys.stderr  # whose encoding takes every character
        print("from Python", flush=True)
        os.write(1, b"from C\n")
        library = ctypes.CDLL(None)
        library.puts(b"from C's own buffer")
        library.fflush(None)
        subprocess.run(["echo", "from a program"], check=True)
        ResponseLines(responses).send(Failed("g", "m", "r"))
        assert os.read(0, 100) == b""
        assert commands.read() == b"command\n"
        commands.close()
        responses.close()
    finally:
        for descriptor, copy in enumerate(saved):
            os.dup2(copy, descriptor)
            os.close(copy)
        os.close(pipes[0][0])
        os.close(pipes[1][1])
    with os.fdopen(pipes[1][0], "rb") as pipe:
        assert RESPONSES.read(pipe.read()) == Failed("g", "m", "r")


def test_lines_that_are_too_long_come_broken_off(monkeypatch):
    monkeypatch.setattr(protocol, "LONGEST_LINE_BYTES", 8)
    stream = io.BytesIO(b"longest\ntoo long\nfar too long\nnext\nunended")
    lines = (b"longest\n", b"too long\n", b"far too l", b"next\n", b"unended")
    assert tuple(read_lines(stream)) == lines


def test_lines_from_two_threads_stay_whole():
    read, write = os.pipe()
    with (
        os.fdopen(read, "rb") as source,
        os.fdopen(write, "wb") as sink,
        ThreadPoolExecutor() as threads,
    ):
        output = ResponseLines(sink)
        texts = [Text(str(number), "é" * 20_000) for number in range(2)]
        for text in texts:
            threads.submit(lambda text=text: [output.send(text) for _ in range(20)])
        for _ in range(40):
            assert RESPONSES.read(source.readline()) in texts


def test_a_closed_pipe_is_gone_and_an_inbox_stops_when_nobody_reads():
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb", buffering=0) as sink:
        with pytest.raises(Disconnected):
            ResponseLines(sink).send(Unloaded("1"))
        queue = CommandQueue(ResponseLines(sink).send)
        queue.read(io.BytesIO(b"nonsense\n" + COMMANDS.to_line(Unload("1"))))
    quitting = CommandQueue(pytest.fail)
    quitting.read(io.BytesIO(COMMANDS.to_line(Quit()) + COMMANDS.to_line(Unload("1"))))
    for each in (queue, quitting):  # nothing is taken after quit either
        assert each.stopped
        assert each.take() is None


def test_a_wish_lasts_as_long_as_its_command():
    queue = queued([Unload("1"), Cancel("1"), Hurry("1")], pytest.fail)
    assert (queue.cancelled("1"), queue.hurried("1")) == (True, True)
    queue.note(Unloaded("1"))
    queue.read(io.BytesIO(COMMANDS.to_line(Cancel("1"))))  # too late
    queue.stopped = False
    assert (queue.cancelled("1"), queue.hurried("1")) == (False, False)
