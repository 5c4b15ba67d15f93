"""When a drafter that does not pay is asked again, and what drafting may lose at all. Pure."""

FIRST, LONGEST = 4, 512  # tokens between two probes
_SPENT = 0.0075  # of the time may go into probes
_LOAN, _MOST, _ALLOWED = 2.0, 4.0, 0.01


class Parking:
    """One drafter's. Attribute: `left`, tokens until it is asked again; None while it drafts.

    Probes that cost next to nothing come every 4 tokens. Dearer ones come as seldom as keeps their
    cost below a hundredth of the time, and, while they fail, half as often each time.
    """

    def __init__(self) -> None:
        self.left: int | None = None
        self._failed = 0

    def park(self, loss: float) -> None:
        """It does not pay; a probe would lose as much as `loss` plain passes."""
        self._wait(loss)

    def probed(self, *, stood: bool, loss: float) -> None:
        """A probe is over. One that stood is followed by another at once."""
        self._failed = 0 if stood else min(self._failed + 1, 7)
        self._wait(0.0 if stood else loss)

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
        affordable = max(loss, 0.0) / _SPENT
        wait = affordable * 2**self._failed if affordable > FIRST else FIRST
        self.left = min(max(int(wait), FIRST), LONGEST)


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

    @property
    def in_debt(self) -> bool:
        return self._balance < 0.0
