"""The tokens that a grammar allows, after the committed tokens and after each token of a draft.

Knows llguidance and a tokenizer; nothing of models, sampling or rounds.

The allowed tokens are a function of the tokens before them and of nothing else: not of who wrote
them, nor of where a draft began. An answer can end only where its grammar allows the end.

If bytes are forced, only the tokens are allowed by which the tokenizer itself would encode them.
JSON is written as Python writes it: ", " between items, ": " after a key, no other blanks.
"""

import json
import re
import sys
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import mlx.core as mx
import numpy as np
from llguidance import LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer

from engine.replies.schemas import JSON, meaningful, problem, telling_line
from engine.request import Grammar
from models.errors import Problem

_LONGEST_SOURCE = 1 << 20  # bytes
_MOST_FORCED = 128  # tokens at once: a long text is forced in parts, between which it can be ended
_WORDS: Mapping[str, str] = {
    "json schema": "JSON schema",
    "regex": "regular expression",
    "lark": "Lark grammar",
}
# In a Lark grammar: strings, expressions and comments; schemas; names of special tokens.
_LARK = re.compile(
    r'"(?:\\.|[^"\\\n])*"|/(?!/)(?:\\.|[^/\\\n])+/|//[^\n]*|#[^\n]*'
    r"|(?P<json>%json\s*)(?=\{)|<(?P<name>[^<>\n]+)>"
)


class Grammars:
    """Makes the constraints of all grammars over one tokenizer.

    `tokenizer` is mlx-lm's; `vocabulary` is the width of the logits; `ends` are the ids that end a
    text.
    """

    def __init__(self, tokenizer: Any, *, vocabulary: int, ends: frozenset[int]) -> None:
        self.vocabulary = vocabulary
        self.ends = frozenset(end for end in ends if 0 <= end < vocabulary)
        self._tokenizer = tokenizer
        self._guide: LLTokenizer | None = None
        self._spellings: _Spellings | None = None

    def constrain(self, grammar: Grammar) -> "Constraint":
        """Return the constraint of a new answer. Raises `Problem` if the grammar is refused."""
        words = _WORDS[grammar.kind]
        try:
            size, after = len(grammar.source.encode()), grammar.after.encode()
        except UnicodeEncodeError:
            raise Problem(
                f"The {words} holds half a character.", "Give both halves of a surrogate pair."
            ) from None
        if size > _LONGEST_SOURCE:
            raise Problem(
                f"The {words} has {size:,} bytes; the limit is {_LONGEST_SOURCE:,}.", "Shorten it."
            )
        if not self.ends:
            raise Problem(
                "This model has no end token, so grammars are not supported.",
                "Choose another model.",
            )
        try:
            source = self._compiled(grammar)
        except (ValueError, RecursionError) as error:
            raise problem(words, str(error)) from None
        constraint = Constraint(self, source, after)
        if constraint.error:
            raise problem(words, constraint.error)
        constraint.allowed([])  # raises where no token can begin
        return constraint

    def matcher(self, source: str) -> LLMatcher:
        """A matcher of a compiled grammar, at its beginning."""
        return LLMatcher(self.guide, source, log_level=0)

    @property
    def guide(self) -> LLTokenizer:
        """The tokenizer in llguidance's form. Made once, which takes half a second."""
        if self._guide is None:
            # A tokenizer may know more ids than the model has logits.
            width = max(self.vocabulary, *(n + 1 for n in self._tokenizer.get_vocab().values()))
            try:
                self._guide = from_tokenizer(
                    self._tokenizer._tokenizer, n_vocab=width, eos_token=sorted(self.ends)
                )
            except ValueError as error:
                raise Problem(
                    f"This model's tokenizer does not support grammars: {error}.",
                    "Choose another model.",
                ) from error
        return self._guide

    @property
    def spellings(self) -> "_Spellings":
        """The bytes of all tokens. Made once."""
        if self._spellings is None:
            ids = {n for n in self._tokenizer.get_vocab().values() if n < self.vocabulary}
            # llguidance marks special tokens with the byte 255, and decodes it to nothing.
            spelled = {n: self.guide.decode_bytes([n]) or b"\xff" for n in ids - self.ends}
            self._spellings = _Spellings(spelled)
        return self._spellings

    def _compiled(self, grammar: Grammar) -> str:
        if grammar.kind == "json schema":
            # Last, so that what the schema itself asks llguidance for changes nothing.
            return LLMatcher.grammar_from_json_schema(_meaningful(grammar.source), overrides=JSON)
        if grammar.kind == "regex":
            return LLMatcher.grammar_from_regex(grammar.source)
        return json.dumps({"grammars": [{"lark_grammar": self._lark(grammar.source)}]})

    def _lark(self, source: str) -> str:
        """A Lark grammar with special tokens by number, and with our options in its schemas."""
        added = {str(token): n for n, token in self._tokenizer.added_tokens_decoder.items()}
        parts: list[str] = []
        place = 0
        while found := _LARK.search(source, place):
            parts.append(source[place : found.start()])
            place = found.end()
            name = found["name"]
            if found["json"]:
                schema, place = json.JSONDecoder().raw_decode(source, place)
                parts.append(found[0] + json.dumps(meaningful(schema) | {"x-guidance": JSON}))
            elif name and (number := added.get(f"<{name}>", added.get(name))) is not None:
                parts.append(f"<[{number}]>")
            else:
                parts.append(found[0])
        return "".join(parts) + source[place:]


class Constraint:
    """The state of one answer: the tokens that its grammar allows next.

    Up to the end of the first `after`, all tokens except the ends are allowed. The grammar begins
    at the byte after it, which may belong to the same token.

    Raises `Problem` if the grammar becomes too complex on the way: a token is never allowed by
    default.
    """

    forcing = True
    room = sys.maxsize

    def __init__(self, grammars: Grammars, source: str, after: bytes) -> None:
        self._grammars = grammars
        self._source = source
        self._matcher = grammars.matcher(source)
        self._fed: list[int] = []  # the tokens that the matcher has consumed
        self._before = _Before(after, grammars.spellings) if after else None
        self._matched: int | None = 0 if after else None  # bytes of `after`; None after it
        self._free_rows: dict[int, bytes] = {}
        self._known: dict[tuple[int, ...], bytes] = {}  # rows, by the tokens after the committed
        self._matcher.compute_bitmask()  # the first takes longest

    @property
    def error(self) -> str:
        """The reason why the grammar cannot be followed; "" if it can."""
        return self._matcher.get_error()

    def forced(self, most: int) -> list[int]:
        """Up to `most` tokens that the grammar forces next, in order.

        The end of the text can be the last of them, if the model has just one such token.
        """
        tokens: list[int] = []
        with self._looking_ahead():
            while len(tokens) < min(most, _MOST_FORCED):
                token = _only(self._row(tokens))
                if token is None:
                    break
                tokens.append(token)
                if token in self._grammars.ends:
                    break
                self._take(token)
        return tokens

    def allowed(self, drafted: list[int]) -> int:
        """The number of leading tokens of `drafted` that are allowed; none after an end."""
        pairs = zip(self._rows(drafted), drafted, strict=False)
        return sum(_allows(row, token) for row, token in pairs)

    def masks(self, drafted: list[int]) -> mx.array:
        """The tokens allowed after each prefix of `drafted`: bool, (len(drafted) + 1, vocabulary).

        Rows after a token that is not allowed, or after an end, are all true.
        """
        rows = self._rows(drafted)
        packed = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)
        bits = (mx.array(packed)[:, :, None] >> mx.arange(8, dtype=mx.uint8)) & 1
        masks = bits.reshape(len(rows), -1)[:, : self._grammars.vocabulary].astype(mx.bool_)
        unreached = mx.ones((len(drafted) + 1 - len(rows), masks.shape[1]), dtype=mx.bool_)
        return mx.concatenate([masks, unreached])

    def commit(self, tokens: list[int]) -> None:
        """Make `tokens` part of the answer. Raises ValueError if one of them is not allowed."""
        for number, token in enumerate(tokens):
            if not _allows(self._row(tokens[:number]), token):
                raise ValueError(f"token {token} was committed, and is not allowed")
            if token not in self._grammars.ends:
                self._take(token)
        here = tuple(tokens)
        self._known = {
            prefix[len(here) :]: row
            for prefix, row in self._known.items()
            if prefix[: len(here)] == here
        }

    def _rows(self, drafted: list[int]) -> list[bytes]:
        """The rows after each prefix of `drafted` that is allowed; a row has a bit per token."""
        with self._looking_ahead():
            rows = [self._row([])]
            for number, token in enumerate(drafted, 1):
                if token in self._grammars.ends or not _allows(rows[-1], token):
                    break
                self._take(token)
                rows.append(self._row(drafted[:number]))
        return rows

    def _row(self, ahead: list[int]) -> bytes:
        """The row at the matcher's place: after the committed tokens and those `ahead`."""
        if self._matcher.is_error():
            raise _lost(self.error)
        row = self._known.get(tuple(ahead))
        if row is None:
            row = self._free_row() if self._matched is not None else self._constrained_row()
            if not any(row):
                raise Problem(
                    "No token of this model continues the text as the grammar requires.",
                    "Choose another grammar.",
                )
            self._known[tuple(ahead)] = row
        return row

    def _constrained_row(self) -> bytes:
        row = self._mask(self._matcher)
        only = _only(row)
        done = self._matcher.is_accepting()
        if only is not None and not done and not self._matcher.validate_tokens([only]):
            # The name of a special token is forced as text: it is written with other tokens.
            with_text = self._grammars.matcher(_unforced(self._source))
            with_text.consume_tokens(self._fed)
            row = self._mask(with_text)
        return row

    def _mask(self, matcher: LLMatcher) -> bytes:
        row = matcher.compute_bitmask()
        if matcher.is_error():  # it would allow the end
            raise _lost(matcher.get_error())
        return _cut(row, self._grammars.vocabulary)

    def _free_row(self) -> bytes:
        """The row before the end of `after`: all tokens, except the ends, and except tokens that
        complete `after` with a rest that the grammar does not allow."""
        assert self._before is not None
        assert self._matched is not None
        row = self._free_rows.get(self._matched)
        if row is None:
            grammars = self._grammars
            forbidden = sum(1 << end for end in grammars.ends)
            for token in self._before.completing(self._matched):
                rest = grammars.spellings.letters(self._before.step(self._matched, token)[1])
                if rest is None or self._matcher.validate_tokens(rest) < len(rest):
                    forbidden |= 1 << token
            every = (1 << grammars.vocabulary) - 1
            row = (every & ~forbidden).to_bytes(-(-grammars.vocabulary // 8), "little")
            self._free_rows[self._matched] = row
        return row

    def _take(self, token: int) -> None:
        """Advance the matcher by an allowed token."""
        tokens: list[int] | None = [token]
        if self._matched is not None:
            assert self._before is not None
            self._matched, rest = self._before.step(self._matched, token)
            tokens = self._grammars.spellings.letters(rest)
        if tokens is None or not self._matcher.consume_tokens(tokens):
            raise _lost(self.error)
        self._fed += tokens

    @contextmanager
    def _looking_ahead(self) -> Iterator[None]:
        """Undo, at the end of the block, all tokens taken inside it."""
        fed, matched = len(self._fed), self._matched
        try:
            yield
        finally:
            self._matcher.rollback(len(self._fed) - fed)
            del self._fed[fed:]
            self._matched = matched


class _Spellings:
    """The bytes of all tokens except the ends; a special token's bytes are its name."""

    def __init__(self, spellings: Mapping[int, bytes]) -> None:
        self._of = spellings
        self._sorted = sorted((spelling, token) for token, spelling in spellings.items())
        self._letters = {spelling: n for spelling, n in self._sorted if len(spelling) == 1}

    def of(self, token: int) -> bytes:
        """The bytes of a token; empty for an id that the tokenizer does not know."""
        return self._of.get(token, b"")

    def beginning_with(self, begin: bytes) -> list[int]:
        """The tokens whose bytes begin with `begin`."""
        place = bisect_left(self._sorted, (begin, -1))
        rest = (self._sorted[n] for n in range(place, len(self._sorted)))
        return [token for _, token in takewhile(lambda pair: pair[0].startswith(begin), rest)]

    def holding(self, part: bytes) -> list[int]:
        """The tokens whose bytes contain `part`."""
        return [token for spelling, token in self._sorted if part in spelling]

    def letters(self, spelling: bytes) -> list[int] | None:
        """The same bytes as tokens of one byte each; None if a byte has no such token."""
        found = [self._letters.get(spelling[n : n + 1]) for n in range(len(spelling))]
        return [n for n in found if n is not None] if None not in found else None


class _Before:
    """Finds the end of the first `after`, byte by byte. A state is the number of matched bytes."""

    def __init__(self, after: bytes, spellings: _Spellings) -> None:
        self._after, self._spellings = after, spellings
        self._whole = spellings.holding(after)

    def step(self, matched: int, token: int) -> tuple[int | None, bytes]:
        """Return the state after a token; if `after` is complete, None and the bytes after it."""
        after = self._after
        text = after[:matched] + self._spellings.of(token)
        _, found, rest = text.partition(after)
        if found:
            return None, rest
        sizes = range(min(len(after) - 1, len(text)), -1, -1)
        return next(size for size in sizes if text.endswith(after[:size])), b""

    def completing(self, matched: int) -> set[int]:
        """The tokens that complete `after`."""
        after = self._after
        starts = [size for size in range(1, matched + 1) if after[:matched].endswith(after[:size])]
        parts = (self._spellings.beginning_with(after[size:]) for size in starts)
        return {token for part in [self._whole, *parts] for token in part}


def _only(row: bytes) -> int | None:
    """The only token that a row allows; None if it allows several."""
    bits = int.from_bytes(row, "little")
    return bits.bit_length() - 1 if bits.bit_count() == 1 else None


def _allows(row: bytes, token: int) -> bool:
    return token >> 3 < len(row) and bool(row[token >> 3] >> (token & 7) & 1)


def _cut(row: bytes, vocabulary: int) -> bytes:
    """The first `vocabulary` bits of a row."""
    row = row[: -(-vocabulary // 8)]
    spare = len(row) * 8 - vocabulary
    return row[:-1] + bytes([row[-1] & (0xFF >> spare)]) if spare else row


def _unforced(source: str) -> str:
    """The same grammar, which allows every way to encode forced bytes."""
    (grammar,) = json.loads(source)["grammars"]
    outer = {"lark_grammar": '%llguidance {"no_forcing": true}\nstart: @inner'}
    return json.dumps({"grammars": [outer, grammar | {"name": "inner"}]})


def _meaningful(source: str) -> str:
    """Return a JSON schema without keywords that say nothing; a text that is not JSON as it is."""
    try:
        return json.dumps(meaningful(json.loads(source)))
    except ValueError:
        return source


def _lost(error: str) -> Problem:
    reason = telling_line(error)
    return Problem(f"The grammar became too complex to follow: {reason}.", "Simplify it.")
