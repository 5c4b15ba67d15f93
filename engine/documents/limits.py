"""How much a file may be, and how much reading it may take. Messages name these figures."""

FILE_BYTES = 200_000_000
PAGES = 2_000
FOLDER_ENTRIES = 20_000
FOLDER_FILE_BYTES = 1_000_000
"""Of a file in a folder; larger ones are left out."""
TEXT_BYTES = 50_000_000
"""Of what is read, as UTF-8."""

SECONDS = 60.0
"""From the start of the process that reads until its result is there."""
MEMORY_BYTES = 2_000_000_000
"""That the process may have at once, beyond what it has to begin with."""
RESULT_BYTES = 4 * TEXT_BYTES
"""What the process may write: in JSON a character takes more room."""


def size(count: int) -> str:
    """A number of bytes in words: "200 MB"."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"
