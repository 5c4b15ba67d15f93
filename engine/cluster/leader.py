"""Rank 0's side: a `Decoder` that reads with all ranks, and the leader that gives them orders.

The loop, drafters, sessions and calibration use it as any decoder. Orders about caches are sent
with the next pass: one message a round.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import finalize

import mlx.core as mx
import mlx.nn as nn

from engine.cluster import group as ranks
from engine.cluster import orders
from engine.cluster.orders import Order
from engine.cluster.share import ModelPart
from engine.core.cache import QuantizedCaches
from engine.core.decoder import Decoder
from engine.core.model_parts import HiddenStates, StateRecorder
from engine.device import fetch
from models.errors import Problem
from models.limits import CACHE_BLOCK

PASSES_BETWEEN_COMPARISONS = 32


class Leader:
    """Tells the other ranks what this one does.

    `works` is called with True to let them listen again after a rest, and with False once they
    rest. `links` describes the connections between the ranks.

    Attributes: `texts`, the tokens that each decoder holds, by its number; `number`, of the newest
    message; `resting`, whether the other ranks do; `over`, whether nothing can be read any more:
    after `quit`, or because the ranks have lost each other.
    """

    def __init__(
        self, part: ModelPart, *, works: Callable[[bool], object] = bool, links: str = "ring"
    ) -> None:
        self.part = part
        self.texts: dict[int, list[int]] = {}
        self.number = 0
        self.over = False
        self._works, self._links = works, links
        self._told: deque[Order] = deque()  # to be sent with the next pass
        self._opened = self._passes = 0
        self.resting = True

    @property
    def group(self) -> str:
        """Describes the ranks and how they hold the target: the cost of a pass depends on it."""
        share = self.part.share
        cut = "+".join(map(str, share.split)) or str(share.size)
        return f"{share.mode} {cut} over {self._links}"

    def open(self, quantized: QuantizedCaches | None, *, block: int) -> int:
        """Make a decoder on every rank. Returns its number."""
        self._opened += 1
        to = quantized or QuantizedCaches(bits=0, group_size=0, start=0)
        self.tell(orders.Open(self._opened, block, to.bits, to.group_size, to.start))
        self.texts[self._opened] = []
        return self._opened

    def tell(self, order: Order) -> None:
        """Add an order, which the other ranks carry out before the next pass. Safe from any
        thread."""
        self._told.append(order)

    @contextmanager
    def reading(
        self, decoder: int, tokens: list[int], *, taps: tuple[int, ...] = ()
    ) -> Iterator[None]:
        """Have the other ranks begin a pass, which this one begins meanwhile.

        `taps`: the hidden states that they give to this rank. Raises `Problem` if the ranks have
        lost each other.
        """
        self._passes += 1
        if self._passes % PASSES_BETWEEN_COMPARISONS == 0:
            self._compare()
        for tap in taps:
            self.tell(orders.Send(tap))
        self._send(orders.Read(decoder, tuple(tokens)))
        with self._in_step():
            self.part.begin(taps)
            yield

    def rest(self) -> None:
        """Let the other ranks wait without keeping a core busy, until the next pass.

        Raises `Problem` if the ranks do not hold the same text.
        """
        if not self.resting and not self.over:
            self._compare()
            self._send(orders.Rest())
            self.resting = True
            self._works(False)

    def quit(self) -> None:
        """End the other ranks."""
        if not self.over:
            self._send(orders.Quit())
            self.over = True

    def _compare(self) -> None:
        self._send(orders.Compare())
        with self._in_step():
            if not ranks.agrees(self.part.group, self.texts.values()):
                raise _lost()

    def _send(self, last: Order) -> None:
        """Send the orders so far, and then `last`, once the pass before is over on this rank:
        messages that are sent at the same time could arrive in different sequences."""
        if self.over:
            raise _lost()
        told: list[Order] = []
        while self._told:  # another thread may still add to it
            told.append(self._told.popleft())
        for order in told:
            if isinstance(order, orders.Close):
                del self.texts[order.decoder]
        with self._in_step():
            self.part.settle()
            if self.resting:
                self._works(True)
                self.resting = False
            for message in orders.in_messages([*told, last]):
                self.number += 1
                numbers = orders.encode(self.number, message)
                sent = ranks.broadcast(self.part.group, numbers, length=orders.LENGTH)
                if sent != numbers:  # another rank was not listening, and sent something else
                    raise _lost()

    @contextmanager
    def _in_step(self) -> Iterator[None]:
        """Run a common action of all ranks. If this rank breaks it off, all is `over`, as messages
        may be on their way."""
        try:
            yield
        except BaseException:
            self.over = True
            raise


def _lost() -> Problem:
    return Problem(
        "The Macs have lost each other: they may no longer hold the same text.",
        "Load the model again.",
    )


class LeadingDecoder(Decoder):
    """Reads with all ranks: chains only, as trees would need a message of their own.

    Attribute: `number`, the decoder's number on all ranks.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        leader: Leader,
        quantized: QuantizedCaches | None = None,
        block: int = CACHE_BLOCK,
        trial: Callable[[], bool] = lambda: False,
    ) -> None:
        """Takes rank 0's part as `model`. Ignores `trial`, which would read with one rank alone."""
        super().__init__(model, quantized=quantized, block=block)
        self._leader, self.depth = leader, leader.part.depth
        self.recorder = StateRecorder(model, depth=self.depth, watch=leader.part.watch)
        self.number, self.group = leader.open(quantized, block=block), leader.group
        self._text = leader.texts[self.number]
        finalize(self, leader.tell, orders.Close(self.number)).atexit = False

    def another(self) -> "LeadingDecoder":
        quantized = self.timeline.quantized
        other = LeadingDecoder(
            self.model, leader=self._leader, quantized=quantized, block=self.block
        )
        other.promise = self.promise
        return other

    def copy(self) -> tuple[Decoder, list[HiddenStates]]:
        other, recorded = super().copy()
        assert isinstance(other, LeadingDecoder)
        other._text[:] = self._text
        self._leader.tell(orders.Copy(other.number, self.number))
        return other, recorded

    def read(self, tokens: mx.array) -> mx.array:
        (ids,) = fetch(tokens)  # the other ranks must know them
        taps = self._leader.part.elsewhere(self.recorder.taps)
        with self._leader.reading(self.number, ids, taps=taps):
            self._text += ids
            return super().read(tokens)

    def begin_round(self, tokens: list[int]) -> int:
        room = super().begin_round(tokens)
        self._leader.tell(orders.Mark(self.number))
        return room

    def bookmark(self) -> None:
        super().bookmark()
        self._leader.tell(orders.Bookmark(self.number))

    def rewind(self, length: int) -> None:
        before = self.length
        super().rewind(length)
        if self.length < before:
            del self._text[self.length :]
            self._leader.tell(orders.Rewind(self.number, self.length))

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Let the other ranks rest afterwards."""
        try:
            yield
        finally:
            self._leader.rest()
