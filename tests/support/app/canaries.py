"""Text that would open, load or break something, and those who would notice."""

import ctypes
import os
import socket
import struct
import sys
import threading


class Listener:
    """A server on this machine that only counts who comes."""

    def __init__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}/canary.png"
        self.visits = 0
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self):
        while True:
            visitor, _ = self._socket.accept()
            with visitor:
                if visitor.recv(4) == b"end.":
                    return
                self.visits += 1

    def close(self):
        with socket.create_connection(self._socket.getsockname()) as last:
            last.send(b"end.")
        self._thread.join()
        self._socket.close()


class Watch:
    """Notices whether a file is opened, by whatever program; where the system tells that."""

    _OPENED, _WITHOUT_WAITING = 0x20, 0o4000

    def __init__(self, path):
        self.events = -1
        if sys.platform == "linux":
            system = ctypes.CDLL(None, use_errno=True)
            self.events = system.inotify_init1(self._WITHOUT_WAITING)
            assert system.inotify_add_watch(self.events, bytes(path), self._OPENED) >= 0

    @property
    def opened(self):
        """How often it was, since this was asked last."""
        try:
            return len(os.read(self.events, 1 << 16)) // struct.calcsize("iIII")
        except (BlockingIOError, OSError):
            return 0

    def close(self):
        if self.events >= 0:
            os.close(self.events)
            self.events = -1


def hostile(address, path):
    images = "\n".join(
        f"![a]({place}) <img src={place}> <img src='{place}'/>"
        for place in (address, f"file://{path}", str(path), f"<{path}>", "canary.png", "qrc:/x.png")
    )
    return (
        f"{images}\n\n[l]({address}) [f](file://{path}) <file://{path}> [j](javascript:x)\n\n"
        f"<link rel=stylesheet href={address}><iframe src={address}></iframe>\n"
        f"<style>@import '{address}';</style><object data='{path}'></object>\n\n"
        f"[r]: {address}\n\n![r]\n\n| ![a]({address}) |\n|-|\n| <img src={path}> |\n\n"
        f"```html\n<img src='{address}'>\n```\n\n"
        "\u202e\u2066\u200f\x1b]8;;http://x\x07\x00\ud800\n\n"
        + "- " * 2_000
        + "x\n\n"
        + "\n".join("  " * min(n, 300) + "- x" for n in range(300))
        + "\n\n"
        + ">" * 2_000
        + "\n\n"
        + "a" * 30_000
    )
