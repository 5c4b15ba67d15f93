"""Measures plain decoding with this process's command buffers and with MLX's default ones, each in
its own process, since MLX reads their sizes once."""

from contextlib import closing
from uuid import uuid4

from engine.cli.sessions import ChildSession
from engine.command_buffers import buffers_in_force, with_own_buffers
from engine.events import Done
from engine.process.client import host_command
from engine.process.protocol import Load
from engine.request import ChatMessage, Request
from models.model_folder import ModelFolder

_TOKENS = 64
_PROMPT = ChatMessage("user", "Why is the sky blue?")


def compare_buffers(target: ModelFolder) -> tuple[tuple[str, float], ...]:
    """Return both sizes in words, each with its tokens a second; () if MLX's default is in force.
    Raises `Problem`."""
    if not buffers_in_force():
        return ()
    host, best = host_command(), dict[str, float]()
    ways = ("MLX's own command buffers", with_own_buffers(host)), (buffers_in_force(), host)
    for words, command in ways * 2:
        best[words] = max(best.get(words, 0.0), _speed(target, command))
    return tuple(best.items())


def _speed(target: ModelFolder, command: tuple[str, ...]) -> float:
    """Return the tokens a second of a second answer, whose kernels are loaded already."""
    load = Load(uuid4().hex, str(target.path), parallel=1)
    request = Request(max_tokens=_TOKENS)
    with closing(ChildSession(load, tell=lambda line: None, command=command)) as session:
        events = [event for _ in range(2) for event in session.answer([_PROMPT], request)]
    stats = [event.stats for event in events if isinstance(event, Done)][-1]
    return stats.committed / max(stats.decode_seconds, 1e-9)
