"""Turns token ids into text: of one token, of a growing answer, cut at a stop string.

Knows a tokenizer and nothing of models, events or terminals. Text is held back if it ends in half a
character, or if a later token could still change it. Each text comes with the number of characters
that each token gave to it: `engine.events` has the laws.
"""

from collections import deque
from collections.abc import Container, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Protocol

from engine.events import CallPiece
from engine.near_ties import alike
from engine.replies.incoming import may_begin
from engine.replies.reading import ReplyReader
from engine.stretches import Kind, Stretch, cut, joined
from models.errors import Problem
from models.token_tables import byte_named, spelled_by_letters

_HALF = "\ufffd"
_ENDING_TOKENS = 16


class Tokenizer(Protocol):
    """The part of a Hugging Face fast tokenizer that is used here.

    If it also has `convert_ids_to_tokens`, tokens of SentencePiece's byte fallback are recognized.
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


def text_of(tokenizer: Tokenizer, token_ids: Sequence[int]) -> str:
    """The text of a part of a prompt, with the names of special tokens, such as "<think>"."""
    return _decode(tokenizer, token_ids, skip_special=False)


def ending_of(tokenizer: Tokenizer, token_ids: Sequence[int]) -> str:
    """The last characters of a prompt, with the names of special tokens."""
    return text_of(tokenizer, token_ids[-_ENDING_TOKENS:])


def _second(tokenizer: Tokenizer, token_id: int, *, skip_special: bool) -> str:
    """The text of a token after another one: SentencePiece strips the first token's space."""
    alone = _decode(tokenizer, [token_id], skip_special=skip_special)
    if _HALF in alone:
        return alone
    return _decode(tokenizer, [token_id, token_id], skip_special=skip_special)[len(alone) :]


class TokenTexts:
    """The text of single tokens, for display. Caches it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._texts: dict[int, str] = {}

    def bytes_of(self, token_id: int) -> bytes:
        """The bytes of the token's text, even if they are part of a character."""
        text = self.text_of(token_id)
        if _HALF not in text:
            return text.encode()
        name_of = getattr(self._tokenizer, "convert_ids_to_tokens", None)
        name = str(name_of(token_id)) if name_of else text
        return byte_named(name) or spelled_by_letters(name) or text.encode()

    def text_of(self, token_id: int) -> str:
        """The token's text with its leading space; a special token's name; U+FFFD for half a
        character; "" for an id that the tokenizer does not know."""
        text = self._texts.get(token_id)
        if text is None:
            text = _second(self._tokenizer, token_id, skip_special=False)
            self._texts[token_id] = text
        return text


class TextStream:
    """Detokenizes an answer piece by piece, and counts the characters of each token.

    The texts of all pushes and of `finish` together are exactly the tokenizer's decoding of all
    ids, special tokens skipped, for any chunking. Each text comes with a list of lengths, one for
    every token in order: a token's text comes whole, once. Example: pushing the ids of "Hel", "lo"
    gives ("Hello", [3, 2]).

    The cost is linear in the answer: only a window is decoded again, which starts at the last
    final place, plus one final stretch before it, which keeps the decoder from stripping a
    space as if the text began there (the "prefix offset" of Hugging Face's
    text-generation-inference).

    Two things are held back. A last U+FFFD, which may be half a character, with the token that
    began it. And a run of SentencePiece's byte tokens (`<0xE4>`): one bad byte, however late,
    makes the decoder print the whole run as U+FFFD.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, special: bool = False, ends: Container[int] = ()
    ) -> None:
        """`special`: the names of special tokens are part of the text, except those in `ends`."""
        self._tokenizer = tokenizer
        self._skip_special, self._ends_text = not special, ends
        self._window: list[int] = []  # one final stretch, then ids whose text may still change
        self._final_ids = 0  # ids of the window whose text is final
        self._returned = 0  # ids of the window whose text was returned
        self._shown = 0  # characters of the window's text that were returned
        self._bytes_from = 0  # where the run of byte tokens at the window's end begins
        self._pending = deque[bool]()  # for tokens without a length yet: is it in the window?
        self._own: dict[int, str] = {}  # texts of single tokens
        self._is_byte: dict[int, bool] = {}

    def push(self, token_ids: Iterable[int]) -> tuple[str, list[int]]:
        """Return the text that became final with these tokens, and the length of each token."""
        for token_id in token_ids:
            silent = self._own_text(token_id) == ""
            self._pending.append(not silent)
            if not silent:
                self._window.append(token_id)
                if not self._falls_back(token_id):
                    self._bytes_from = len(self._window)
        end = self._bytes_from
        if end == self._returned:
            return "", self._with_silent([])
        text = self._text(self._window[:end])
        ends = self._ends(text, end)
        if not text.endswith(_HALF):
            piece = self._take(text, ends)
            self._move_window(self._final_ids, end)
        else:
            piece = self._take(text, [place for place in ends if place < len(text)])
            self._finalize_bad_bytes(text, end)
        return piece

    def finish(self) -> tuple[str, list[int]]:
        """Return the text that was held back, and its lengths. No more tokens may follow."""
        text = self._text(self._window)
        piece = self._take(text, self._ends(text, len(self._window)))
        self._window, self._final_ids, self._returned = [], 0, 0
        self._shown = self._bytes_from = 0
        return piece

    def _text(self, token_ids: Sequence[int]) -> str:
        return _decode(self._tokenizer, token_ids, skip_special=self._skip_special)

    def _take(self, text: str, ends: list[int]) -> tuple[str, list[int]]:
        """The new text of the window's next tokens, which end at `ends`."""
        places = [self._shown, *ends]
        delta = text[self._shown : places[-1]]
        self._returned += len(ends)
        self._shown = places[-1]
        return delta, self._with_silent([right - left for left, right in pairwise(places)])

    def _with_silent(self, lengths: list[int]) -> list[int]:
        """`lengths` of the window's next tokens, with a 0 for each token without text."""
        found: list[int] = []
        left = deque(lengths)
        while self._pending and (left or not self._pending[0]):
            found.append(left.popleft() if self._pending.popleft() else 0)
        return found

    def _ends(self, text: str, end: int) -> list[int]:
        """The ends, in `text`, of the window's tokens from `_returned` to `end`.

        `text` is the window's up to `end`. A token's text ends where decoding up to it stops
        agreeing with the whole.
        """
        own = [self._own_text(token_id) for token_id in self._window[self._returned : end]]
        if _HALF not in text and "".join(own) == text[self._shown :]:  # the usual case
            return list(accumulate(map(len, own), initial=self._shown))[1:]
        ends: list[int] = []
        place, start = self._shown, self._returned
        while start < end:
            stop = start + 1
            falls_back = self._falls_back(self._window[start])
            while falls_back and stop < end and self._falls_back(self._window[stop]):
                stop += 1
            until = len(text)
            if stop < end:
                until = alike(text, self._text(self._window[:stop]))
            shares = _byte_ends(text[place:until], stop - start) if falls_back else [until - place]
            ends += [place + max(0, share) for share in shares]
            place, start = ends[-1], stop
        return ends

    def _move_window(self, start: int, end: int) -> None:
        """Begin the window at `start`; everything before `end` is final and returned."""
        self._window = self._window[start:]
        self._final_ids = self._returned = end - start
        self._bytes_from -= start
        self._shown = len(self._text(self._window[: self._final_ids]))

    def _finalize_bad_bytes(self, text: str, end: int) -> None:
        """Keep the window short in a long run of invalid bytes.

        A place is between characters if its two sides, decoded alone, give the decoding of the
        whole: a character cut in two gives more U+FFFD. An unfinished character has at most three
        bytes, so such a place is near.
        """
        if end - self._final_ids <= 8:
            return
        for split in range(end - 1, end - 5, -1):
            left = self._text(self._window[self._final_ids : split])
            right = self._text(self._window[split:end])
            if right and text.endswith(left + right):
                self._window = self._window[split:]
                self._final_ids = 0
                self._returned -= split
                self._bytes_from -= split
                self._shown -= len(text) - len(right)
                return

    def _own_text(self, token_id: int) -> str:
        """The text of a token after another one.

        Empty for a token that decoding skips: special, in `ends`, or not in the vocabulary.
        """
        text = self._own.get(token_id)
        if text is None:
            text = ""
            if self._skip_special or token_id not in self._ends_text:
                text = _second(self._tokenizer, token_id, skip_special=self._skip_special)
            self._own[token_id] = text
        return text

    def _falls_back(self, token_id: int) -> bool:
        """Whether the token is one byte of SentencePiece's byte fallback."""
        is_byte = self._is_byte.get(token_id)
        if is_byte is None:
            name_of = getattr(self._tokenizer, "convert_ids_to_tokens", None)
            name = name_of(token_id) if name_of else None
            is_byte = isinstance(name, str) and byte_named(name) != b""
            self._is_byte[token_id] = is_byte
        return is_byte


def _byte_ends(text: str, count: int) -> list[int]:
    """The end of each of `count` byte tokens in `text`, which is the decoding of their run."""
    if text == _HALF * count:  # because one byte was bad
        return list(range(1, count + 1))
    ends: list[int] = []
    for place, character in enumerate(text):
        size = len(character.encode())
        waits = 0 if character == _HALF else size - 1
        ends += [place] * waits + [place + 1] * (size - waits)
    return [0] * (count - len(ends)) + ends  # a space that begins the answer may be stripped


class StopStrings:
    """Cuts a text at the stop string that begins first, for any chunking of the text.

    `cut` is the text from that stop string on, with everything pushed after it. If a stop string
    is found but an earlier one could still be completed, the text is held until more arrives.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if "" in stops:
            raise Problem("A stop string is empty.", "Remove it, or enter text.")
        self._stops = tuple(stops)
        self._held = ""
        self.stopped = False
        self.cut = ""

    def push(self, text: str) -> tuple[str, bool]:
        """Return the text that became final, and whether a stop string was found."""
        if self.stopped:
            self.cut += text
            return "", True
        self._held += text
        found, possible = self._found(), may_begin(self._held, self._stops)
        if found is not None and found <= possible:
            return self._cut_at(found), True
        final, self._held = self._held[:possible], self._held[possible:]
        return final, False

    def finish(self) -> str:
        """Return the text that was held, as no stop string goes on after it; may set `stopped`."""
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
        """The first place in the held text where a complete stop string begins; None without."""
        places = (self._held.find(stop) for stop in self._stops)
        return min((place for place in places if place >= 0), default=None)


class AnswerText:
    """The final text of an answer so far, with the length of each token's text, and its stretches.

    A `TextStream`, read by a `ReplyReader`, its content cut by `StopStrings`. Every token gets one
    length, in order, together with all of its text: if a part of it could begin a stop string, or
    its kind is not certain yet, the whole token is held back.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stops: Sequence[str],
        *,
        special: bool = False,
        ends: Container[int] = (),
        reader: ReplyReader | None = None,
    ) -> None:
        """`special` and `ends` as for `TextStream`. Without a `reader`, all is content."""
        self._stream = TextStream(tokenizer, special=special, ends=ends)
        self._stops = StopStrings(stops)
        self._reader = reader
        self._lengths: deque[int] = deque()  # of the tokens that are held back
        self._unread = ""  # text whose kind is not certain
        self._final = ""  # of the tokens that are held back, the text that is certain
        self._stretches: list[Stretch] = []  # of that text
        self._called = 0  # stretches of calls

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._stops.stopped

    @property
    def cut(self) -> str:
        """The text from the stop string on."""
        return self._stops.cut

    def calls(self) -> tuple[CallPiece, ...]:
        """Return the pieces of calls before the stop string that came since the last call of
        this."""
        pieces = () if self._reader is None else self._reader.calls()
        return tuple(piece for piece in pieces if piece.index < self._called or not self.stopped)

    def push(self, token_ids: Iterable[int]) -> tuple[str, list[int], tuple[Stretch, ...]]:
        """Return the text of the tokens that became final, each token's length, and the text's
        stretches.

        Tokens without text are returned with the next token that has some.
        """
        text, lengths = self._stream.push(token_ids)
        self._lengths += lengths
        self._read(text)
        complete: list[int] = []
        place = 0
        for length in self._lengths:
            if place + length > len(self._final):
                break
            complete.append(length)
            place += length
        return self._take(place, complete if place else [])

    def finish(self, *, cut: bool = False) -> tuple[str, list[int], tuple[Stretch, ...]]:
        """Return the text that was held back, up to a stop string, its lengths and stretches.
        `cut`: the model was not ready; see `ReplyReader.finish`."""
        text, lengths = self._stream.finish()
        self._lengths += lengths
        self._read(text)
        if self._reader is not None:
            self._sort(self._reader.finish(cut=cut))
        self._add("content", self._stops.finish())
        place, complete = 0, list[int]()
        for length in self._lengths:
            complete.append(min(length, len(self._final) - place))
            place += complete[-1]
        return self._take(place, complete)

    def _read(self, text: str) -> None:
        self._unread += text
        plain = [Stretch("content", len(text))]
        self._sort(plain if self._reader is None else self._reader.push(text))

    def _sort(self, stretches: Sequence[Stretch]) -> None:
        """Take these stretches from the unread text, and look for stop strings in the content."""
        for stretch in stretches:
            text, self._unread = self._unread[: stretch.length], self._unread[stretch.length :]
            if stretch.kind != "content":
                self._add("content", self._stops.finish())  # no stop string goes on after it
            if stretch.kind == "content" or self.stopped:
                self._add("content", self._stops.push(text)[0])
            else:
                self._called += stretch.kind == "call"
                self._add(stretch.kind, text)

    def _add(self, kind: Kind, text: str) -> None:
        self._final += text
        self._stretches.append(Stretch(kind, len(text)))

    def _take(self, place: int, complete: list[int]) -> tuple[str, list[int], tuple[Stretch, ...]]:
        text, self._final = self._final[:place], self._final[place:]
        for _ in complete:
            self._lengths.popleft()
        taken, left = cut(self._stretches, place)
        self._stretches = list(left)
        return text, complete, joined(taken)
