"""Work orders of rank 0 to the other ranks, as one list of whole numbers of fixed length.

Nothing here is ever unpickled, and no order holds text. A message with anything but orders is
refused as a whole. Knows numbers; nothing of models or of how they travel.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from models.limits import PREFILL_ROWS

LENGTH = 768  # numbers in a message: a chunk of a prompt, and the orders before it
_MOST = (1 << 31) - 1
_MARK = 0x534C4950  # the first number of every message
_HEAD = 3  # the mark, the message's number, and how many of the other numbers are used


class NotAnOrder(Exception):
    """A message is not rank 0's: the ranks are out of step, or a stranger is there."""


@dataclass(frozen=True, slots=True)
class Open:
    """Make a decoder, whose caches grow by `block`, and are quantized to `bits` in groups from
    `start` on; 0 bits do not quantize them."""

    code: ClassVar[int] = 1
    decoder: int
    block: int
    bits: int
    group_size: int
    start: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Let `decoder` hold what the decoder `of` holds."""

    code: ClassVar[int] = 2
    decoder: int
    of: int


@dataclass(frozen=True, slots=True)
class Close:
    """Forget a decoder."""

    code: ClassVar[int] = 3
    decoder: int


@dataclass(frozen=True, slots=True)
class Rewind:
    """`Decoder.rewind`."""

    code: ClassVar[int] = 4
    decoder: int
    length: int


@dataclass(frozen=True, slots=True)
class Mark:
    """`Timeline.mark`: a round begins."""

    code: ClassVar[int] = 5
    decoder: int


@dataclass(frozen=True, slots=True)
class Bookmark:
    """`Decoder.bookmark`: a prompt ends."""

    code: ClassVar[int] = 6
    decoder: int


@dataclass(frozen=True, slots=True)
class Send:
    """Give rank 0 the hidden states at `tap` of the next pass."""

    code: ClassVar[int] = 12
    tap: int


@dataclass(frozen=True, slots=True)
class Read:
    """`Decoder.read`: one pass over `tokens`. The last order of its message."""

    code: ClassVar[int] = 8
    decoder: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """Compare between the ranks what all decoders hold. The last order of its message."""

    code: ClassVar[int] = 9


@dataclass(frozen=True, slots=True)
class Rest:
    """Wait until woken, without keeping a core busy. The last order of its message."""

    code: ClassVar[int] = 10


@dataclass(frozen=True, slots=True)
class Quit:
    """End. The last order of its message."""

    code: ClassVar[int] = 11


Last = Read | Compare | Rest | Quit
Order = Open | Copy | Close | Rewind | Mark | Bookmark | Send | Last

_KINDS: dict[int, type[Order]] = {
    kind.code: kind
    for kind in (*(Open, Copy, Close, Rewind, Mark, Bookmark, Send), *(Read, Compare, Rest, Quit))
}


def in_messages(orders: Iterable[Order]) -> Iterator[list[Order]]:
    """The orders in as few messages as can hold them, in the same sequence."""
    message, used = list[Order](), 0
    for order in orders:
        needed = len(_numbers(order))
        if message and _HEAD + used + needed > LENGTH:
            yield message
            message, used = [], 0
        message.append(order)
        used += needed
    if message:
        yield message


def encode(number: int, orders: Sequence[Order]) -> list[int]:
    """Message `number` with these orders: `LENGTH` numbers.

    Raises ValueError if `decode` would not give them back.
    """
    body = [part for order in orders for part in _numbers(order)]
    if _HEAD + len(body) > LENGTH:
        raise ValueError(f"{len(body)} numbers do not fit into a message of {LENGTH}")
    if not all(0 <= part <= _MOST for part in body):
        raise ValueError("an order holds a number of more than 31 bits")
    message = [_MARK, number & _MOST, len(body), *body]
    message += [0] * (LENGTH - len(message))
    try:
        decode(number, message)
    except NotAnOrder as error:
        raise ValueError(str(error)) from error
    return message


def decode(number: int, message: Sequence[int]) -> list[Order]:
    """The orders of message `number`. Raises `NotAnOrder`."""
    if len(message) != LENGTH or message[0] != _MARK or message[1] != number & _MOST:
        raise NotAnOrder(f"message {number} has another length, mark or number")
    used = message[2]
    if not 0 <= used <= LENGTH - _HEAD or any(message[_HEAD + used :]):
        raise NotAnOrder(f"message {number} has no proper length")
    orders = list(_orders(iter(message[_HEAD : _HEAD + used])))
    if any(isinstance(order, Last) for order in orders[:-1]):
        raise NotAnOrder(f"message {number} goes on after its last order")
    return orders


def _numbers(order: Order) -> list[int]:
    if isinstance(order, Read):
        return [order.code, order.decoder, len(order.tokens), *order.tokens]
    return [order.code, *(getattr(order, name) for name in order.__slots__)]


def _orders(numbers: Iterator[int]) -> Iterator[Order]:
    try:
        for code in numbers:
            kind = _KINDS.get(code)
            if kind is None:
                raise NotAnOrder(f"order {code} is unknown")
            if kind is Read:
                decoder, rows = next(numbers), next(numbers)
                tokens = [next(numbers) for _ in range(rows)]
                if not 0 < rows <= PREFILL_ROWS or min(tokens) < 0:
                    raise NotAnOrder(f"a pass cannot have these {rows} rows")
                yield Read(decoder, tuple(tokens))
            else:
                values = [next(numbers) for _ in kind.__slots__]
                if any(value < 0 for value in values):
                    raise NotAnOrder(f"order {code} has a negative number")
                yield kind(*values)  # type: ignore[arg-type] # Read is above
    except (StopIteration, RuntimeError) as error:
        raise NotAnOrder("an order ends too early") from error
