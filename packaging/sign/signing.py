"""Signs a bundle ad hoc: every program in it, from the inside out, and the seal over the rest.

An ad-hoc signature names no one. A Mac with Apple silicon runs nothing without one, and `codesign
--verify` accepts it. Gatekeeper wants more of a download: see sign_notarize.sh, which needs a Mac
and a Developer ID.

Libraries from wheels keep the signature that they came with, if it holds.
"""

import plistlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from xml.parsers.expat import ExpatError

import macho
from models.errors import Problem
from sign import code_signature
from sign.code_resources import CODE_RESOURCES, code_resources
from sign.code_signature import CoveredFiles
from sign.frameworks import frameworks, restore_links

_ENTITLEMENTS = Path(__file__).with_name("entitlements.plist")


def sign_bundle(app: Path) -> None:
    """Sign everything in `app`; nothing may change it later. The result depends on `app` alone.

    Raises `Problem` if something in it cannot be signed.
    """
    contents = app / "Contents"
    entitlements: dict[str, bool] = plistlib.loads(_ENTITLEMENTS.read_bytes())
    try:
        for framework in frameworks(app):
            restore_links(framework)
            _sign_root(framework.content, framework.executable, framework.info_plist, {})
        info_plist = contents / "Info.plist"
        information = plistlib.loads(info_plist.read_bytes())
        executable = contents / "MacOS" / str(information["CFBundleExecutable"])
        for path in sorted(app.rglob("*")):
            if path != executable and macho.is_macho(path):
                _sign_part(path, information["CFBundleIdentifier"], entitlements)
        _sign_root(contents, executable, info_plist, entitlements)
    except (OSError, ValueError, KeyError, ExpatError) as error:
        raise Problem(
            f"{app.name} cannot be signed: {error}",
            "Assemble it again; every program must be arm64 alone.",
        ) from error


def _sign_root(
    root: Path, executable: Path, info_plist: Path, entitlements: Mapping[str, bool]
) -> None:
    """Seal the files below `root`, and sign its main executable together with the seal."""
    information = info_plist.read_bytes()
    sealed = code_resources(root, executable=executable.relative_to(root).as_posix())
    (root / CODE_RESOURCES).parent.mkdir(exist_ok=True)
    (root / CODE_RESOURCES).write_bytes(sealed)
    _replace(
        executable,
        code_signature.signed(
            executable.read_bytes(),
            identifier=plistlib.loads(information)["CFBundleIdentifier"],
            covered=CoveredFiles(information, sealed),
            entitlements=entitlements,
        ),
    )


def _sign_part(path: Path, identifier: str, entitlements: Mapping[str, bool]) -> None:
    """Sign a program or library other than a main executable, unless its signature holds."""
    data = path.read_bytes()
    is_program = macho.is_program(data)
    if not is_program:
        with suppress(code_signature.SignatureError):
            code_signature.check(data)
            return
    _replace(
        path,
        code_signature.signed(
            data,
            identifier=f"{identifier}.{path.name}" if is_program else path.stem,
            entitlements=entitlements if is_program else {},
        ),
    )


def _replace(path: Path, data: bytes) -> None:
    """Write a new file in place of the old one: macOS caches the signature of a file that ran."""
    mode = path.stat().st_mode
    path.unlink()
    path.write_bytes(data)
    path.chmod(mode)
