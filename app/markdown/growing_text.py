"""A text that grows at its end: what comes is put to it when it is read.

Adding to a string copies it: of a long answer that comes in a thousand pieces a second, over and
over. Knows only strings.
"""


class GrowingText:
    """Reads as a string by `str`."""

    def __init__(self, text: str = "") -> None:
        self._parts = [text]

    def append(self, more: str) -> None:
        """Costs the same however long the text is."""
        self._parts.append(more)

    def __str__(self) -> str:
        """All of it; joined once for whatever came since it was read before."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0]
