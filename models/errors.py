"""The one exception that reaches a person: what went wrong, and what to do about it."""

import errno

_REMEDIES = {
    errno.ENOSPC: "Make room on the disk.",
    errno.EDQUOT: "Make room on the disk.",
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS), "Check that you may read and write there."
    ),
    errno.EMFILE: "Allow more open files: ulimit -n 4096",
}
_LONGEST_PLACE = 200


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


def problem_of(error: Exception) -> Problem | None:
    """Return the Problem that `error` is, or that the surroundings made of it: a disk, a path, a
    stream, a connection. None for a fault of the program."""
    if isinstance(error, Problem) or not isinstance(error, OSError):
        return error if isinstance(error, Problem) else None
    place = "" if error.filename is None else str(error.filename)
    shown = place if len(place) <= _LONGEST_PLACE else f"{place[:_LONGEST_PLACE]}…"
    reason = error.strerror or str(error) or type(error).__name__
    return Problem(
        f"{shown}: {reason}." if shown else f"{reason}.",
        _REMEDIES.get(error.errno or 0, "Check the path." if place else "Try again."),
    )
