"""The other ranks' side: obeys rank 0's work orders with decoders of its own.

Knows token ids and caches; no text, no drafter, and no reason why a draft is accepted.
"""

from collections.abc import Callable

import mlx.core as mx

from engine.cluster import group as ranks
from engine.cluster import orders
from engine.cluster.share import ModelPart
from engine.core.cache import QuantizedCaches
from engine.core.decoder import Decoder

_MANY_ROWS = 32  # a pass over more gives back its memory, as `Decoder.prefill` does


class OutOfStep(Exception):
    """The ranks do not hold the same text."""


class Follower:
    """Obeys work orders.

    Attributes: `number`, of the newest message; `waits`, whether that message has yet to arrive;
    `decoders` and `texts` by their numbers, as the leader's.
    """

    def __init__(self, part: ModelPart) -> None:
        self.part = part
        self.number = 0
        self.waits = False
        self.texts: dict[int, list[int]] = {}
        self.decoders: dict[int, Decoder] = {}
        self._taps: list[int] = []  # whose states rank 0 wants of the next pass

    def run(self, awake: Callable[[], bool]) -> None:
        """Obey until the end. `awake` waits for the end of a rest, and returns whether to go on.

        Raises `NotAnOrder` or `OutOfStep` if the ranks have lost each other.
        """
        while awake():
            if not self._work():
                return

    def _work(self) -> bool:
        """Obey until the next rest. Returns whether there may be more to do."""
        while True:
            self.number += 1
            self.waits = True
            message = ranks.broadcast(self.part.group, [], length=orders.LENGTH)
            self.waits = False
            for order in orders.decode(self.number, message):
                if isinstance(order, orders.Rest | orders.Quit):
                    return isinstance(order, orders.Rest)
                try:
                    self._obey(order)
                except KeyError as error:  # a decoder that was never opened, or is closed
                    raise OutOfStep from error

    def _obey(self, order: orders.Order) -> None:
        match order:
            case orders.Open(number):
                self.decoders[number] = self._opened(order)
                self.texts[number] = []
            case orders.Close(number):
                del self.decoders[number], self.texts[number]
            case orders.Copy(number, of):
                self.decoders[number].timeline = self.decoders[of].timeline.copy()
                self.texts[number][:] = self.texts[of]
            case orders.Rewind(number, length):
                self.decoders[number].rewind(length)
                if self.decoders[number].length != length:  # rank 0's caches could be cut there
                    raise OutOfStep
                del self.texts[number][length:]
            case orders.Mark(number):
                self.decoders[number].timeline.mark()
            case orders.Bookmark(number):
                self.decoders[number].bookmark()
            case orders.Send(tap):
                self._taps.append(tap)
            case orders.Read(number, tokens):
                self.texts[number] += tokens
                self._read(self.decoders[number], tokens)
            case orders.Compare():
                if not ranks.agrees(self.part.group, self.texts.values()):
                    raise OutOfStep

    def _opened(self, order: orders.Open) -> Decoder:
        quantized = None
        if order.bits:
            quantized = QuantizedCaches(order.bits, order.group_size, order.start)
        return Decoder(self.part.model, quantized=quantized, block=order.block)

    def _read(self, decoder: Decoder, tokens: tuple[int, ...]) -> None:
        self.part.begin(tuple(self._taps))
        self._taps.clear()
        decoder.read(mx.array(tokens, dtype=mx.int32))
        mx.eval([layer.state for layer in decoder.timeline.layers])
        self.part.settle()
        if len(tokens) >= _MANY_ROWS:
            mx.clear_cache()
