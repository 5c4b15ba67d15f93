"""Telling weights apart by what they are, not by what their folder is called.

Knows safetensors files; nothing of architectures. No weights are loaded.
"""

import hashlib
import json
from pathlib import Path

from models.errors import Problem
from models.safetensors_file import check_safetensors

_SAMPLE_BYTES = 4096  # from the start of each tensor


def fingerprint(folder: Path) -> str:
    """The weights in `folder`: 16 hexadecimal digits over names, types, shapes and samples.

    The same however the tensors are spread over files; another after any training, or any
    quantization. Reads a few kilobytes per tensor. Raises Problem where a file is damaged.
    """
    lines = []
    for path in sorted(folder.glob("model*.safetensors")):  # what loaders take, and nothing else
        layouts = check_safetensors(path)
        try:
            with path.open("rb") as file:
                start = path.stat().st_size - sum(layout.size_bytes for layout in layouts.values())
                for name, layout in layouts.items():  # they lie end to end, in this order
                    file.seek(start)
                    start += layout.size_bytes
                    sample = file.read(min(layout.size_bytes, _SAMPLE_BYTES))
                    digest = hashlib.sha256(sample).hexdigest()
                    lines.append(json.dumps([name, layout.dtype, layout.shape, digest]))
        except OSError as error:
            raise Problem(f"{path} cannot be read: {error}.", "Check the disk.") from error
    if not lines:
        raise Problem(f"There are no safetensors weights in {folder}.", "Check the path.")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]
