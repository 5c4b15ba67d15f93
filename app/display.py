"""Whether a window can be opened here at all. Asked before Qt is, which would abort."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping

_PROBE_SECONDS = 20
_CORE_GRAPHICS = "/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics"


def has_display(
    *, platform: str = sys.platform, environment: Mapping[str, str] = os.environ
) -> bool:
    """Whether there is a display that this process may use."""
    if environment.get("QT_QPA_PLATFORM"):
        return True  # chosen by whoever started it
    if platform == "darwin":
        return _has_window_server()
    if not (environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")):
        return False
    return _qt_starts()


def _has_window_server() -> bool:
    """Over SSH there is none, and nobody who sees the window."""
    try:
        session = ctypes.CDLL(_CORE_GRAPHICS).CGSessionCopyCurrentDictionary
    except (OSError, AttributeError):
        return True
    session.restype = ctypes.c_void_p
    return session() is not None


def _qt_starts() -> bool:
    """A display may be named that is not there, and libraries may be missing."""
    program = "from PySide6.QtGui import QGuiApplication; QGuiApplication([])"
    try:
        probe = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, timeout=_PROBE_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0
