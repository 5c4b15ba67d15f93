"""Token ids for the rows of pictures in a list of tokens.

They lie beyond every vocabulary. Two pictures have different ids, and a picture has the same ones
in every place: so all code that compares, stores or hashes beginnings of texts does so for
pictures, too. A picture is read as a whole or not at all, so that all of its ids would have to be
another's by chance.
"""

from collections.abc import Sequence
from hashlib import shake_256
from itertools import groupby
from struct import iter_unpack

FIRST = 1 << 30


def virtual_ids(digest: str, rows: int) -> tuple[int, ...]:
    """The ids of the `rows` of the picture with this digest, all below 2^31."""
    noise = shake_256(f"{digest} {rows}".encode()).digest(4 * rows)
    return tuple(FIRST | number % FIRST for (number,) in iter_unpack("<I", noise))


def is_virtual(token: int) -> bool:
    """Whether a token id is a row of a picture."""
    return token >= FIRST


def pictures_in(tokens: Sequence[int]) -> list[range]:
    """Return the places of virtual ids in `tokens`, as a range for each run of them."""
    found, start = list[range](), 0
    for virtual, run in groupby(tokens, is_virtual):
        end = start + sum(1 for _ in run)
        found += [range(start, end)] * virtual
        start = end
    return found


def text_begins(tokens: Sequence[int], start: int = 0) -> int:
    """The place after the last virtual id in `tokens` from `start` on; `start` without any."""
    places = range(len(tokens), start, -1)
    return next((place for place in places if is_virtual(tokens[place - 1])), start)
