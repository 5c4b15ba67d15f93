"""A group that a process of its own leads, for tests: `leading.py`, and a line to it."""

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from engine.process import host
from tests.support.engine import leading

ROOT = Path(host.__file__).parents[1]
SECONDS = 120  # for hangs only


class Led:
    """The leading process. Attributes: `process`; `followers`, as they were when all had joined;
    `ranks`, the newest states; `log`, its standard error."""

    def __init__(
        self,
        folder: Path,
        *,
        size: int = 2,
        deadlines: Mapping[str, float] | None = None,
        follower: Sequence[str] | None = None,
    ) -> None:
        hosts = folder / "hosts.json"
        hosts.write_text(json.dumps([{"ssh": "127.0.0.1", "ips": ["127.0.0.1"]}] * size))
        options = {"hosts": str(hosts), "deadlines": deadlines or {}, "follower": follower}
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = psutil.Popen(
                [sys.executable, "-m", leading.__name__, json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                cwd=ROOT,
                env=os.environ
                | {"OPENBLAS_NUM_THREADS": "1", "SLIPSTREAM_HOME": str(folder / "home")},
                start_new_session=True,
            )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.process.stdout, selectors.EVENT_READ)
        self._pending = b""
        self.ranks: list[dict[str, Any]] = []
        self.followers: list[psutil.Process] = []

    def tell(self, **command: Any) -> None:
        self.process.stdin.write(json.dumps(command).encode() + b"\n")

    def ask(self, **command: Any) -> dict[str, Any]:
        self.tell(**command)
        return self.hear()

    def hear(self) -> dict[str, Any]:
        """What it says next, but for states; what it wrote last where it has ended."""
        while True:
            line = self._line()
            if not line:
                return {"said": "end", "log": self.log.read_text()}
            said: dict[str, Any] = json.loads(line)
            self.followers = self.process.children() if said["said"] != "lost" else self.followers
            if said["said"] not in ("ranks", "begun"):
                return said
            self.ranks = said.get("ranks", self.ranks)

    def begin(self, **command: Any) -> None:
        """Ask, and wait until the answer has begun."""
        self.tell(**command)
        while json.loads(self._line())["said"] != "begun":
            pass

    def end(self) -> None:
        """End all of them."""
        with_it = [*self.followers, *self._children()]
        self.process.stdin.close()
        for each in (*with_it, self.process):
            try:
                each.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        self.process.wait()
        self.process.stdout.close()
        self._selector.close()

    def _children(self) -> list[psutil.Process]:
        try:
            return self.process.children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _line(self) -> bytes:
        while b"\n" not in self._pending:
            assert self._selector.select(SECONDS), f"it says nothing: {self.log.read_text()}"
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                return b""
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line


@contextmanager
def led(folder: Path, **options: Any) -> Iterator[Led]:
    """A group that ends with the block, however it ends."""
    group = Led(folder, **options)
    try:
        yield group
    finally:
        group.end()


def gone(processes: Sequence[psutil.Process], seconds: float) -> bool:
    """Whether all have ended, within so many seconds."""
    _, alive = psutil.wait_procs(list(processes), timeout=seconds)
    return all(each.status() == psutil.STATUS_ZOMBIE for each in alive)
