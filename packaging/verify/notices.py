"""Checks the licence of each part, and the bill of materials.

Knows the metadata of packages in the bundle; other parts are known from the bill alone.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bundle import licences
from bundle.licences import BILL, Component, normalized, read_metadata
from verify import Finding, walk


def licence_texts(app: Path) -> Iterator[Finding]:
    """Find parts without a licence in the bundle, and LGPL parts without all that it demands."""
    folder = app / licences.FOLDER
    parts = {part.key: part for part in (*_billed(app), *_packages(app))}
    for key, part in sorted(parts.items()):
        place = f"{licences.FOLDER}/{key}"
        texts = [file for file in (folder / key).rglob("*") if file.is_file()]
        if not any(file.stat().st_size for file in texts):
            yield Finding("licences", place, f"no licence of {part.name} {part.version}")
        elif "LGPL-3.0" in part.licence:
            for name in ("LGPL-3.0-only.txt", "GPL-3.0-only.txt"):
                if not (folder / key / name).is_file():
                    yield Finding("licences", f"{place}/{name}", "missing")
            if not (folder / licences.REPLACING_QT).is_file():
                path = f"{licences.FOLDER}/{licences.REPLACING_QT}"
                yield Finding("licences", path, "how to replace an LGPL library: missing")


def bill_of_materials(app: Path) -> Iterator[Finding]:
    """Find parts that the bill lacks, and required fields that are empty in it."""
    billed = {part.key: part for part in _billed(app)}
    if not billed:
        there = (app / BILL).is_file()
        message = "cannot be read, or lists nothing" if there else "missing"
        yield Finding("bill of materials", BILL, message)
        return
    for part in sorted(_packages(app), key=lambda part: part.key):
        if part.key not in billed:
            yield Finding("bill of materials", BILL, f"lacks {part.name} {part.version}")
    for key, part in sorted(billed.items()):
        if not part.licence:
            yield Finding("bill of materials", BILL, f"{key}: no licence")
    if not any(part.name == "python" for part in billed.values()):
        yield Finding("bill of materials", BILL, "lacks Python itself")


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
