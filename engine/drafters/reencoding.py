"""A text that is written in one model's tokens, followed in another model's.

Knows what tokens spell, and how a tokenizer writes text; nothing of models that read it.
"""

import codecs
import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from models.files import read_json_object
from models.model_folder import ModelFolder
from models.token_tables import MAXIMUM_TOKENIZER_BYTES

# Where tokenizers of every kind split a text, in any context: between words, and
# between lines. A stretch between two such places has no fewer bytes than _FEWEST, and no more than
# _MOST: in a text without words it ends between two characters.
_BETWEEN = re.compile(rb"(?<=[A-Za-z0-9]) (?=[A-Za-z])|(?<=\n)(?=[A-Za-z])")
_FEWEST, _MOST = 64, 256
_STEPS = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}  # and lists of them


class Writing:
    """Spells a model's tokens as text, and cuts text into its tokens.

    `spelled`: the bytes of every token that is text. `special`: the ids of the other tokens, by
    name. `begin`: the tokens that begin every text.
    """

    def __init__(self, folder: ModelFolder, *, begin: Sequence[int] = ()) -> None:
        """Raises `Problem` if the folder holds no tokenizer."""
        table = folder.tokens
        self.spelled: Mapping[int, bytes] = table.spelled
        self.special = {table.tokens[index]: index for index in table.special}
        self.begin = tuple(begin)
        self._tokenizer = _of_any_place(folder)

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text that need not be a beginning. Names of special tokens in it
        are plain text."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A part of the text that no later token can change.

    `text_end`, `tokens_end`: its end in the text, and among the drafter's tokens. `certain_from`:
    the number of the target's tokens that make this certain.
    """

    text_end: int
    tokens_end: int
    certain_from: int


class Reencoding:
    """The target's committed tokens as text, and in the drafter's tokens.

    Only the last stretch of the text is written again when more is committed. The result depends on
    the committed tokens alone, not on how they came. A special token that both have by the same
    name becomes the drafter's own; others are left out.

    Attributes: `tokens`, the drafter's; `waiting`: whether the text ends within a character, which
    they do not have yet.
    """

    def __init__(self, target: Writing, drafter: Writing) -> None:
        self._target, self._drafter = target, drafter
        self._markers = {index: drafter.special.get(name) for name, index in target.special.items()}
        self._text = bytearray()
        self._ends: list[int] = []  # where in the text each of the target's tokens ends
        self._stretches: list[_Stretch] = []
        self.tokens = list(drafter.begin)
        self.waiting = False

    def copy(self) -> "Reencoding":
        """Return a copy, which can follow another text."""
        other = copy(self)
        other._text, other._ends = bytearray(self._text), list(self._ends)
        other._stretches, other.tokens = list(self._stretches), list(self.tokens)
        return other

    @property
    def settled(self) -> int:
        """Return how many of `tokens` can be changed by no later token of the target."""
        return self._stretches[-1].tokens_end if self._stretches else len(self._drafter.begin)

    def follow(self, committed: list[int]) -> None:
        """Add the new tokens of `committed`, which begins with the followed ones."""
        new = committed[len(self._ends) :]
        if not new:
            return
        del self.tokens[self.settled :]
        for token in new:
            if token in self._markers:
                self._settle_words()
                self._mark(self._markers[token])
            self._text += self._target.spelled.get(token, b"")
            self._ends.append(len(self._text))
        self._settle_words()
        self._write_latest()

    def rewind(self, length: int) -> None:
        """Keep only the target's first `length` tokens."""
        if length >= len(self._ends):
            return
        while self._stretches and self._stretches[-1].certain_from > length:
            self._stretches.pop()
        del self._ends[length:]
        del self._text[self._ends[-1] if self._ends else 0 :]
        del self.tokens[self.settled :]
        self._write_latest()

    @property
    def _start(self) -> int:
        """The place in the text where its last stretch begins."""
        return self._stretches[-1].text_end if self._stretches else 0

    def _write_latest(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        latest = decoder.decode(bytes(self._text[self._start :]))
        self.waiting = decoder.getstate()[0] != b""
        self.tokens += self._drafter.tokens(latest)

    def _settle_words(self) -> None:
        """Settle every stretch that ends for certain."""
        while len(self._text) > self._start + _FEWEST:
            last = self._start + _MOST
            found = _BETWEEN.search(self._text, self._start + _FEWEST, last + 2)
            if found is not None:
                self._settle(found.start(), seen=found.end())
            elif len(self._text) > last + 1:
                self._settle(_character_at(self._text, last), seen=last + 1)
            else:
                return

    def _settle(self, end: int, *, seen: int) -> None:
        """Settle the stretch that ends at `end`, which the byte at `seen` made certain."""
        self._write(end, certain_from=bisect_right(self._ends, seen) + 1)

    def _write(self, end: int, *, certain_from: int, marker: int | None = None) -> None:
        text = self._text[self._start : end].decode(errors="replace")
        self.tokens += self._drafter.tokens(text)
        if marker is not None:
            self.tokens.append(marker)
        self._stretches.append(_Stretch(end, len(self.tokens), certain_from))

    def _mark(self, marker: int | None) -> None:
        """Add a special token of the target: `marker` for the drafter, or nothing for None."""
        begins = not self._text and self.tokens == [*self._drafter.begin] == [marker]
        self._write(
            len(self._text), certain_from=len(self._ends) + 1, marker=None if begins else marker
        )


def _character_at(text: bytearray, place: int) -> int:
    """Return `place`, or the beginning of the character that it is inside."""
    for back in range(4):
        if text[place - back] & 0xC0 != 0x80:
            return place - back
    return place


def _of_any_place(folder: ModelFolder) -> Tokenizer:
    """Return the folder's tokenizer, changed so that text need not be a beginning and nothing in it
    is special."""
    document = read_json_object(folder.tokenizer_path, maximum_bytes=MAXIMUM_TOKENIZER_BYTES)
    document |= {name: _without_prefix(document.get(name)) for name in _STEPS}
    document |= {"truncation": None, "padding": None, "post_processor": None}
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.encode_special_tokens = True  # as text
    return tokenizer


def _without_prefix(step: Any) -> Any:
    """Return a tokenizer's step without the space that it puts before a text; None if nothing is
    left."""
    if not isinstance(step, dict) or step.get("type") == "Prepend":
        return None
    never = {"prepend_scheme": "never", "add_prefix_space": False}
    changed = {name: never.get(name, value) for name, value in step.items()}
    for name in _STEPS.values():
        if isinstance(step.get(name), list):
            changed[name] = [kept for each in step[name] if (kept := _without_prefix(each))]
    return changed
