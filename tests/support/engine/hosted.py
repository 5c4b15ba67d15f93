"""The engine's host without its process."""

from unittest import mock

from engine.process.host import CommandQueue, Host


def hosted(commands, *, after=bool, **options):
    """Send commands one after another, and return the responses; `after` is called with each.
    `options` of the host."""
    responses = []

    def send(response):
        responses.append(response)
        after(response)

    queue, script = CommandQueue(send), iter(commands)

    def take():
        command = next(script, None)
        queue.owed |= {command.id: command} if command else {}
        return command

    with mock.patch.object(queue, "take", take):
        Host(queue, send, **options).run()
    return responses
