"""How much a file may be, and how much reading it may take. Messages name these figures."""

from dataclasses import dataclass

FILE_BYTES = 200_000_000
PAGES = 2_000
FOLDER_ENTRIES = 20_000
FOLDER_FILE_BYTES = 1_000_000
"""Of a file in a folder; larger ones are left out."""
TEXT_BYTES = 50_000_000
"""Of what is read, as UTF-8."""

ZIP_MEMBERS = 10_000
ZIP_BYTES = 500_000_000
"""That it unpacks to."""
ZIP_RATIO = 250
"""Of what is unpacked to what is packed. Sheets of real workbooks stay below; a zip that is made to
burst has 1,000."""
WORKBOOK_CHARACTERS = 15_000_000
"""Of all sheets together, what stands between cells included, as many may be empty."""

RESULT_BYTES = 4 * TEXT_BYTES
"""What the process may write: in JSON a character takes more room."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What reading a file may take: `seconds` from the start of the process to its result, and of
    memory as much as the process may have at once."""

    seconds: float = 60.0
    memory_bytes: int = 2_000_000_000


def size(count: int) -> str:
    """A number of bytes in words: "200 MB"."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"
