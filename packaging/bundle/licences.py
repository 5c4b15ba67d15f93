"""The licences of everything that is shipped, and the bill of materials: both into the bundle.

Each component has a folder with the texts that came with it, or with texts of packaging/licences if
none came. Finds a component's licence in its metadata, in the few ways in which packages write it;
does not judge whether licences suit each other. The bill is CycloneDX 1.6 in JSON. It has no time,
and its serial number comes from the content, so that the same components give the same bytes.
Format: https://cyclonedx.org/docs/1.6/json/
"""

import json
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Any

from configuration import PACKAGING
from models.errors import Problem

TEXTS = PACKAGING / "licences"
FOLDER = "Contents/Resources/licences"
BILL = "Contents/Resources/sbom.cdx.json"
OWN = "slipstream"  # the component that all others are parts of
REPLACING_QT = "replacing-qt.txt"

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/schema/bom-1.6.schema.json")
_NAMES = re.compile(r"^(licen[cs]e|copying|notice|authors|copyright)", re.IGNORECASE)
_SPDX = re.compile(r"^\(?[A-Za-z0-9.+-]+( (AND|OR|WITH) \(?[A-Za-z0-9.+-]+\)?)*\)?$")
# The LGPL is a list of permissions on top of the GPL: they are passed on together.
_NEEDED_TOO = {"LGPL-3.0-only": ("GPL-3.0-only",)}
_SPELLINGS = {
    "Apache 2.0 License": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "PSFL": "PSF-2.0",
    "BSD-3-Clause, Apache-2.0, dependency licenses": "BSD-3-Clause AND Apache-2.0",
}


@dataclass(frozen=True)
class Component:
    """A wheel, or another part of the bundle.

    `sha256`: of the fetched file, "" if none was fetched; `purl` names it for the bill of
    materials; `licence`: an SPDX expression, "" if `metadata`, its *.dist-info in the bundle, has
    the licence.
    """

    name: str
    version: str
    sha256: str = ""
    purl: str = ""
    licence: str = ""
    metadata: Path | None = None

    @property
    def key(self) -> str:
        """The name of the folder with its texts."""
        return f"{normalized(self.name)}-{self.version}"


def normalized(name: str) -> str:
    """The one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_metadata(file: Path) -> Message:
    """The headers of a file in a *.dist-info; none if the file is missing."""
    return BytesParser().parsebytes(file.read_bytes() if file.is_file() else b"")


def collect(app: Path, *, components: Sequence[Component]) -> None:
    """Write the folder again. Raises `Problem` if a component's licence or text is unknown."""
    folder = app / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = []
    for component in sorted(components, key=lambda each: each.name.casefold()):
        expression = expression_of(component)
        texts = _texts(component, expression)
        place = folder / component.key
        for name, text in texts.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(text)
        lines.append(f"{component.name} {component.version}: {expression}")
        if component.name == "pyside6-essentials":
            (folder / REPLACING_QT).write_text(_replacing_qt(component.version), encoding="utf-8")
    index = "What Slipstream is made of, and under which licences. The texts are in the folders.\n"
    (folder / "index.txt").write_text("\n".join([index, *lines, ""]), encoding="utf-8")


def expression_of(component: Component) -> str:
    """The licence as an SPDX expression. Raises `Problem` if it is unknown."""
    if component.licence:
        return component.licence
    metadata = component.metadata
    for found in _claims(read_metadata(metadata / "METADATA")) if metadata else ():
        expression = _SPELLINGS.get(found, found)
        if _SPDX.match(expression):
            return expression
    raise Problem(
        f"{component.name} {component.version} does not state its licence.",
        "Look it up, and add its spelling to packaging/bundle/licences.py.",
    )


def _claims(metadata: Message) -> Iterator[str]:
    """Yield the statements on its licence in a package's metadata, the most exact first."""
    yield from metadata.get_all("License-Expression", [])
    yield from metadata.get_all("License", [])
    for classifier in metadata.get_all("Classifier", []):
        if classifier.startswith("License :: "):
            yield classifier.rpartition(" :: ")[2]


def _texts(component: Component, expression: str) -> dict[str, bytes]:
    """The licence's texts, by their file names."""
    folders = [TEXTS / component.name]
    if component.metadata is not None:
        folders.append(component.metadata)
    texts = {
        file.relative_to(folder).as_posix().removeprefix("licenses/"): file.read_bytes()
        for folder in folders
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.stat().st_size and _is_text(file, folder)
    }
    return texts or _standard_texts(component, expression)


def _is_text(file: Path, folder: Path) -> bool:
    place = file.relative_to(folder).parts[0]
    return folder.parent == TEXTS or place in ("licenses", "LICENSES") or bool(_NAMES.match(place))


def _standard_texts(component: Component, expression: str) -> dict[str, bytes]:
    """Licence texts that are the same for every program; of alternatives the first that is here."""
    for alternative in expression.strip("()").split(" OR "):
        names = alternative.split(" AND ")
        names += [name for wanted in names for name in _NEEDED_TOO.get(wanted, ())]
        files = {f"{name}.txt": TEXTS / f"{name}.txt" for name in names}
        if all(file.is_file() for file in files.values()):
            return {name: file.read_bytes() for name, file in files.items()}
    raise Problem(
        f"{component.name} {component.version} comes without the text of its licence.",
        f"Put the text of {expression} into packaging/licences/{component.name}/.",
    )


def _replacing_qt(version: str) -> str:
    template = (TEXTS / REPLACING_QT).read_text(encoding="utf-8")
    return template.format(qt_version=version, qt_series=version.rpartition(".")[0])


def write_bill(app: Path, *, components: Sequence[Component]) -> None:
    """Write the bill of `components`, Slipstream itself among them, into the bundle.

    Raises `Problem` if a component's licence is unknown.
    """
    ordered = sorted(components, key=lambda component: component.purl)
    (own,) = (_entry(component) for component in ordered if component.name == OWN)
    parts = [_entry(component) for component in ordered if component.name != OWN]
    bill: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own | {"type": "application"}},
        "components": parts,
        "dependencies": [
            {"ref": own["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]},
            *({"ref": part["bom-ref"]} for part in parts),
        ],
    }
    content = json.dumps(bill, sort_keys=True)
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(_NAMESPACE, content)}"
    text = json.dumps(bill, indent=1, sort_keys=True) + "\n"
    (app / BILL).write_text(text, encoding="utf-8")


def _entry(component: Component) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": "library",
        "bom-ref": component.purl,
        "name": component.name,
        "version": component.version,
        "purl": component.purl,
        "licenses": [{"expression": expression_of(component)}],
    }
    if component.sha256:
        entry["hashes"] = [{"alg": "SHA-256", "content": component.sha256}]
    return entry
