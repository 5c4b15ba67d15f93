"""Collects the calls of a reply: numbers them, and holds each one's last character to its end."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from engine.events import CallPiece
from engine.replies.incoming import Incoming
from engine.replies.tools import Tool, named


class Calls:
    """Turns the names and arguments of calls into pieces. `tools` may be called. A call is passed
    on once it is whole, or while it is written if it is `certain` to become whole; `emit` is called
    each time.

    The last piece of the arguments comes with the end of the call, so arguments that parse always
    belong to a whole call, never to a call that was cut off.

    Attributes: `certain`; `whole`, the number of calls that have ended; `begun`, whether a call is
    under way.
    """

    def __init__(
        self, incoming: Incoming, emit: Callable[[], None], tools: Sequence[Tool], *, certain: bool
    ) -> None:
        self._incoming, self._emit, self._tools = incoming, emit, tools
        self.certain = certain
        self._open: list[CallPiece] = []  # of a call that may be none
        self._passed_on: list[CallPiece] = []
        self._held = ""
        self.begun = False
        self.whole = 0

    def tool(self, name: str) -> Tool:
        return named(self._tools, name)

    def knows(self, name: str) -> bool:
        return any(tool.name == name for tool in self._tools)

    def begin(self, name: str) -> None:
        self.begun = True
        self._add(CallPiece(self.whole, name=name))

    def arguments(self, text: str) -> None:
        """Add to the arguments. Their last character is held back until the end of the call."""
        text = self._held + text
        self._held = text[-1:]
        if text[:-1]:
            self._add(CallPiece(self.whole, arguments=text[:-1]))

    def end(self) -> None:
        self._add(CallPiece(self.whole, arguments=self._held))
        self._add(CallPiece(self.whole, ended=True))
        self.begun, self._held = False, ""
        self.whole += 1
        self._incoming.remember()  # the text that follows does not belong to this call

    def give_up(self) -> None:
        """Discard the call in progress: the text was not a call."""
        if self.begun and self.certain:
            self._emit()
        self._open.clear()
        self.begun, self._held = False, ""

    def take(self) -> tuple[CallPiece, ...]:
        """Return the pieces that came since the last call of this."""
        found = tuple(_joined(self._passed_on))
        self._passed_on.clear()
        return found

    def _add(self, piece: CallPiece) -> None:
        self._open.append(piece)
        if piece.ended or self.certain:
            self._passed_on += self._open
            self._open.clear()
            self._emit()


def _joined(pieces: Sequence[CallPiece]) -> Iterator[CallPiece]:
    """Join pieces of the same arguments."""
    for arguments, group in groupby(pieces, key=lambda piece: bool(piece.arguments)):
        several = list(group)
        if arguments:
            text = "".join(piece.arguments for piece in several)
            yield CallPiece(several[0].index, arguments=text)
        else:
            yield from several
