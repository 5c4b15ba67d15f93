"""Writes the bill of materials: the bundle's components, as CycloneDX 1.6 in JSON.

It has the same components as the licences. The same components give the same bytes: it has no time,
and its serial number comes from the content. Format: https://cyclonedx.org/docs/1.6/json/
"""

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bundle.licences import Component, expression_of

PLACE = "Contents/Resources/sbom.cdx.json"
OWN = "slipstream"  # the component that all others are parts of

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/schema/bom-1.6.schema.json")


def write(app: Path, *, components: Sequence[Component], version: str) -> None:
    """Write the bill of `components` into the bundle, which is Slipstream `version`.

    Raises `Problem` if a component's licence is unknown.
    """
    parts = sorted(
        (_entry(component) for component in components if component.name != OWN),
        key=lambda entry: str(entry["bom-ref"]),
    )
    own = {
        "type": "application",
        "bom-ref": f"pkg:pypi/{OWN}@{version}",
        "name": OWN,
        "version": version,
        "purl": f"pkg:pypi/{OWN}@{version}",
        "licenses": [{"expression": "Apache-2.0"}],
    }
    bill: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": parts,
        "dependencies": [
            {"ref": own["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]},
            *({"ref": part["bom-ref"]} for part in parts),
        ],
    }
    content = json.dumps(bill, sort_keys=True)
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(_NAMESPACE, content)}"
    text = json.dumps(bill, indent=1, sort_keys=True) + "\n"
    (app / PLACE).write_text(text, encoding="utf-8")


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
