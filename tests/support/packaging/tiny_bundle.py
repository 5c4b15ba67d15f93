"""A Slipstream.app of tiny files in which verify finds nothing: to be broken on purpose."""

import plistlib
from dataclasses import replace
from functools import cache

from bundle import licences
from bundle.info_plist import info_plist
from bundle.licences import Component
from configuration import read_configuration
from sign import signing
from tests.support.packaging.tiny_macho import EXECUTE, MODULE, TinyMacho

CPP = "/usr/lib/libc++.1.dylib"
PYTHON = "Contents/Resources/python/lib/python3.13"
SITE = f"{PYTHON}/site-packages"
QT = f"{SITE}/PySide6/Qt/lib/QtCore.framework"
LIBMLX = f"{SITE}/mlx/lib/libmlx.dylib"
MLX_CORE = f"{SITE}/mlx/core.cpython-313-darwin.so"
QT_CORE_BINDING = f"{SITE}/PySide6/QtCore.abi3.so"
MLX_HEADER = "mlx/include/mlx/backend/metal/kernels/quantized.h"
METALLIB = f"{SITE}/mlx/lib/mlx.metallib"
PYC = f"{SITE}/app/__pycache__/__main__.cpython-313.pyc"

_PACKAGES = {
    "mlx": ("0.32.4", "MIT", "macosx_14_0_arm64"),
    "mlx-metal": ("0.32.4", "MIT", "macosx_14_0_arm64"),
    "pyside6-essentials": ("6.11.3", "LGPL-3.0-only OR GPL-2.0-only", "macosx_13_0_universal2"),
    "tokenizers": ("0.23.3", "Apache-2.0", "macosx_11_0_arm64"),
}


@cache
def configuration():
    """The repository's own, with budgets that fit."""
    read = read_configuration()
    budget = replace(read.budget, app_bytes=1_000_000, app_with_starter_bytes=3_000_000)
    return replace(read, budget=budget)


def make_bundle(app):
    """The bundle, signed."""
    unsigned_bundle(app)
    sign(app)
    return app


def sign(app):
    signing.sign_bundle(app)


def unsigned_bundle(app):
    config = configuration()
    _write_programs(app, config)
    _write_contents(app)
    write(app / "Contents/Info.plist", info_plist(config))
    write(app / "Contents/PkgInfo", b"APPL????")
    components = [_package(app, name) for name in _PACKAGES]
    components += [
        Component("python", "3.13.15", "ab" * 32, "pkg:generic/python@3.13.15", "PSF-2.0", None),
        Component("slipstream", config.version, "", "pkg:pypi/slipstream", "Apache-2.0", None),
    ]
    licences.collect(app, components=components)
    licences.write_bill(app, components=components)
    return app


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _write_programs(app, config):
    for name in (config.application.name, "python3"):
        path = write(app / "Contents/MacOS" / name, TinyMacho(file_type=EXECUTE).build())
        path.chmod(0o755)
    write(app / f"{PYTHON}/bases/lib/Python", TinyMacho(exports=("_PyLong_Type",)).build())
    extension = TinyMacho(file_type=MODULE, libraries=("@loader_path/../bases/lib/Python",))
    write(app / f"{PYTHON}/lib-dynload/_json.cpython-313-darwin.so", extension.build())
    core = TinyMacho(
        file_type=MODULE,
        libraries=("@rpath/libmlx.dylib", CPP),
        rpaths=("@loader_path/lib",),
        imports=(("_mlx_add", 1, False), ("_mlx_new", 1, True), ("_PyLong_Type", 254, False)),
    )
    write(app / MLX_CORE, core.build())
    write(app / LIBMLX, TinyMacho(exports=("_mlx_add", "_mlx_sub")).build())
    binding = TinyMacho(
        file_type=MODULE,
        minimum_macos=(15, 0),
        libraries=("@rpath/QtCore.framework/Versions/A/QtCore", CPP),
        rpaths=("@loader_path/Qt/lib",),
    )
    write(app / QT_CORE_BINDING, binding.build())
    write(app / f"{QT}/Versions/A/QtCore", TinyMacho(minimum_macos=(13, 0)).build())
    qt_information = plistlib.dumps({"CFBundleIdentifier": "org.qt-project.QtCore"})
    for folder in ("Resources", "Versions/A/Resources"):  # a copy, as wheels have it
        write(app / f"{QT}/{folder}/Info.plist", qt_information)
    plugins = f"{SITE}/PySide6/Qt/plugins/platforms"
    write(app / f"{plugins}/libqcocoa.dylib", TinyMacho(file_type=MODULE).build())


def _write_contents(app):
    resources = app / "Contents/Resources"
    write(resources / "Slipstream.icns", b"icns")
    write(app / METALLIB, b"MTLB" + bytes(8) + b"\x0e\0\0\0" + bytes(16))
    write(app / PYTHON / "encodings/__init__.py", b"")
    for module in ("app/__main__.py", "engine/__main__.py", "models/__init__.py"):
        write(app / SITE / module, b"")
    for source in ("engine/metal/few_rows.metal", MLX_HEADER):
        write(app / SITE / source, b"")
    write(app / PYC, b"\xf3\r\r\n\x01\0\0\0" + bytes(8))


def _package(app, name):
    version, licence, platform = _PACKAGES[name]
    metadata = app / SITE / f"{name.replace('-', '_')}-{version}.dist-info"
    text = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n"
    write(metadata / "METADATA", f"{text}License-Expression: {licence}\n".encode())
    write(metadata / "WHEEL", f"Wheel-Version: 1.0\nTag: cp313-cp313-{platform}\n".encode())
    if licence == "MIT":
        write(metadata / "licenses/LICENSE", b"MIT License\n")
    return Component(name, version, "cd" * 32, f"pkg:pypi/{name}@{version}", "", metadata)
