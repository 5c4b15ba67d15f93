"""What is left out: lines of a .gitignore, asked about paths."""

from collections.abc import Callable

from pathspec import GitIgnoreSpec


def left_out(lines: str) -> Callable[[str], bool]:
    """Whether a path, relative and with forward slashes, is left out by the last line that fits.

    A folder takes its contents along. A later line may ask for a part of them back, which git
    itself would not find; as in git, it has to name the files where files were left out.
    """
    return GitIgnoreSpec.from_lines(lines.splitlines()).match_file
