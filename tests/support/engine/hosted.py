"""The engine's host without its process."""

from collections.abc import Callable, Iterable
from unittest import mock

from engine.process.host import CommandQueue, Host
from engine.process.protocol import Command, Response


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
