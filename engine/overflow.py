"""Which messages are read where a conversation is longer than the model's context.

Whole turns are left out: a person's message with its answer. What is left out depends on the turns
alone and stays left out as the conversation grows, since it goes in large steps: until half of the
room is free again. So the next prompts begin as the last one did, and what was read is reused; only
once in many turns what stays behind the gap is read again. Knows lengths in tokens, no tokenizer.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from engine.request import ChatMessage, Overflow, Prompt

_AROUND_A_MESSAGE = 6  # tokens that a chat template usually adds
_MOST_KEPT = 2  # the first turn may take one part in so many; else it is left out, too


def fit(
    prompt: Prompt,
    *,
    overflow: Overflow,
    limit: int,
    encode: Callable[[Prompt], list[int]],
    encode_text: Callable[[str], list[int]],
) -> tuple[list[int], range]:
    """The tokens of a prompt that has `limit` of them at most, and which of its messages were left
    out for that. There may be more tokens where nothing can be left out any more.

    `encode` encodes a prompt, `encode_text` the text of a message without anything around it.
    """
    messages = prompt.messages
    tokens, gap = encode(prompt), range(0)
    if len(tokens) <= limit or overflow == "stop" or not messages:
        return tokens, gap
    bounds = turn_bounds(messages)
    lengths = [len(encode_text(each.content)) + _AROUND_A_MESSAGE for each in messages]
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

    `system` and `turns` are lengths in tokens; the last turn is the one to be answered, and is
    never left out, even where it does not fit. Nor is the system prompt. While all fit, and where
    `overflow` is "stop", the range is empty.
    """
    if overflow == "stop" or not turns:
        return range(0)
    first = turns[0]
    if overflow == "middle" and system + first <= limit // _MOST_KEPT:
        behind = _oldest(turns[1:], room=limit - system - first)
        if system + first + sum(turns[1 + behind :]) <= limit:
            return range(1, 1 + behind) if behind else range(0)
    return range(_oldest(turns, room=limit - system))


def _oldest(turns: Sequence[int], *, room: int) -> int:
    """How many of the oldest turns are left out, by going through the conversation as it grew."""
    start = kept = 0
    for place, length in enumerate(turns):
        if kept + length > room:
            while start < place and (kept > room // 2 or kept + length > room):
                kept -= turns[start]
                start += 1
        kept += length
    return start


def turn_bounds(messages: Sequence[ChatMessage]) -> list[int]:
    """Where each turn begins, and the end: the index of each question, and how many there are.

    What comes before the first question, the system prompt mostly, belongs to no turn.
    """
    asked = [place for place, message in enumerate(messages) if message.role == "user"]
    return [*(asked or [len(messages) - 1]), len(messages)]
