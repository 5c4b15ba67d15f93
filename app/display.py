"""Finds out whether a window can be opened here, before Qt is asked, which would abort."""

import ctypes
import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from models.errors import Problem

_CONNECT_SECONDS = 2.0
_PROBE_SECONDS = 120  # only if it hangs
_CORE_GRAPHICS = "/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics"
_X_DISPLAY = re.compile(r"(?:unix|(?P<host>[^/:]+))?:(?P<number>\d+)(?:\.\d+)?")
_X_SOCKETS = "/tmp/.X11-unix"
_FIRST_X_PORT = 6000
_PROBE = """\
try:
    from PySide6.QtGui import QGuiApplication
except ImportError as error:
    raise SystemExit(str(error))
QGuiApplication([])
"""
PACKAGES = (
    "libegl1 libgl1 libdbus-1-3 libfontconfig1 libx11-xcb1 libxkbcommon0 libxkbcommon-x11-0 "
    "libxcb-cursor0 libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-randr0 libxcb-render-util0 "
    "libxcb-shape0 libxcb-sync1 libxcb-xfixes0 libxcb-xkb1"
)
"""The libraries that Qt's window needs on Linux, by Debian's names."""


class QtCannotStart(Problem):
    """There is a display, but Qt cannot open a window on it. `complaint` is Qt's message."""

    def __init__(self, complaint: str) -> None:
        super().__init__(
            "Qt cannot open a window on this display.",
            "Install the packages that it needs, or chat in the terminal: slipstream chat.",
        )
        self.complaint = complaint

    @property
    def report(self) -> str:
        """The whole message, for a terminal."""
        lines = (f"    {line}" for line in self.complaint.splitlines() if line.strip())
        return "\n".join(
            (
                f"{self.message} It says:\n",
                *lines,
                f"\n{self.remedy} On Debian and Ubuntu:\n",
                f"    sudo apt install {PACKAGES}",
            )
        )


def has_display(
    *, platform: str = sys.platform, environment: Mapping[str, str] = os.environ
) -> bool:
    """Return whether there is a display. Raises `QtCannotStart`."""
    if environment.get("QT_QPA_PLATFORM"):
        return True  # the person chose it
    if platform == "darwin":
        return _has_window_server()
    if not (_wayland_answers(environment) or _x_answers(environment)):
        return False
    if complaint := _qt_complaint(environment):
        raise QtCannotStart(complaint)
    return True


def _has_window_server() -> bool:
    """Whether this Mac's screen can be reached. Over SSH it cannot, and nobody would see the
    window."""
    try:
        session = ctypes.CDLL(_CORE_GRAPHICS).CGSessionCopyCurrentDictionary
    except (OSError, AttributeError):
        return True
    session.restype = ctypes.c_void_p
    return session() is not None


def _wayland_answers(environment: Mapping[str, str]) -> bool:
    name, folder = environment.get("WAYLAND_DISPLAY"), environment.get("XDG_RUNTIME_DIR", "")
    return bool(name) and _answers(socket.AF_UNIX, str(Path(folder, name or "")))


def _x_answers(environment: Mapping[str, str]) -> bool:
    named = environment.get("DISPLAY", "")
    found = _X_DISPLAY.fullmatch(named)
    if found is None:
        return bool(named)  # in another notation, which Qt may know
    number, host = int(found["number"]), found["host"]
    if host:
        return _answers(socket.AF_INET, (host, _FIRST_X_PORT + number))
    path = f"{_X_SOCKETS}/X{number}"
    return _answers(socket.AF_UNIX, path) or _answers(socket.AF_UNIX, f"\0{path}")


def _answers(family: int, address: str | tuple[str, int]) -> bool:
    """Whether a display listens there. The environment may name a display that is gone."""
    with socket.socket(family) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(address)
        except (OSError, OverflowError):
            return False
    return True


def _qt_complaint(environment: Mapping[str, str]) -> str:
    """Start Qt in another process. Returns its message if it fails; empty if it starts."""
    try:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE],
            capture_output=True,
            text=True,
            errors="replace",
            env=dict(environment),
            timeout=_PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"Qt gave no answer within {_PROBE_SECONDS // 60} minutes."
    except OSError as error:
        return f"Python could not be started to ask it: {error.strerror or 'no reason is known'}."
    if probe.returncode == 0:
        return ""
    return probe.stderr.strip() or f"It ended with status {probe.returncode}."
