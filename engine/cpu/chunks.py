"""How many rows of a prompt a CPU reads at once, where that takes long and rounds nothing."""

_FIRST_ROWS, _FEWEST_ROWS = 64, 32


class TimedChunks:
    """So few rows that reading them takes about as long as wanted: so that a person can see how far
    it has come, and stop it.

    Attribute: `rows`, of the next chunk, at most `most`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.rows = _FIRST_ROWS

    def read(self, rows: int, seconds: float, wanted: float) -> None:
        """Choose by the last chunk, whose `rows` took `seconds`, where `wanted` are right."""
        if seconds > wanted:
            self.rows = max(_FEWEST_ROWS, rows // 2)
        elif seconds < wanted / 2:
            self.rows = min(self._most, max(self.rows, 2 * rows))
