"""When a drafter that does not pay is asked again, and what drafting may lose at all. Pure."""

FIRST, LONGEST = 4, 512  # tokens between two probes
_DOUBLINGS = 7
_SERIES = 3  # probes at most, before it is parked for longer
_SPENT = 0.0015  # of the time is not worth saving by rarer probes
_LOAN, _MOST, _ALLOWED = 1.25, 2.25, 0.01  # plain passes; the last for each token


class Parking:
    """One drafter's. Attribute: `left`, tokens until it is asked again; None while it drafts.

    While probes fail, they come half as often each time, until they cost next to nothing; and then
    in small series, as a single one may fail by bad luck where most would stand.
    """

    def __init__(self) -> None:
        self.left: int | None = None
        self._failed = 0  # series
        self._tries = 1  # of this series

    def park(self, loss: float) -> None:
        """It does not pay; a probe would lose as much as `loss` plain passes."""
        self._wait(loss)

    def probed(self, *, stood: bool, loss: float) -> None:
        """A probe is over. One that stood is soon followed by another."""
        self._tries -= 1
        if stood:
            self._failed = 0
            self._wait(loss)
        elif self._tries > 0:
            self.left = 1
        else:
            self._failed = min(self._failed + 1, _DOUBLINGS)
            self._wait(loss)

    def postpone(self, tokens: int) -> None:
        """It cannot be afforded yet."""
        self.left = min(max(tokens, FIRST), LONGEST)

    def resume(self) -> None:
        """It pays."""
        self.left = None

    def count(self, *, drafted: bool) -> None:
        """A round is over, with a draft of its or without."""
        if drafted and self.left is None:
            self._failed = 0
        elif self.left and not drafted:
            self.left -= 1

    def _wait(self, loss: float) -> None:
        longest = min(max(int(loss / _SPENT), FIRST), LONGEST)
        self.left = min(FIRST * 2**self._failed, longest)
        self._tries = min(1 + self._failed, _SERIES)


class Ledger:
    """Drafting lives on what it earns: a small loan, a hundredth of the time, its own gains.

    Counted in plain passes. Gains are kept up to a limit, so that a text where drafting loses is
    not paid for with one where it won.
    """

    def __init__(self) -> None:
        self._balance = _LOAN

    def count(self, tokens: int, passes: float) -> None:
        """A round brought `tokens`, for as much time as so many plain passes."""
        self._balance = min(self._balance + (1.0 + _ALLOWED) * tokens - passes, _MOST)

    def wait_for(self, loss: float) -> int:
        """Plain tokens until as much may be lost; 0 where it may be now."""
        return max(int((loss - self._balance) / _ALLOWED), 0)

    @property
    def in_debt(self) -> bool:
        return self._balance < 0.0
