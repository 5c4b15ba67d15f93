"""Office files and books, broken: in the bytes of the zip, and in the XML within."""

from collections.abc import Iterator
from random import Random

from tests.support.documents.office import parts_of, zipped

_NUMBERS = (b"0", b"-1", b"99999999999", b"1048577", b"1e999", b"", b"9" * 5000)


def mutations(data: bytes, *, name: str, first: int, count: int) -> Iterator[bytes]:
    """The same ones for the same name and numbers; every other is a whole zip of broken parts."""
    for number in range(first, first + count):
        random = Random(f"{name} {number}")
        if number % 2 or not data.startswith(b"PK"):
            yield _broken(data, random)
        else:
            parts = parts_of(data)
            hit = random.choice(sorted(parts))
            yield zipped({**parts, hit: _broken(parts[hit], random)})


def _broken(data: bytes, random: Random) -> bytes:
    for _ in range(random.randint(1, 4)):
        place = random.randrange(len(data) + 1)
        behind = place + random.randint(1, 60)
        digits = [at for at, byte in enumerate(data[place:behind], place) if 48 <= byte < 58]
        match random.choice(("flip", "cut", "drop", "repeat", "number", "move")):
            case "flip" if place < len(data):
                flipped = bytes([data[place] ^ 1 << random.randrange(8)])
                data = data[:place] + flipped + data[place + 1 :]
            case "cut":
                data = data[: max(place, len(data) // 2)]
            case "drop":
                data = data[:place] + data[behind:]
            case "repeat":
                data = data[:behind] + data[place:behind] * random.choice((1, 50)) + data[behind:]
            case "number" if digits:
                data = data[: digits[0]] + random.choice(_NUMBERS) + data[digits[0] + 1 :]
            case "move":
                target = random.randrange(len(data) + 1)
                data = data[:target] + data[place:behind] + data[target:]
    return data
