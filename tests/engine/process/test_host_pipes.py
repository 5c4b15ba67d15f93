"""Commands and responses as lines: whole, from any thread, and nothing else among them."""

import ctypes
import io
import os
import subprocess
import sys
from threading import Thread

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
    with os.fdopen(read, "rb") as source, os.fdopen(write, "wb") as sink:
        output = ResponseLines(sink)
        texts = [Text(str(number), "é" * 20_000) for number in range(2)]
        threads = [
            Thread(target=lambda text=text: [output.send(text) for _ in range(20)])
            for text in texts
        ]
        for thread in threads:
            thread.start()
        for _ in range(40):
            assert RESPONSES.read(source.readline()) in texts
        for thread in threads:
            thread.join()


def test_a_closed_pipe_is_gone():
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb", buffering=0) as sink, pytest.raises(Disconnected):
        ResponseLines(sink).send(Unloaded("1"))


def test_nothing_is_taken_after_quit():
    queue = CommandQueue(pytest.fail)
    queue.read(io.BytesIO(COMMANDS.to_line(Quit()) + COMMANDS.to_line(Unload("1"))))
    assert queue.stopped
    assert queue.take() is None


def test_a_wish_lasts_as_long_as_its_command():
    queue, ended = CommandQueue(pytest.fail), Unloaded("1")
    lines = [COMMANDS.to_line(each) for each in (Unload("1"), Cancel("1"), Hurry("1"))]
    queue.read(io.BytesIO(b"".join(lines)))
    queue.stopped = False
    assert queue.cancelled("1")
    assert queue.hurried("1")
    queue.note(ended)
    queue.read(io.BytesIO(lines[1]))  # too late
    queue.stopped = False
    assert not queue.cancelled("1")
    assert not queue.hurried("1")


def test_an_inbox_stops_when_nobody_reads():
    def disconnected(response):
        raise Disconnected

    queue = CommandQueue(disconnected)
    queue.read(io.BytesIO(b"nonsense\n" + COMMANDS.to_json(Unload("1")).encode()))
    assert queue.stopped
    assert queue.take() is None
