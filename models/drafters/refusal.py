"""The errors of unusable drafters: `DrafterRefused`, and damaged files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import Problem
from models.records import Obstacle


class DrafterRefused(Problem):
    """A drafter cannot draft for this target. `obstacle` says why, as for `models.records`."""

    def __init__(self, obstacle: Obstacle, message: str, remedy: str) -> None:
        super().__init__(message, remedy)
        self.obstacle: Obstacle = obstacle


def damaged(folder: Path, why: str) -> DrafterRefused:
    """Return the refusal of a folder whose files contradict each other or cannot be read."""
    why = " ".join(why.split())[:200].rstrip(".")
    message = f"The drafter in {folder} is damaged: {why}."
    return DrafterRefused("damaged", message, "Fetch it again, or choose another drafter.")


@contextmanager
def refused_as_damaged(folder: Path) -> Iterator[None]:
    """Turn errors inside the block, which reads the folder's files, into the refusal `damaged`."""
    try:
        yield
    except KeyError as error:
        raise damaged(folder, f"{error.args[0]} is missing") from error
    except (
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        RuntimeError,
    ) as error:
        raise damaged(folder, str(error) or type(error).__name__) from error
