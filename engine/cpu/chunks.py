"""Chooses how many rows of a prompt a CPU reads at once."""

_FIRST_ROWS, _FEWEST_ROWS = 64, 32


class TimedChunks:
    """Chooses the rows of a chunk so that it takes a wanted time: the user can see the progress of
    a prefill, and stop it.

    Attribute: `rows` of the next chunk, at most `most`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.rows = _FIRST_ROWS

    def read(self, rows: int, seconds: float, wanted: float) -> None:
        """Adapt `rows` to the last chunk, whose `rows` took `seconds` in place of `wanted`."""
        if seconds > wanted:
            self.rows = max(_FEWEST_ROWS, rows // 2)
        elif seconds < wanted / 2:
            self.rows = min(self._most, max(self.rows, 2 * rows))
