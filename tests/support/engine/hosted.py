"""The engine's host without its process."""

from io import BytesIO
from unittest import mock

from engine.process.host import CommandQueue, Host
from engine.process.protocol import COMMANDS, Cancel, Hurry


def queued(commands, send):
    """A queue in which these commands wait, of a stream that has not ended."""
    queue = CommandQueue(send)
    queue.read(BytesIO(b"".join(map(COMMANDS.to_line, commands))))
    queue.stopped = False
    return queue


def all_at_once(*commands):
    """Send commands that wait together, and return the responses."""
    responses = []
    Host(queued(commands, responses.append), responses.append).run()
    return responses


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


def of(kind, responses):
    """The responses of a kind."""
    return [response for response in responses if isinstance(response, kind)]
