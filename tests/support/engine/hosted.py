"""The engine's host without its process."""

from unittest import mock

from engine.process.host import CommandQueue, Host
from engine.process.protocol import Cancel, Hurry


def hosted(commands, *, after=bool, **options):
    """Send commands one after another, and return the responses; `after` is called with each.
    `options` of the host."""
    responses = []

    def send(response):
        responses.append(response)
        after(response)

    queue, script = CommandQueue(send), iter(commands)

    def take():
        for command in script:
            if not isinstance(command, Cancel | Hurry):
                queue.owed[command.id] = command
                return command
            queue.wish(command)
        return None

    with mock.patch.object(queue, "take", take):
        Host(queue, send, **options).run()
    return responses
