"""How fast something comes, and how long the rest will take, over the last few seconds.

Pure arithmetic: whoever uses it brings the clock.
"""

from collections import deque

WINDOW_SECONDS = 10.0


class Meter:
    """Is told how much has come by when. A rate counts from the first thing it is told."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def tell(self, now_seconds: float, done_bytes: int) -> None:
        """`done_bytes` have come by `now_seconds`. Fewer than before: it starts afresh."""
        if self._seen and done_bytes < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now_seconds, done_bytes))
        while len(self._seen) > 2 and self._seen[1][0] <= now_seconds - WINDOW_SECONDS:
            self._seen.popleft()

    @property
    def bytes_per_second(self) -> float:
        """0 until two moments are known."""
        if len(self._seen) < 2:
            return 0.0
        (first_seconds, first), (last_seconds, last) = self._seen[0], self._seen[-1]
        passed = last_seconds - first_seconds
        return (last - first) / passed if passed > 0 else 0.0

    def seconds_left(self, remaining_bytes: int) -> float | None:
        """None while nothing comes."""
        rate = self.bytes_per_second
        return remaining_bytes / rate if rate > 0 else None
