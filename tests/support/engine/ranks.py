"""The ranks of a group as processes on loopback, for tests: each does what it is given, at the same
time as the others, and all of them end where one fails or takes too long.

    with started(2) as ranks:
        text, _ = ranks.call(lead, Held(partial(build, "llama"), "pipeline"), write)

What is called, and what it is given and gives back, is pickled: functions of a module, no arrays.
"""

import engine  # noqa: F401  # in a rank's process: it puts OpenBLAS in front

# isort: split
import json
import multiprocessing
import os
import socket
import tempfile
import threading
import traceback
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from unittest import mock

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.tokenizer_utils import load as load_tokenizer
from mlx_lm.utils import _get_classes

from engine.cluster.follower import Follower
from engine.cluster.leader import Leader, LeadingDecoder
from engine.cluster.share import Mode, ModelPart, RankShare, divide, keep
from tests.support.engine.sessions import END, loaded
from tests.support.engine.tiny import build, byte_tokenizer, configs

CALL_SECONDS = 60.0  # for hangs only
_GRACE_SECONDS = 1.0  # in which the other ranks may say what they saw of a failure
_ATTEMPTS = 3  # to start: another program may take a port first


class RankFailed(Exception):
    """Ranks raised, ended or hung; and what each of those says."""


class Ranks:
    """A group of processes. Where a call fails all of them end, and `call` cannot be used again.

    Attribute: `processes`, rank 0's first.
    """

    def __init__(self, size):
        context = multiprocessing.get_context("spawn")
        self._pipes = []
        self.processes = []
        with tempfile.TemporaryDirectory() as folder:
            hosts = Path(folder, "hosts.json")
            hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in free_ports(size)]))
            with mock.patch.dict(os.environ, OPENBLAS_NUM_THREADS="1"):
                for rank in range(size):
                    ours, theirs = context.Pipe()
                    process = context.Process(target=_serve, args=(theirs, rank, hosts))
                    process.start()
                    theirs.close()
                    self._pipes.append(ours)
                    self.processes.append(process)
            self._results(CALL_SECONDS)

    def call(self, function, *arguments, seconds=CALL_SECONDS):
        """Return the results of `function(group, *arguments)` of all ranks. Raises `RankFailed`."""
        for pipe in self._pipes:
            pipe.send((function, arguments))
        return self._results(seconds)

    def close(self):
        """End all of them. More than once is fine."""
        for process, pipe in zip(self.processes, self._pipes, strict=True):
            process.kill()
            process.join()
            pipe.close()

    def _results(self, seconds):
        results = {}
        failures = {}
        deadline = monotonic() + seconds
        waiting = {pipe: rank for rank, pipe in enumerate(self._pipes)}
        while waiting:
            ready = wait(list(waiting), max(deadline - monotonic(), 0.0))
            if not ready:
                break
            for pipe in ready:
                assert isinstance(pipe, Connection)
                rank = waiting.pop(pipe)
                try:
                    failed, result = pipe.recv()
                except (EOFError, OSError):
                    failed, result = True, "it has ended"
                (failures if failed else results)[rank] = result
            if failures:
                deadline = min(deadline, monotonic() + _GRACE_SECONDS)
        if failures or waiting:
            self.close()
            if not failures:
                failures = dict.fromkeys(waiting.values(), f"nothing within {seconds:g} s")
            said = (f"rank {rank}: {failure}" for rank, failure in failures.items())
            raise RankFailed("\n".join(said))
        return [results[rank] for rank in sorted(results)]


@contextmanager
def started(size):
    """A group of so many processes, which end with the block."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            ranks = Ranks(size)
            break
        except RankFailed:
            if attempt == _ATTEMPTS:
                raise
    try:
        yield ranks
    finally:
        ranks.close()


def free_ports(count):
    """Ports on loopback that no one listens on."""
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@dataclass(frozen=True, slots=True)
class Held:
    """A target that ranks hold: what makes the whole model, alike on all of them, and how they cut
    it. `split` as for `RankShare`; by default they have equally many layers, or rank 0 one more."""

    model: Callable[[], nn.Module]
    mode: Mode
    split: tuple[int, ...] = ()

    def part(self, group):
        """This rank's part."""
        model, size = self.model(), group.size()
        share = RankShare(self.mode, group.rank(), size, self._split(len(model.layers), size))
        keep(model, share)
        divide(model, share, group)
        return ModelPart(model, share, group)

    def _split(self, layers, size):
        if self.mode == "tensor" or self.split:
            return self.split
        least, more = divmod(layers, size)
        return tuple(least + (rank < more) for rank in range(size))


def lead(group, held, work, *arguments):
    """Work for `Ranks.call`: rank 0 returns `work(target, *arguments)`, whose decoders read with
    all ranks. The others obey meanwhile."""
    part = held.part(group)
    if group.rank() > 0:
        return Follower(part).run(lambda: True)
    leader = Leader(part)
    result = work(leading(leader), *arguments)
    leader.quit()
    return result


def leading(leader):
    """The target of which `leader` has rank 0's part."""
    return replace(alone(leader.part.model), decoder=partial(LeadingDecoder, leader=leader))


def alone(model):
    """A target that this process holds by itself, to compare with."""
    return loaded(model, tokenizer())


@cache
def tokenizer():
    """One of bytes."""
    with tempfile.TemporaryDirectory() as folder:
        byte_tokenizer(Path(folder))
        return load_tokenizer(Path(folder), eos_token_ids=[END])


def _serve(pipe, rank, hosts):
    """A rank's process."""
    jobs = SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, jobs), daemon=True).start()
    mx.set_default_device(mx.cpu)
    os.environ |= {"MLX_RANK": str(rank), "MLX_HOSTFILE": str(hosts)}
    try:
        group = mx.distributed.init(backend="ring", strict=True)
        pipe.send((False, None))
        while True:
            function, arguments = jobs.get()
            pipe.send((False, function(group, *arguments)))
    except BaseException:
        with suppress(OSError):
            pipe.send((True, traceback.format_exc()))
        threading.Event().wait()  # the others may still need what was sent; the tests end this


def _receive(pipe, jobs):
    """Never outlive the tests, even where MLX waits for ever."""
    with suppress(EOFError, OSError):
        while True:
            jobs.put(pipe.recv())
    os._exit(1)


# Tiny targets of every architecture that several Macs can hold together: six layers, and heads that
# two and three ranks can divide.
SHARED_TARGETS = configs("shared")


def config_of(name):
    """The config.json of one of them, but for its vocabulary."""
    return SHARED_TARGETS[name] | {"model_type": name.split()[0], "vocab_size": 64}


def shared_target(name):
    """Build the target `name` of `SHARED_TARGETS`, alike in every process."""
    return build(name.split()[0], sizes=SHARED_TARGETS[name])


def without_weights(name):
    """The target `name` as it is made: its weights are never computed."""
    model, arguments = _get_classes(config_of(name))
    made = model(arguments.from_dict(config_of(name)))
    return made
