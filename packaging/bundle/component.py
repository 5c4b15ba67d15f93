"""One thing that is shipped: what licences and bill of materials are made from."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Component:
    """A wheel, or something else that came in.

    `sha256` is of the file that was fetched ("" where there was none); `purl` names it for the
    bill of materials; `licence` is an SPDX expression, "" where `metadata`, its *.dist-info
    within the bundle, says it.
    """

    name: str
    version: str
    sha256: str
    purl: str
    licence: str
    metadata: Path | None
