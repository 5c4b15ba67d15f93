"""The limits of a file, and of the time and memory to read it. Messages name these figures."""

from dataclasses import dataclass

FILE_BYTES = 200_000_000
PAGES = 2_000
FOLDER_ENTRIES = 20_000
FOLDER_FILE_BYTES = 1_000_000
"""Of a text in a folder; larger ones are left out."""
FOLDER_SHARE = 0.5
"""Of the time: after it no further document of a folder is begun."""
TEXT_BYTES = 50_000_000
"""Of a document's text, as UTF-8."""

ZIP_MEMBERS = 10_000
ZIP_BYTES = 500_000_000
"""Of a zip's parts, unpacked."""
ZIP_RATIO = 250
"""Unpacked / packed bytes. Sheets of real workbooks stay below; a zip bomb has 1,000."""
WORKBOOK_CHARACTERS = 15_000_000
"""Of all sheets together, with the separators between cells, as many cells may be empty."""

SHORT_SIDE = 4096
PICTURE_PIXELS = 6_000_000
"""Of a picture that a model is shown; a larger one is scaled down."""
LONG = 4
"""Times the shorter side: a long screenshot, whose text stays as large as in other pictures."""
PICTURE_SIDE = 16_384
LONG_PIXELS = 16_777_216
"""Of such a picture; as much as Qwen3-VL's own processor reads."""
UNSCALED_PIXELS = 100_000_000
"""Of a picture as its file has it."""
JPEG_PIXELS = 500_000_000
"""The same of a JPEG, which is scaled while it is decoded."""

RESULT_BYTES = 4 * TEXT_BYTES
"""The longest output of the process: in JSON a character takes more room."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of a process that reads a file: `seconds` from its start to its result, and
    `memory_bytes` at any moment."""

    seconds: float = 60.0
    memory_bytes: int = 2_000_000_000


def size(count: int) -> str:
    """A number of bytes for people: "200 MB"."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"
