"""From token ids to text: the text of one token, of a growing answer, and where to cut it.

Knows a tokenizer and nothing of models, events or terminals. Where half a character would come
out, or a piece that a later token could still change, it waits.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from models.errors import Problem

_HALF = "\ufffd"
_BYTE_NAME = re.compile(r"<0x[0-9A-Fa-f]{2}>")


class Tokenizer(Protocol):
    """The part of a Hugging Face fast tokenizer that is used here.

    Its `convert_ids_to_tokens` is asked too, where it has one: without, no token is taken for a
    byte of SentencePiece's byte fallback.
    """

    def decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = ...,
        *,
        clean_up_tokenization_spaces: bool | None = ...,
    ) -> Any:
        """The text of a list of ids."""


def _decode(tokenizer: Tokenizer, token_ids: Sequence[int], *, skip_special: bool = True) -> str:
    return str(
        tokenizer.decode(
            list(token_ids), skip_special_tokens=skip_special, clean_up_tokenization_spaces=False
        )
    )


def _second(tokenizer: Tokenizer, token_id: int, *, skip_special: bool) -> str:
    """The text of a token that is not the first: SentencePiece strips the first one's space."""
    alone = _decode(tokenizer, [token_id], skip_special=skip_special)
    if _HALF in alone:
        return alone
    return _decode(tokenizer, [token_id, token_id], skip_special=skip_special)[len(alone) :]


class Spelling:
    """The text of single tokens, for display; remembers what it has spelled."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._texts: dict[int, str] = {}

    def spell(self, token_id: int) -> str:
        """The token's text with its leading space, a special token's name, U+FFFD for half a
        character, and nothing for an id that the tokenizer does not know."""
        text = self._texts.get(token_id)
        if text is None:
            text = _second(self._tokenizer, token_id, skip_special=False)
            self._texts[token_id] = text
        return text


class TextStream:
    """Detokenizes an answer piece by piece.

    The texts of all pushes and of `finish` together are exactly the tokenizer's decoding of all
    ids, special tokens skipped, whatever the chunking. The cost is linear in the answer: what is
    decoded again is a window that starts at the last settled place, plus one settled stretch
    before it, which keeps the decoder from stripping a space as if the text began there (the
    "prefix offset" of Hugging Face's text-generation-inference).

    Two things are held back. A last U+FFFD, which may be half a character; bytes before it are
    final. And a run of SentencePiece's byte tokens (`<0xE4>`): one bad byte, however late, makes
    the decoder print the whole run as U+FFFD.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._window: list[int] = []  # one settled stretch, then what is not settled yet
        self._settled = 0  # ids of the window that nothing can change any more
        self._shown = 0  # characters of the window's text that were returned
        self._bytes_from = 0  # where the run of byte tokens at the window's end begins
        self._silent: dict[int, bool] = {}
        self._is_byte: dict[int, bool] = {}

    def push(self, token_ids: Iterable[int]) -> str:
        """The text that became final with these tokens."""
        for token_id in token_ids:
            if not self._leaves_no_text(token_id):
                self._window.append(token_id)
                if not self._falls_back(token_id):
                    self._bytes_from = len(self._window)
        end = self._bytes_from
        if end == self._settled:
            return ""
        text = _decode(self._tokenizer, self._window[:end])
        final = text.removesuffix(_HALF)
        delta, self._shown = final[self._shown :], len(final)
        if final == text:
            self._move_window(self._settled, end)
        else:
            self._settle_bad_bytes(text, end)
        return delta

    def finish(self) -> str:
        """What was held back: nothing more will come that could complete it."""
        delta = _decode(self._tokenizer, self._window)[self._shown :]
        self._window, self._settled, self._shown, self._bytes_from = [], 0, 0, 0
        return delta

    def _move_window(self, start: int, end: int) -> None:
        """Let the window begin at `start`, with everything before `end` settled and returned."""
        self._window = self._window[start:]
        self._settled = end - start
        self._bytes_from -= start
        self._shown = len(_decode(self._tokenizer, self._window[: self._settled]))

    def _settle_bad_bytes(self, text: str, end: int) -> None:
        """Keep the window short where invalid bytes follow each other without an end.

        A place where both sides decode to what they decode to together lies between characters:
        cutting one in two gives more U+FFFD than the whole. An unfinished character has at most
        three bytes, so such a place is near.
        """
        if end - self._settled <= 8:
            return
        for split in range(end - 1, end - 5, -1):
            left = _decode(self._tokenizer, self._window[self._settled : split])
            right = _decode(self._tokenizer, self._window[split:end])
            if right and text.endswith(left + right):
                self._window = self._window[split:]
                self._settled = 0
                self._bytes_from -= split
                self._shown = len(right) - 1
                return

    def _leaves_no_text(self, token_id: int) -> bool:
        """Whether decoding skips the token: a special one, or an id beyond the vocabulary."""
        silent = self._silent.get(token_id)
        if silent is None:
            silent = _second(self._tokenizer, token_id, skip_special=True) == ""
            self._silent[token_id] = silent
        return silent

    def _falls_back(self, token_id: int) -> bool:
        """Whether the token is one byte of SentencePiece's byte fallback."""
        is_byte = self._is_byte.get(token_id)
        if is_byte is None:
            name_of = getattr(self._tokenizer, "convert_ids_to_tokens", None)
            name = name_of(token_id) if name_of else None
            is_byte = isinstance(name, str) and _BYTE_NAME.fullmatch(name) is not None
            self._is_byte[token_id] = is_byte
        return is_byte


class StopStrings:
    """Cuts a text at the stop string that begins first, however the text arrives.

    `cut` is the text from that stop string on, and whatever was pushed after it. Where a stop
    string was found and an earlier one could still be completed, it waits for the outcome.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if "" in stops:
            raise Problem("A stop string is empty.", "Leave it out, or give it a character.")
        self._stops = tuple(stops)
        self._longest = max((len(stop) for stop in self._stops), default=0)
        self._held = ""
        self.stopped = False
        self.cut = ""

    def push(self, text: str) -> tuple[str, bool]:
        """The text that became final, and whether a stop string was found."""
        if self.stopped:
            self.cut += text
            return "", True
        self._held += text
        found, possible = self._found(), self._possible()
        if found is not None and found <= possible:
            return self._cut_at(found), True
        final, self._held = self._held[:possible], self._held[possible:]
        return final, False

    def finish(self) -> str:
        """What was held: no stop string can be completed any more. May still set `stopped`."""
        found = self._found()
        if found is not None:
            return self._cut_at(found)
        final, self._held = self._held, ""
        return final

    def _cut_at(self, place: int) -> str:
        final, self.cut, self._held = self._held[:place], self._held[place:], ""
        self.stopped = True
        return final

    def _found(self) -> int | None:
        """Where the first complete stop string begins in the held text."""
        places = (self._held.find(stop) for stop in self._stops)
        return min((place for place in places if place >= 0), default=None)

    def _possible(self) -> int:
        """Where the first stop string may begin that the held text breaks off; else its end."""
        end = len(self._held)
        for place in range(max(0, end - self._longest + 1), end):
            if any(stop.startswith(self._held[place:]) for stop in self._stops):
                return place
        return end
