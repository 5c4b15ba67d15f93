"""Checks the licence of each part, and the bill of materials.

Knows the metadata of packages in the bundle; other parts are known from the bill alone.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path
from typing import Any

from bundle import licences, sbom
from verify import Finding


@dataclass(frozen=True)
class _Part:
    """A package in the bundle, or a component of the bill."""

    name: str
    version: str
    licence: str

    @property
    def key(self) -> str:
        return licences.folder_name(self.name, self.version)


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
    if not (app / sbom.PLACE).is_file():
        yield Finding("bill of materials", sbom.PLACE, "missing")
        return
    billed = {part.key: part for part in _billed(app)}
    if not billed:
        yield Finding("bill of materials", sbom.PLACE, "cannot be read, or lists nothing")
        return
    packages = {part.key: part for part in _packages(app)}
    for key in sorted(packages.keys() - billed.keys()):
        part = packages[key]
        yield Finding("bill of materials", sbom.PLACE, f"lacks {part.name} {part.version}")
    for key, part in sorted(billed.items()):
        if not part.licence:
            yield Finding("bill of materials", sbom.PLACE, f"{key}: no licence")
    if not any(part.name == "python" for part in billed.values()):
        yield Finding("bill of materials", sbom.PLACE, "lacks Python itself")


def _packages(app: Path) -> Iterator[_Part]:
    for file in sorted(app.rglob("*.dist-info/METADATA")):
        metadata = BytesParser().parsebytes(file.read_bytes(), headersonly=True)
        licence = metadata.get("License-Expression") or metadata.get("License") or ""
        yield _Part(str(metadata["Name"]), str(metadata["Version"]), str(licence))


def _billed(app: Path) -> Iterator[_Part]:
    """Yield the components of the bill; none if it cannot be read."""
    try:
        bill: dict[str, Any] = json.loads((app / sbom.PLACE).read_bytes())
        entries = [bill["metadata"]["component"], *bill["components"]]
        parts = [_part(entry) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return
    yield from parts


def _part(entry: dict[str, Any]) -> _Part:
    expressions = [str(licence.get("expression", "")) for licence in entry.get("licenses", [])]
    name = re.sub(r"[-_.]+", "-", str(entry["name"])).lower()
    return _Part(name, str(entry["version"]), " AND ".join(filter(None, expressions)))
