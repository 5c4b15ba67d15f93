"""Whether a drafter uses the target's tokens, and if not, which of them it shares.

A drafter proposes token ids, and the target checks ids: they must mean the same text on both
sides. Sizes are not enough (Gemma 2's 2B and 27B have equally long tables that differ at token
139), so the tables themselves are compared, by id. The rule is not symmetric:

- A token that only the target has is fine. The drafter never proposes it (q = 0), and the
  target still writes it itself.
- A token that only the drafter has, or has under another id, is not: its proposals would mean
  something else to the target, or lie past the target's last row. Special tokens count like all
  others: one side's end of turn must not be the other's call of a tool.
- Ids without any token, which pad an output layer to a round number of rows, are not tokens and
  are not compared; a sampler must give them no probability.

The merges must be equal too: with others, the drafter was trained on differently split text.
What else a tokenizer.json says (normalizer, pre-tokenizer, flags of added tokens) is how one side
turns text into ids. Only the target's is ever run, so the drafter's does not matter; and the same
rule is written in several ways by different versions of the libraries, which would differ.
"""

import filecmp
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from models.errors import Problem
from models.files import read_json_object

MAXIMUM_TOKENIZER_BYTES = 100_000_000  # the largest known have 35 million
_SHOWN_CHARACTERS = 40
_BYTE_NAME = re.compile(r"<0x[0-9A-Fa-f]{2}>")


def _byte_letters() -> dict[str, int]:
    """Return the byte that each letter means in the names of byte-level tokens (GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): b for i, b in enumerate(others)}


_BYTE_OF_LETTER: Mapping[str, int] = MappingProxyType(_byte_letters())


@dataclass(frozen=True)
class TokenDifference:
    """The first place where two tokenizers differ.

    index: a token id, or the position of a merge rule; target, drafter: the texts there, or None.
    """

    kind: Literal["token", "merge"]
    index: int
    target: str | None
    drafter: str | None

    def between(self, target: str, drafter: str) -> str:
        """The difference in words; `target` and `drafter` are the models' names."""
        texts = ((self.target, target), (self.drafter, drafter))
        there = " and ".join(f"{_shown(text)} in {name}" for text, name in texts)
        return f"{self.kind} {self.index} is {there}"


@dataclass(frozen=True)
class TokenTable:
    """The token of each id, special and added ones included, and the merge rules as "left right".

    `special`: the ids of tokens that are not text. `alphabet`: how names spell bytes, a letter for
    each (GPT-2) or as text with marked spaces (SentencePiece); None if that is not known.
    """

    tokens: dict[int, str]
    merges: list[str]
    special: frozenset[int] = frozenset()
    alphabet: Literal["letters", "marked spaces"] | None = None

    @cached_property
    def spelled(self) -> Mapping[int, bytes]:
        """The bytes of every token that is not special; empty if they are not known."""
        if self.alphabet is None:
            return {}
        of = _by_letters if self.alphabet == "letters" else _with_marked_spaces
        return {n: of(name) for n, name in self.tokens.items() if n not in self.special}


def spelled_by_letters(name: str) -> bytes:
    """Return the bytes of a byte-level token with this name; empty if its letters mean no
    bytes."""
    try:
        return bytes(map(_BYTE_OF_LETTER.__getitem__, name))
    except KeyError:
        return b""


def byte_named(name: str) -> bytes:
    """Return the byte of SentencePiece's byte fallback that is called `name`; empty for another
    token."""
    return bytes([int(name[3:5], 16)]) if _BYTE_NAME.fullmatch(name) else b""


def _by_letters(name: str) -> bytes:
    return spelled_by_letters(name) or name.encode()  # added tokens are named by their text


def _with_marked_spaces(name: str) -> bytes:
    return byte_named(name) or name.replace("\u2581", " ").encode()


def shared_tokens(target: Mapping[int, bytes], drafter: Mapping[int, bytes]) -> dict[int, int]:
    """Return, for each of the target's tokens that the drafter has too, the drafter's token. Tokens
    are the same if they spell the same.

    If a table spells the same twice, as SentencePiece's has a letter and its byte, the later one
    counts: bytes come first.
    """
    theirs = {text: index for index, text in sorted(drafter.items())}
    ours = {text: index for index, text in sorted(target.items())}
    return {ours[text]: index for text, index in theirs.items() if text and text in ours}


def shared_parts(target: TokenTable, drafter: TokenTable) -> tuple[float, float]:
    """Return the part of the target's texts that are tokens of the drafter too, and the other
    way."""
    ours, theirs = set(target.spelled.values()), set(drafter.spelled.values())
    both = len(ours & theirs)
    return both / max(len(ours), 1), both / max(len(theirs), 1)


def compare(target: TokenTable, drafter: TokenTable) -> TokenDifference | None:
    """The first difference by the rule above; None if there is none."""
    ours, theirs = target.tokens, drafter.tokens
    if ours != theirs:
        for index in sorted(theirs):
            if ours.get(index) != theirs[index]:
                return TokenDifference("token", index, ours.get(index), theirs[index])
    if target.merges != drafter.merges:
        for index, (our, their) in enumerate(zip_longest(target.merges, drafter.merges)):
            if our != their:
                return TokenDifference("merge", index, our, their)
    return None


def same_file(target: Path, drafter: Path) -> bool:
    """Whether two folders hold the same tokenizer.json byte by byte: quicker than parsing them."""
    try:
        return filecmp.cmp(target / "tokenizer.json", drafter / "tokenizer.json", shallow=False)
    except OSError:
        return False


def read_table(folder: Path) -> TokenTable:
    """The tokens of a model folder. Raises Problem if it has no readable tokenizer.json."""
    path = folder / "tokenizer.json"
    document = read_json_object(path, maximum_bytes=MAXIMUM_TOKENIZER_BYTES)
    try:
        model = document["model"]
        tokens = {index: token for token, index in _vocabulary(model["vocab"])}
        tokens |= {added["id"]: added["content"] for added in document.get("added_tokens") or ()}
        merges = [
            rule if isinstance(rule, str) else " ".join(rule) for rule in model.get("merges") or ()
        ]
        if all(type(index) is int for index in tokens) and set(map(type, tokens.values())) <= {str}:
            special = {
                one["id"] for one in document.get("added_tokens") or () if one.get("special")
            }
            return TokenTable(tokens, merges, frozenset(special), _alphabet(document))
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    raise Problem(f"{path} holds no table of tokens.", "Download or import the model again.")


def _alphabet(document: Mapping[str, Any]) -> Literal["letters", "marked spaces"] | None:
    """Return the way in which names of tokens spell bytes, from the decoder's parts."""
    decoder = document.get("decoder") or {}
    steps = [decoder, *(decoder.get("decoders") or ())]
    kinds = {step["type"] for step in steps if step}
    if "ByteLevel" in kinds:
        return "letters"
    return "marked spaces" if kinds & {"ByteFallback", "Metaspace"} else None


def _vocabulary(vocabulary: Any) -> Iterable[tuple[str, int]]:
    """Return pairs of text and id. BPE and WordPiece map texts to ids; Unigram lists a text and a
    score in the order of the ids."""
    if isinstance(vocabulary, dict):
        return vocabulary.items()
    return ((token, index) for index, (token, _) in enumerate(vocabulary))


def _shown(text: str | None) -> str:
    if text is None:
        return "nothing"
    shown = ascii(text) if not text.isprintable() else repr(text)
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}..."
