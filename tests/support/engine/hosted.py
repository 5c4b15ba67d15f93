"""The engine's host without its process."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from unittest import mock

from engine.process.host import CommandQueue, Host, ready
from engine.process.protocol import RESPONSES, Command, Response


def hosted(
    commands: Iterable[Command], *, after: Callable[[Response], object] = bool, **options: object
) -> list[Response]:
    """Send commands one after another, and return the responses; `after` is called with each.
    `options` of the host."""
    responses: list[Response] = []

    def send(response: Response) -> None:
        responses.append(response)
        after(response)

    queue, script = CommandQueue(send), iter(commands)

    def take() -> Command | None:
        command = next(script, None)
        queue.owed |= {command.id: command} if command else {}
        return command

    with mock.patch.object(queue, "take", take):
        Host(queue, send, **options).run()
    return responses


class HostedChild:
    """A host on threads of this process, in place of a `LineChild`."""

    def __init__(self) -> None:
        self._said = SimpleQueue[bytes]()
        self._reading, self._writing = os.pipe()
        self._queue = CommandQueue(self._send)
        self._threads = [Thread(target=self._read), Thread(target=self._run)]
        for thread in self._threads:
            thread.start()

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._writing, data) :]

    def line(self, seconds: float) -> bytes | None:
        with suppress(Empty):
            return self._said.get(timeout=seconds)
        return None

    def end(self, seconds: float) -> int:
        os.close(self._writing)
        for thread in self._threads:
            thread.join()
        return 0

    def _send(self, response: Response) -> None:
        self._said.put(RESPONSES.to_line(response))

    def _read(self) -> None:
        with os.fdopen(self._reading, "rb") as commands:
            self._queue.read(commands)

    def _run(self) -> None:
        self._send(ready())
        Host(self._queue, self._send).run()
        self._said.put(b"")
