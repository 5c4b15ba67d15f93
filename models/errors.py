"""The one exception that reaches the user: what went wrong, and what to do about it."""

import errno


class Problem(Exception):
    """A failure that the user can do something about.

    `message` names the problem in one line; `remedy` says what to do, in one line.
    Raised anywhere, caught once at the edge (the command line, the host, the window).
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}"


def unreadable(place: object, error: OSError) -> Problem:
    """Return the Problem of a file or a folder that the system does not let us read."""
    return Problem(
        f"{place} cannot be read: {error.strerror or error}.",
        "Check that the disk is there and that you may read it.",
    )


def unwritable(
    words: str,
    error: OSError,
    *,
    otherwise: str = "Check that you may write there.",
    then: str = "",
) -> Problem:
    """Return the Problem of a file or a folder that cannot be written, as `words` say. `otherwise`:
    the remedy unless the disk is full; `then`: a second one."""
    return Problem(
        f"{words}: {error.strerror or error}.", f"{_remedy(error, otherwise)} {then}".strip()
    )


def _remedy(error: OSError, otherwise: str) -> str:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "Make room on the disk." if full else otherwise


def problem_of(error: Exception) -> Problem | None:
    """Return the Problem that `error` is, or that the surroundings made of it, such as a full disk.
    None for a fault of the program."""
    if "temp_directory_path" in str(error):  # MLX compiles for the CPU in that folder
        return Problem("TMPDIR is not a folder.", "Set it to a folder that is there.")
    if isinstance(error, Problem) or not isinstance(error, OSError):
        return error if isinstance(error, Problem) else None
    place = "" if error.filename is None else f"{str(error.filename)[:200]}: "
    remedy = _remedy(error, "Check that it is there, and yours to use.")
    return Problem(f"{place}{error.strerror or error}.", remedy)
