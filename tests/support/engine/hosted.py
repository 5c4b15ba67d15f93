"""The engine's host without its process."""

from collections.abc import Callable, Iterable
from unittest import mock

from engine.process.host import CommandQueue, Host
from engine.process.protocol import Command, Response


def hosted(
    commands: Iterable[Command], *, after: Callable[[Response], object] = lambda _: None
) -> list[Response]:
    """Send commands one after another, and return the responses; `after` is called with each."""
    responses: list[Response] = []

    def send(response: Response) -> None:
        responses.append(response)
        after(response)

    queue, script = CommandQueue(send), iter(commands)
    with mock.patch.object(queue, "take", side_effect=lambda: next(script, None)):
        Host(queue, send).run()
    return responses
