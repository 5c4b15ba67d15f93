"""Finds out whether a window can be opened here, before Qt is asked, which would abort."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping

from models.errors import Problem

_PROBE_SECONDS = 120  # only if it hangs
_CORE_GRAPHICS = "/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics"
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
    """A display is named, but Qt cannot open a window on it. `complaint` is Qt's message."""

    def __init__(self, complaint: str) -> None:
        super().__init__(
            "Qt cannot open a window on this display.",
            "Chat in the terminal, slipstream chat, or install the packages that Qt needs.",
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
        return True  # the user chose it
    if platform == "darwin":
        return _has_window_server()
    if not (environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")):
        return False
    if complaint := _qt_complaint(environment):
        raise QtCannotStart(complaint)
    return True


def _has_window_server() -> bool:
    """Whether this Mac's screen can be reached. Over SSH it cannot, and no one would see the
    window."""
    try:
        session = ctypes.CDLL(_CORE_GRAPHICS).CGSessionCopyCurrentDictionary
    except (OSError, AttributeError):
        return True
    session.restype = ctypes.c_void_p
    return session() is not None


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
