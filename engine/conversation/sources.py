"""Finds the place in a chat's messages of a token of its prompt: exactly, or not at all.

A chat template may strip a message, cut it, or write it elsewhere, and a tokenizer may change its
letters. So the chat is rendered once more, with marks at the beginning and end of each message. The
text between two marks counts if it is the message's text, and if the tokens without the marks are
the prompt's own. This takes a little longer than encoding the prompt: it is done once, on demand.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

from engine.conversation.template import Shown, pieces, unused_letters
from engine.conversation.text import TokenTexts
from engine.events import Source
from engine.request import ChatMessage, Prompt
from models.errors import Problem

_LONGEST = 256  # characters of a token that are compared


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The characters from `start` to `end` of a prompt's text are the characters of message number
    `message`, from 0, from `offset` on."""

    start: int
    end: int
    message: int
    offset: int


@dataclass(frozen=True, slots=True)
class _Places:
    """`begins`: where in the prompt's text each token begins; `stretches`, in their order."""

    begins: list[int]
    stretches: list[_Stretch]


class Sources:
    """Where the tokens of one prompt come from. `left_out`: the numbers of the chat's messages that
    are not in `prompt`. `shown`: its pictures, whose rows are placeholders in `tokens`."""

    def __init__(
        self,
        tokenizer: Any,
        prompt: Prompt,
        tokens: Sequence[int],
        *,
        left_out: range = range(0),
        shown: Shown | None = None,
    ) -> None:
        self._tokenizer, self._prompt, self._left_out = tokenizer, prompt, left_out
        self._shown = shown
        self._tokens = tuple(tokens)
        self._texts = TokenTexts(tokenizer)

    def of(self, place: int) -> Source | None:
        """The place where the text of the prompt's token number `place` begins; None if it is in no
        message, or not exactly known."""
        places = self._places if place < len(self._tokens) else None
        if places is None or not places.stretches:
            return None
        begin = places.begins[place]
        number = bisect_right(places.stretches, begin, key=lambda stretch: stretch.start) - 1
        stretch = places.stretches[max(number, 0)]
        text, offset = self._texts.text_of(self._tokens[place]), stretch.offset - stretch.start
        written = _text_of(self._prompt.messages[stretch.message])[: stretch.end + offset]
        # Some tokenizers do not count the white space that a token begins with.
        for start in (begin + offset, begin + offset - len(text) + len(text.lstrip())):
            letters = written[start : start + _LONGEST] if start >= stretch.offset else ""
            if letters and self._is_at(letters, place, text):
                later = len(self._left_out) if stretch.message >= self._left_out.start else 0
                return Source(stretch.message + later, start)
        return None

    def _is_at(self, letters: str, place: int, text: str) -> bool:
        """Whether this token's text begins where `letters` do, or within the first one."""
        if "\ufffd" not in text:
            return bool(text) and letters.startswith(text)
        found = letters.encode().find(self._texts.bytes_of(self._tokens[place]))
        return 0 <= found < len(letters[:1].encode())

    @cached_property
    def _places(self) -> _Places | None:
        """None if the prompt is not a chat, or if no place is certain."""
        messages = self._prompt.messages
        letters = unused_letters(self._prompt)
        marks = {mark: number for number, mark in zip(range(len(messages)), letters, strict=False)}
        if not messages or len(marks) < len(messages):
            return None
        marked = [
            replace(message, written=_marked(message.written, mark))
            if message.written
            else replace(message, content=_marked(message.content, mark))
            for message, mark in zip(messages, marks, strict=True)
        ]
        try:
            chat = replace(self._prompt, messages=tuple(marked))
            written = list(pieces(self._tokenizer, chat, self._shown))
        except Problem:  # the template does not like the marks
            return None
        text = "".join(written)
        bare = [without for piece in written if (without := piece.translate(_nothing_for(marks)))]
        begins = self._begins(bare)
        if begins is None:
            return None
        return _Places(begins, list(self._stretches(text, marks)))

    def _begins(self, texts: Sequence[str]) -> list[int] | None:
        """The place in the joined texts where each token begins; None if these tokens are not the
        prompt's."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        if backend is None:
            return None
        begins: list[int] = []
        starts = accumulate(map(len, texts), initial=0)
        for text, start in zip(texts, starts, strict=False):
            for before in ("\n", "") if begins else ("",):  # as it is encoded for the prompt
                encoded = backend.encode(before + text, add_special_tokens=False)
                ends = (end for _, end in encoded.offsets)
                first = sum(1 for end in ends if end <= len(before)) if before else 0
                ids = encoded.ids[first:]
                if ids == list(self._tokens[len(begins) : len(begins) + len(ids)]):
                    begins += [start - len(before) + at for at, _ in encoded.offsets[first:]]
                    break
            else:
                return None
        return begins if len(begins) == len(self._tokens) else None

    def _stretches(self, text: str, marks: dict[str, int]) -> Iterator[_Stretch]:
        """The stretches between two marks of a message that are the message's text."""
        bare, opened = text.translate(_nothing_for(marks)), dict[int, int]()
        for number, found in enumerate(re.finditer(f"[{''.join(marks)}]", text)):
            message, place = marks[found.group()], found.start() - number
            content = _text_of(self._prompt.messages[message])
            start = opened.pop(message, None)
            if start is not None and bare[start:place] == content.strip():
                yield _Stretch(start, place, message, len(content) - len(content.lstrip()))
            else:
                opened[message] = place


def _text_of(message: ChatMessage) -> str:
    """The text of a message in which places are counted."""
    return message.written or message.content


def _marked(content: str, mark: str) -> str:
    """The content with a mark on both sides of the part that no template strips."""
    inner = content.strip()
    if not inner:
        return content
    start = content.index(inner)
    return f"{content[:start]}{mark}{inner}{mark}{content[start + len(inner) :]}"


def _nothing_for(marks: dict[str, int]) -> dict[int, None]:
    return dict.fromkeys(map(ord, marks))
