"""Whether a drafter speaks the target's tokens.

A drafter proposes token ids, and the target checks ids: they must mean the same text on both
sides. Sizes do not tell (Gemma 2's 2B and 27B have equally long tables that differ at token
139), so the tables themselves are compared, by id. The rule is not symmetric:

- A token that only the target has is fine. The drafter never proposes it (q = 0), and the
  target writes it itself when it wants to.
- A token that only the drafter has, or has under another id, is not: its proposals would mean
  something else to the target, or lie past the target's last row.
- Ids without any token, which pad an output layer to a round number of rows, are no tokens and
  are not compared; whoever samples must give them no probability.

The merges must be equal too: with others, the drafter was trained on text cut in other places.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from models.errors import Problem
from models.folders import read_json_object

MAXIMUM_TOKENIZER_BYTES = 200_000_000


@dataclass(frozen=True)
class Difference:
    """The first place where two tokenizers differ.

    index: a token id, or the position of a merge rule; target, drafter: the texts there, None
    where there is none.
    """

    kind: Literal["token", "merge"]
    index: int
    target: str | None
    drafter: str | None


def require_same_tokens(target: Path, drafter: Path) -> None:
    """Raise Problem, naming the first difference, unless `drafter` can draft for `target`."""
    difference = first_difference(target, drafter)
    if difference is None:
        return
    texts = " and ".join(
        f"{'nothing' if text is None else repr(text)} in {folder.name}"
        for text, folder in ((difference.target, target), (difference.drafter, drafter))
    )
    raise Problem(
        f"{drafter.name} cannot draft for {target.name}: "
        f"{difference.kind} {difference.index} is {texts}.",
        "Choose a drafter of the same model family, or draft without a model.",
    )


def first_difference(target: Path, drafter: Path) -> Difference | None:
    """Compare the tokenizers of two model folders by the rule above; None if they fit.

    Raises Problem if a folder has no readable tokenizer.json.
    """
    our_tokens, our_merges = _tables(target / "tokenizer.json")
    their_tokens, their_merges = _tables(drafter / "tokenizer.json")
    if our_tokens != their_tokens:
        for index in sorted(their_tokens):
            if our_tokens.get(index) != their_tokens[index]:
                return Difference("token", index, our_tokens.get(index), their_tokens[index])
    if our_merges != their_merges:
        for index, (ours, theirs) in enumerate(zip_longest(our_merges, their_merges)):
            if ours != theirs:
                return Difference("merge", index, ours, theirs)
    return None


def _tables(path: Path) -> tuple[dict[int, str], list[str]]:
    """Token by id, special and added ones included, and the merge rules as "left right"."""
    document = read_json_object(path, maximum_bytes=MAXIMUM_TOKENIZER_BYTES)
    try:
        model = document["model"]
        tokens = {index: token for token, index in _vocabulary(model["vocab"])}
        tokens |= {added["id"]: added["content"] for added in document.get("added_tokens") or ()}
        merges = [
            rule if isinstance(rule, str) else " ".join(rule) for rule in model.get("merges") or ()
        ]
        if all(type(index) is int for index in tokens) and set(map(type, tokens.values())) <= {str}:
            return tokens, merges
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    raise Problem(f"{path} holds no table of tokens.", "Download or import the model again.")


def _vocabulary(vocabulary: Any) -> Iterable[tuple[str, int]]:
    """BPE and WordPiece list text to id; Unigram lists (text, score) in the order of ids."""
    if isinstance(vocabulary, dict):
        return vocabulary.items()
    return ((token, index) for index, (token, _) in enumerate(vocabulary))
