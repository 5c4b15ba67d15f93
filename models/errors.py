"""The one exception that reaches a person: what went wrong, and what to do about it."""


class Problem(Exception):
    """A failure that a person can do something about.

    `message` says what is wrong in one line; `remedy` says what to do, in one line.
    Raised anywhere, caught once at the edge (the command line, the host, the window).
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}"
