"""Notes on every part of documents, while they are made. Knows neither who is asked for them nor
where they are kept."""

from collections.abc import Generator

from engine.documents.by_section import Ask, Said
from engine.documents.prompt import Sent


class Noting:
    """Attributes: `ask`, what is to be asked now, None where there is no more; `sent`, the message
    with the notes so far."""

    def __init__(self, asks: Generator[Ask, Said, Sent]) -> None:
        """May take a while, as all tokens are counted. Raises Problem as what asks does."""
        self._asks = asks
        self._advance(None)

    def take(self, said: Said) -> None:
        """Go on with what was said of the part that was asked about. Raises Problem."""
        self._advance(said)

    def _advance(self, said: Said | None) -> None:
        self.ask: Ask | None
        self.sent: Sent
        try:
            self.ask = next(self._asks) if said is None else self._asks.send(said)
            self.sent = self.ask.sent
        except StopIteration as end:
            self.ask, self.sent = None, end.value
