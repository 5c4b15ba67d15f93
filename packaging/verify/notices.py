"""Checks the licence of each part, and the bill of materials.

Knows the metadata of packages in the bundle; other parts are known from the bill alone.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bundle.licences import BILL, FOLDER, REPLACING_QT, Component, normalized, read_metadata
from verify import Finding, walk

_REPLACING = "how to replace an LGPL library: missing"


def notices(app: Path) -> Iterator[Finding]:
    """Find parts without a licence in the bundle, LGPL parts without all that it demands, parts
    that the bill lacks, and required fields that are empty in it."""
    folder = app / FOLDER
    billed = {part.key: part for part in _billed(app)}
    packages = {part.key: part for part in _packages(app)}
    for key, part in sorted((billed | packages).items()):
        texts = [file for file in (folder / key).rglob("*") if file.is_file()]
        if not any(file.stat().st_size for file in texts):
            yield Finding(
                "licences", f"{FOLDER}/{key}", f"no licence of {part.name} {part.version}"
            )
        elif "LGPL-3.0" in part.licence:
            needed = dict.fromkeys(
                (f"{key}/LGPL-3.0-only.txt", f"{key}/GPL-3.0-only.txt"), "missing"
            )
            for name, fault in (needed | {REPLACING_QT: _REPLACING}).items():
                if not (folder / name).is_file():
                    yield Finding("licences", f"{FOLDER}/{name}", fault)
    if not billed:
        there = (app / BILL).is_file()
        faults = ["cannot be read, or lists nothing" if there else "missing"]
    else:
        missing = [packages[key] for key in sorted(packages.keys() - billed.keys())]
        faults = [f"lacks {part.name} {part.version}" for part in missing]
        faults += [f"{key}: no licence" for key, part in billed.items() if not part.licence]
        if not any(part.name == "python" for part in billed.values()):
            faults.append("lacks Python itself")
    yield from (Finding("bill of materials", BILL, fault) for fault in faults)


def _packages(app: Path) -> Iterator[Component]:
    for _, file in walk(app, "*.dist-info/METADATA"):
        found = read_metadata(file)
        licence = found.get("License-Expression") or found.get("License") or ""
        yield Component(str(found["Name"]), str(found["Version"]), licence=str(licence))


def _billed(app: Path) -> list[Component]:
    """Return the components of the bill; none if it cannot be read."""
    try:
        bill: dict[str, Any] = json.loads((app / BILL).read_bytes())
        return [_part(entry) for entry in (bill["metadata"]["component"], *bill["components"])]
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return []


def _part(entry: dict[str, Any]) -> Component:
    expressions = [str(licence.get("expression", "")) for licence in entry.get("licenses", [])]
    name, licence = normalized(str(entry["name"])), " AND ".join(filter(None, expressions))
    return Component(name, str(entry["version"]), licence=licence)
