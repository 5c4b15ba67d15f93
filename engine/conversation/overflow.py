"""Chooses the messages that are left out of a conversation that is longer than the model's context.

Whole turns are left out: the user's message with its answer. The choice depends on the turns alone,
and they are left out in large steps: until half of the room is free again. So most prompts begin as
the last one did, and its caches are reused. Once in many turns, the turns after the gap are read
again. Knows lengths in tokens, no tokenizer.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from engine.request import ChatMessage, Overflow, Prompt

_AROUND_A_MESSAGE = 6  # tokens that a chat template usually adds
_MOST_KEPT = 2  # a first turn that takes more than 1 / 2 of the room is left out, too


def fit(
    prompt: Prompt,
    *,
    overflow: Overflow,
    limit: int,
    encode: Callable[[Prompt], list[int]],
    encode_text: Callable[[str], list[int]],
    rows: Callable[[ChatMessage], int] = lambda message: 0,
) -> tuple[list[int], range]:
    """The tokens of a prompt, at most `limit`, and the numbers of the messages that were left out.

    There may be more tokens if nothing more can be left out. `encode` encodes a prompt, and
    `encode_text` the text of a message without anything around it. `rows`: the number of
    tokens of a message's pictures.
    """
    messages = prompt.messages
    tokens, gap = encode(prompt), range(0)
    if len(tokens) <= limit or overflow == "stop" or not messages:
        return tokens, gap
    bounds = turn_bounds(messages)
    lengths = [
        len(encode_text(message.written or message.content)) + rows(message) + _AROUND_A_MESSAGE
        for message in messages
    ]
    turns = [sum(lengths[a:b]) for a, b in pairwise(bounds)]
    first = replace(prompt, messages=messages[: bounds[0] + 1])
    head = len(encode(first)) - lengths[bounds[0]]
    room = limit
    while len(tokens) > limit and gap.stop < bounds[-2]:
        found = left_out(head, turns, overflow=overflow, limit=room)
        gap = range(bounds[found.start], bounds[found.stop])
        tokens = encode(without(prompt, gap))
        room -= max(1, len(tokens) - limit)  # the template may add more than was counted
    return tokens, gap


def without(prompt: Prompt, gap: range) -> Prompt:
    """A chat without the messages in `gap`."""
    messages = prompt.messages
    return replace(prompt, messages=(*messages[: gap.start], *messages[gap.stop :]))


def left_out(system: int, turns: Sequence[int], *, overflow: Overflow, limit: int) -> range:
    """The turns that are left out, so that `limit` tokens hold the others and the system prompt.

    `system` and `turns` are lengths in tokens. The system prompt and the last turn, which is to be
    answered, are never left out, even if they do not fit. Empty if all turns fit.
    """
    if not turns:
        return range(0)
    first = turns[0]
    if overflow == "middle" and system + first <= limit // _MOST_KEPT:
        behind = _oldest(turns[1:], room=limit - system - first)
        if system + first + sum(turns[1 + behind :]) <= limit:
            return range(1, 1 + behind) if behind else range(0)
    return range(_oldest(turns, room=limit - system))


def _oldest(turns: Sequence[int], *, room: int) -> int:
    """The number of the oldest turns that are left out, found by letting the conversation grow."""
    start = kept = 0
    for place, length in enumerate(turns):
        if kept + length > room:
            while start < place and (kept > room // 2 or kept + length > room):
                kept -= turns[start]
                start += 1
        kept += length
    return start


def turn_bounds(messages: Sequence[ChatMessage]) -> list[int]:
    """The index of each question, where a turn begins, and the number of messages.

    Messages before the first question belong to no turn: mostly the system prompt.
    """
    asked = [place for place, message in enumerate(messages) if message.role == "user"]
    return [*(asked or [len(messages) - 1]), len(messages)]
