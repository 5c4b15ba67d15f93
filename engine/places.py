"""Where the end of a text occurred before, in the text itself or in another one.

The index of those drafters that copy. Pure Python over token ids. A place is the position after an
occurrence, where what followed it begins. Occurrences are found by the last 8, 4 or 2 tokens: the
latest place of each hash, and from each place the one before it, as in zlib's window. So a token
takes a few numbers of memory however the text repeats itself, and is taken back exactly.
"""

from array import array
from collections.abc import Iterable, Sequence

LONGEST_MATCH = 32  # longer matches count as this
GAP = -1  # between two texts, and not a token: nothing is matched or copied across it
_ORDERS = (8, 4, 2)  # tokens that must match to find a place, the longest asked first
_LATEST = 64  # places of an order that are looked at
_NOWHERE = -1
_COPY = 5  # tokens, matched or accepted, that make a copy which is worth resuming
_RESUMED = 4  # tokens that a place matches more for resuming it
_LATELY = 8  # tokens committed since then, at most
_SHIFTS = (0, *(sign * shift for shift in range(1, 9) for sign in (-1, 1)))  # the nearest first

Matches = list[tuple[int, int]]  # places, and how many tokens match before each


class Places:
    """The places of a growing text. `slots` is a power of two: of about as many tokens as there are
    slots, it finds all places quickly.

    Attribute: `text`, all tokens indexed so far.
    """

    def __init__(self, *, slots: int) -> None:
        self.text = array("i")
        self._mask = slots - 1
        self._latest = [array("i", [_NOWHERE]) * slots for _ in _ORDERS]
        self._before = [array("i") for _ in _ORDERS]

    def extend(self, tokens: Iterable[int]) -> None:
        """Write `tokens` after the text. A token then follows the place before each of them."""
        text, mask = self.text, self._mask
        tables = list(zip(_ORDERS, self._latest, self._before, strict=True))
        for token in tokens:
            end = len(text)
            for order, latest, before in tables:
                slot = hash(tuple(text[max(end - order, 0) : end])) & mask
                before.append(latest[slot])
                latest[slot] = end
            text.append(token)

    def cut(self, length: int) -> None:
        """Take back all but the first `length` tokens."""
        text = self.text
        while len(text) > length:
            text.pop()
            end = len(text)
            for order, latest, before in zip(_ORDERS, self._latest, self._before, strict=True):
                slot = hash(tuple(text[max(end - order, 0) : end])) & self._mask
                latest[slot] = before.pop()

    def find(self, tokens: Sequence[int]) -> Matches:
        """Places before which the text ends as `tokens` do, the latest first, and how many tokens
        match at each: of 8 or more where there are any, else of 4 or more, else of 2 or more."""
        tail = array("i", tokens[-LONGEST_MATCH:])
        for order, latest, before in zip(_ORDERS, self._latest, self._before, strict=True):
            if len(tail) < order:
                continue
            place = latest[hash(tuple(tail[-order:])) & self._mask]
            found = []
            for _ in range(_LATEST):
                if place == _NOWHERE:
                    break
                matched = self._matched(tail, place)
                if matched >= order:  # else it has the same hash by chance
                    found.append((place, matched))
                place = before[place]
            if found:
                return found
        return []

    def match(self, tokens: Sequence[int], places: Iterable[int]) -> Matches:
        """Return the `places` before which a token or more equal the last of `tokens`, with their
        number, up to a limit. A token follows at each place."""
        tail, text = array("i", tokens[-LONGEST_MATCH:]), self.text
        return [
            (place, self._matched(tail, place))
            for place in places
            if tail and 0 < place < len(text) and text[place - 1] == tail[-1]
        ]

    def _matched(self, tail: "array[int]", place: int) -> int:
        """Return how many tokens before `place` equal the last ones of `tail`."""
        text, most = self.text, len(tail)
        if text[max(place - most, 0) : place] == tail:
            return most
        most, matched = min(most, place), 0
        while matched < most and text[place - 1 - matched] == tail[-1 - matched]:
            matched += 1
        return matched


class LastCopy:
    """The last accepted copy, and the place where it continues.

    It continues straight on, after tokens that replaced or were inserted into the copy, or after
    copied tokens that the text left out.
    """

    def __init__(self) -> None:
        self._of: Places | None = None  # where it was copied from
        self._place = self._length = 0  # it would go on there, after a text of this length

    def keep(self, places: Places, place: int, *, length: int, copied: int) -> None:
        """Note that a copy ends before `place` in `places`, when the text has `length` tokens.
        `copied`: its tokens, matched or accepted. A short copy is not noted, and the last one
        stays."""
        if copied >= _COPY:
            self._of, self._place, self._length = places, place, length

    def forget(self) -> None:
        self._of = None

    def matches(self, places: Places, tokens: Sequence[int]) -> Matches:
        """Return the places that `places` finds, and before them those where the copy continues,
        which count as matching a little more."""
        found, since = places.find(tokens), len(tokens) - self._length
        if places is not self._of or since > _LATELY:
            return found
        resumed, straight = {}, self._place + since
        for place, matched in places.match(tokens, (straight + shift for shift in _SHIFTS)):
            near = 2 if abs(place - straight) > 1 else 1
            if matched >= near and (place == straight or matched <= since):
                resumed[place] = matched + _RESUMED
        return [*resumed.items(), *(each for each in found if each[0] not in resumed)]
