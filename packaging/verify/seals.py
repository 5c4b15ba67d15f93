"""Checks signatures: the bytes of every program, and the seal over all other files.

Knows the file of each hash; code_signature and code_resources make the hashes. Only `codesign
--verify --strict` on a Mac can say whether macOS accepts the whole.
"""

import plistlib
from collections.abc import Iterator
from pathlib import Path
from xml.parsers.expat import ExpatError

from sign import code_signature
from sign.code_resources import CODE_RESOURCES, differences, leads_outside
from sign.code_signature import CoveredFiles
from sign.frameworks import frameworks, missing_links
from verify import Finding, walk
from verify.programs import Programs

type Root = tuple[Path, Path, Path]  # the sealed folder, its main executable, its Info.plist


def seals(app: Path, programs: Programs) -> Iterator[Finding]:
    """Find programs and libraries that are not signed, or differ from their signature; and files
    that differ from their seal, or are in no seal."""
    roots = list(_roots(app))
    covered = {
        executable: CoveredFiles(_bytes(info_plist), _bytes(root / CODE_RESOURCES))
        for root, executable, info_plist in roots
    }
    for program in programs.readable:
        file = app / program.path
        try:
            code_signature.check(file.read_bytes(), covered.get(file))
        except ValueError as error:
            yield Finding("signature", program.path, str(error))
    for item in sorted(app.iterdir()):
        if item.name != "Contents":
            yield Finding("seal", item.name, "only Contents can be sealed")
    for root, executable, _ in roots:
        place = (root / CODE_RESOURCES).relative_to(app).as_posix()
        if not (root / CODE_RESOURCES).is_file():
            yield Finding("seal", place, "missing")
            continue
        name = executable.relative_to(root).as_posix()
        try:
            for path, fault in differences(root, _bytes(root / CODE_RESOURCES), executable=name):
                yield Finding("seal", (root / path).relative_to(app).as_posix(), fault)
        except ValueError as error:
            yield Finding("seal", place, str(error))


def links(app: Path) -> Iterator[Finding]:
    """Find symbolic links that lead out of the bundle or nowhere, and frameworks without links."""
    for name, path in walk(app):
        if path.is_symlink():
            if leads_outside(app, path):
                yield Finding("links", name, "leads out of the bundle")
            elif not path.exists():
                yield Finding("links", name, "leads nowhere")
    try:
        for framework in frameworks(app):
            for link in missing_links(framework):
                yield Finding("links", link.relative_to(app).as_posix(), "missing in a framework")
    except ValueError as error:
        yield Finding("links", "", str(error))


def _roots(app: Path) -> Iterator[Root]:
    contents = app / "Contents"
    info_plist = contents / "Info.plist"
    try:
        name = str(plistlib.loads(_bytes(info_plist))["CFBundleExecutable"])
        yield contents, contents / "MacOS" / name, info_plist
        for framework in frameworks(app):
            yield framework.content, framework.executable, framework.info_plist
    except (ValueError, KeyError, ExpatError):
        return  # the checks of Info.plist and of links report it


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
