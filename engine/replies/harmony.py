"""Reads replies of gpt-oss, in OpenAI's harmony format: messages, each in a channel.

    <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...

The channel "analysis" is reasoning; of two channels in a header the last counts. A message
`to=functions.name`, in any channel, is a call; all other text is content. The token that ends a
call ends the reply, and is not in its text.
"""

import re

from engine.replies.calls import Calls
from engine.replies.incoming import Emit, Incoming, Reading, Unreadable
from engine.replies.json_text import pass_arguments

_BEGINNINGS = ("<|start|>", "<|channel|>")
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_RECIPIENT = re.compile(r"\bto=(?!assistant\b)([^\s<]+)")


def read_messages(
    incoming: Incoming, calls: Calls | None, *, content: Emit, reasoning: Emit
) -> Reading[None]:
    """Read a whole reply. Without `calls`, calls become content."""
    while not incoming.over:
        incoming.remember()
        emit = content
        try:
            header = yield from _header(incoming)
            recipient, channels = _RECIPIENT.search(header), _CHANNEL.findall(header)
            if recipient:
                yield from _call(incoming, calls, recipient[1])
            elif header:
                incoming.taken()
                emit = reasoning if channels[-1:] == ["analysis"] else content
            else:
                content(incoming.taken())
        except Unreadable:
            if calls:
                calls.give_up()
            if incoming.cut and incoming.over:
                return
            content(incoming.taken())
        end = yield from incoming.text_until([*_BEGINNINGS, *_ENDS], emit)
        if end in _ENDS:
            yield from incoming.expect(end)


def _header(incoming: Incoming) -> Reading[str]:
    """Read the header of a message; "" if its text begins at once."""
    yield from incoming.spaces()
    if (yield from incoming.comes(*_BEGINNINGS, "to=")) is None:
        return ""
    pieces: list[str] = []
    if (yield from incoming.text_until(["<|message|>", *_ENDS], pieces.append)) != "<|message|>":
        raise Unreadable
    yield from incoming.expect("<|message|>")
    return "".join(pieces)


def _call(incoming: Incoming, calls: Calls | None, recipient: str) -> Reading[None]:
    name = recipient.removeprefix("functions.")
    if calls is None or not name:
        raise Unreadable
    yield from incoming.spaces()
    calls.begin(name)
    yield from pass_arguments(incoming, calls.arguments)
    calls.end()
    yield from incoming.spaces()
    incoming.remember()
