"""Makes a bundle's seal, _CodeSignature/CodeResources: the hashes of the bundle's files.

Lists files by the rules that Apple's codesign writes into every seal; the root of an application is
Contents, of a framework Versions/A. Does not sign: the main executable's signature holds the hash
of the seal.

Sources: Apple's Security framework (libsecurity_codesigning: bundlediskrep.cpp, resources.cpp),
TN2206 "macOS Code Signing In Depth", TN3126.
"""

import hashlib
import os
import plistlib
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from xml.parsers.expat import ExpatError

import macho
from sign import code_signature

CODE_RESOURCES = "_CodeSignature/CodeResources"

_LPROJ = r"^Resources/.*\.lproj/"
_LOCALIZED: dict[str, Any] = {
    _LPROJ: {"optional": True, "weight": 1000.0},
    r"^Resources/.*\.lproj/locversion.plist$": {"omit": True, "weight": 1100.0},
    r"^Resources/Base\.lproj/": {"weight": 1010.0},
}
# For systems before 10.9. Every seal still has it.
_OLD_RULES: dict[str, Any] = {r"^Resources/": True, r"^version.plist$": True, **_LOCALIZED}
_CODE_FOLDERS = (
    "Frameworks|SharedFrameworks|PlugIns|Plug-ins|XPCServices|Helpers|MacOS"
    "|Library/(Automator|Spotlight|LoginItems)"
)
_RULES: dict[str, Any] = {
    r"^.*": True,
    r"^[^/]+$": {"nested": True, "weight": 10.0},
    rf"^({_CODE_FOLDERS})/": {"nested": True, "weight": 10.0},
    r".*\.dSYM($|/)": {"weight": 11.0},
    r"^(.*/)?\.DS_Store$": {"omit": True, "weight": 2000.0},
    r"^Info\.plist$": {"omit": True, "weight": 20.0},
    r"^PkgInfo$": {"omit": True, "weight": 20.0},
    r"^version\.plist$": {"weight": 20.0},
    r"^embedded\.provisionprofile$": {"weight": 20.0},
    r"^Resources/": {"weight": 20.0},
    **_LOCALIZED,
}
_NEVER_LISTED = re.compile(r"^(_CodeSignature/|CodeResources$|_MASReceipt/)")

type Entry = dict[str, Any]
type Difference = tuple[str, str]


def code_resources(root: Path, *, executable: str) -> bytes:
    """Make the seal of all files below `root`. Nested programs must be signed already.

    `executable`: the main one, relative to root; its signature holds the seal's hash. Raises
    ValueError for a file in a place that is for signed programs only.
    """
    old: dict[str, Any] = {}
    listed: dict[str, Entry] = {}
    for path in _files(root, executable):
        rule = _rule(path, _RULES)
        if not rule.get("omit"):
            listed[path] = _entry(root / path, rule)
        old_rule = _rule(path, _OLD_RULES)
        if old_rule and not old_rule.get("omit") and not (root / path).is_symlink():
            digest = hashlib.sha1((root / path).read_bytes()).digest()
            optional = old_rule.get("optional")
            old[path] = {"hash": digest, "optional": True} if optional else digest
    return plistlib.dumps(
        {"files": old, "files2": listed, "rules": _OLD_RULES, "rules2": _RULES}, sort_keys=True
    )


def differences(root: Path, sealed: bytes, *, executable: str) -> Iterator[Difference]:
    """Yield each file that differs from the seal, with its fault, by the seal's own rules.

    Raises ValueError if `sealed` is not a seal.
    """
    try:
        content = plistlib.loads(sealed)
        listed: dict[str, Entry] = dict(content["files2"])
        rules: dict[str, Any] = dict(content["rules2"])
        found = set(_files(root, executable))
        wanted = {path for path in found if not _rule(path, rules).get("omit")}
    except (ValueError, ExpatError, KeyError, TypeError, re.error) as error:
        raise ValueError(f"CodeResources is damaged: {error}") from error
    for path in sorted(wanted - listed.keys()):
        yield path, "is not in the seal"
    for path, entry in sorted(listed.items()):
        if path not in found:
            if not entry.get("optional"):
                yield path, "is in the seal and missing"
        elif (fault := _fault(root / path, entry)) is not None:
            yield path, fault


def leads_outside(root: Path, link: Path) -> bool:
    """Whether a symbolic link is absolute or leaves `root`; strict verification refuses such."""
    target = PurePosixPath(os.readlink(link))
    if target.is_absolute():
        return True
    return not Path(os.path.normpath(link.parent / target)).is_relative_to(root)


def _files(root: Path, executable: str) -> Iterator[str]:
    """Yield every file and symbolic link that a seal may list, relative to root."""
    for folder, names, files in os.walk(root):
        links = [name for name in names if os.path.islink(os.path.join(folder, name))]
        place = Path(folder).relative_to(root)
        start = f"{place.as_posix()}/" if place.parts else ""
        for name in files + links:
            path = f"{start}{name}"
            if path != executable and not _NEVER_LISTED.match(path):
                yield path


def _rule(path: str, rules: dict[str, Any]) -> Entry:
    """The matching rule with the most weight; {} if none matches."""
    best: Entry = {}
    best_weight = 0.0
    for pattern, rule in rules.items():
        table: Entry = rule if isinstance(rule, dict) else {"weight": 1.0} if rule else {}
        weight = float(table.get("weight", 1.0))
        if table and weight > best_weight and re.search(pattern, path):
            best, best_weight = table, weight
    return best


def _entry(path: Path, rule: Entry) -> Entry:
    if path.is_symlink():
        return {"symlink": os.readlink(path)}
    if rule.get("nested"):
        digest = _cdhash(path)
        return {"cdhash": digest, "requirement": f'cdhash H"{digest.hex()}"'}
    entry: Entry = {"hash2": hashlib.sha256(path.read_bytes()).digest()}
    return entry | {"optional": True} if rule.get("optional") else entry


def _fault(path: Path, entry: Entry) -> str | None:
    if "symlink" in entry or path.is_symlink():
        same = path.is_symlink() and os.readlink(path) == entry.get("symlink")
    elif "cdhash" in entry:
        try:
            same = _cdhash(path) == entry["cdhash"]
        except ValueError as error:
            return str(error)
    else:
        same = hashlib.sha256(path.read_bytes()).digest() == entry.get("hash2")
    return None if same else "is not as it was sealed"


def _cdhash(path: Path) -> bytes:
    if path.is_symlink() or not macho.is_macho(path):
        raise ValueError(f"{path.name}: only signed programs may be there")
    return code_signature.check(path.read_bytes()).cdhash
