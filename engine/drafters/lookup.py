"""Copies the tokens after the longest match of the text's end (prompt lookup); in a tree, those
after other matches too.

Costs nothing. It helps if a text repeats itself or its prompt (edits, summaries, code). It reports
how many tokens matched; whether to copy is for the draft-length policy to decide. Pure Python over
token ids. Copied tokens have q = 1, which the acceptance rules allow for.
"""

from collections.abc import Sequence

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.draft_length import DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.places import LastCopy, Matches, Places
from engine.request import Sampling
from engine.tree import COMMITTED, Tree

SLOTS = 1 << 15  # of an index: a prompt and an answer have about as many tokens


class LookupDrafter(Drafter):
    """Proposes what followed the longest matches of the text's end in prompt and answer."""

    name = "lookup"

    def __init__(self) -> None:
        self._places = Places(slots=SLOTS)
        self._copy = LastCopy()
        self._found: tuple[int, Matches] = (0, [])  # after so many tokens
        self._drafted: Sequence[int] = ()

    def beside(self, target: Decoder) -> Drafter:
        return LookupDrafter()

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        matches = self._matches(tokens)
        if not matches:
            return ()
        start, matched = matches[0]
        different = len({tokens[end] for end, _ in matches})
        return (DraftCandidate(self.name, len(tokens) - start, matched, alternatives=different),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        matches = self._matches(tokens)
        if not matches:
            return None
        start, matched = matches[0]
        if choice.tree is None:
            text, tree = tokens[start : start + choice.length], None
        else:
            texts = [tokens[end : end + choice.length] for end, _ in matches]
            text, tree = merged(texts, choice.tree)
        self._drafted = text
        return copied(text, tree, drafter=self.name, matched=matched, source=start)

    def accept(self, path: Sequence[int]) -> None:
        length, matches = self._found
        accepted = [self._drafted[i] for i in path]
        start, matched = next(
            (place, matched)
            for place, matched in matches
            if list(self._places.text[place : place + len(accepted)]) == accepted
        )
        self._copy.keep(
            self._places,
            start + len(accepted),
            length=length + len(accepted),
            copied=matched + len(accepted),
        )

    def rewind(self, length: int) -> None:
        self._places.cut(length)
        self._copy.forget()
        self._found, self._drafted = (0, []), ()

    def _matches(self, tokens: list[int]) -> Matches:
        """Return the matches of the text's end, the longest first; of equally long ones the
        latest."""
        if self._found[0] != len(tokens):
            self._places.extend(tokens[len(self._places.text) :])
            found = self._copy.matches(self._places, tokens)
            self._found = len(tokens), sorted(found, key=lambda each: -each[1])
        return self._found[1]


def copied(
    text: Sequence[int],
    tree: Tree | None = None,
    *,
    drafter: str,
    matched: int,
    source: int | None = None,
) -> DraftArrays:
    """Return a draft of copied tokens. `tree`: its shape; None for a chain."""
    return DraftArrays(
        tokens=mx.array(list(text), dtype=mx.int32),
        q=mx.ones((len(text),)),
        distributions=None,
        drafter=drafter,
        match=matched,
        copied=tuple(text),
        tree=None if tree is None or tree.is_chain else tree,
        source=source,
    )


def merged(texts: Sequence[Sequence[int]], shape: Tree) -> tuple[list[int], Tree]:
    """Join several continuations to one tree, in which equal beginnings are one path. Returns its
    tokens and the tree, which has no more tokens than `shape`, and is no higher.

    Alternatives are tried in the order of `texts`. First come the tokens that fill a place of
    `shape` (as deep, after the same tokens, with as many alternatives before them); if places stay
    empty, other tokens of the texts follow, in their order.
    """
    tokens: list[int] = []
    parents: list[int] = []
    behind: dict[int, dict[int, int]] = {COMMITTED: {}}  # by token, where it stands after another
    for text in texts:
        place = COMMITTED
        for token in text[: shape.height]:
            if token not in behind[place]:
                behind[place][token], behind[len(tokens)] = len(tokens), {}
                tokens.append(token)
                parents.append(place)
            place = behind[place][token]
    filled = {COMMITTED: COMMITTED}  # by the number in `shape`
    for number, (parent, rank) in enumerate(zip(shape.parents, shape.ranks, strict=True)):
        alternatives = [*behind[filled[parent]].values()] if parent in filled else []
        if rank < len(alternatives):
            filled[number] = alternatives[rank]
    chosen = [place for place in filled.values() if place != COMMITTED]
    chosen += [place for place in range(len(tokens)) if place not in chosen]
    chosen = chosen[: len(shape)]
    return [tokens[place] for place in chosen], Tree(tuple(parents)).only(chosen)
