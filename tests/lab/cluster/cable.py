"""Macs on one machine: network namespaces, and a cable between two of them that has a latency and
can be cut.

A Mac here is a network namespace with an address of its own; the cable is a process that carries
packets from one to the other, each some time after it came. Namespaces and cable are gone as soon
as the process that made them is. Linux only, as root; knows nothing of what is computed.
"""

import fcntl
import os
import select
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import IO

_ADDRESSES = "169.254.77.1", "169.254.77.2"  # link-local, as those of a Thunderbolt cable
_DEVICE = "cable"
_MOST_BYTES = 65535  # of a packet
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


@dataclass(frozen=True, slots=True)
class Mac:
    """A Mac at an end of the cable: its `address` there, and its `namespace`, as a path that is
    good while the process runs that made it."""

    address: str
    namespace: str

    def command(self, *command: str) -> list[str]:
        """A command line that runs `command` there."""
        return ["nsenter", f"--net={self.namespace}", *command]

    def enter(self) -> None:
        """Be there from now on, with this thread and those that it starts."""
        with open(self.namespace) as namespace:
            os.setns(namespace.fileno(), os.CLONE_NEWNET)


@dataclass(frozen=True, slots=True)
class Cable:
    """What joins two Macs. Whole, and without latency of its own, at first."""

    ends: tuple[Mac, Mac]
    _told: IO[str]

    def delay(self, seconds: float) -> None:
        """Have all that is sent from now on arrive so much later, in either direction."""
        print(seconds, file=self._told, flush=True)

    def cut(self) -> None:
        """From now on nothing arrives, and nobody is told."""
        self._set("down")

    def mend(self) -> None:
        """Undo `cut`."""
        self._set("up")

    def _set(self, state: str) -> None:
        for mac in self.ends:
            _run(mac, "ip", "link", "set", _DEVICE, state)


@contextmanager
def plugged() -> Iterator[Cable]:
    """Two Macs with a cable between them."""
    namespaces = [_namespace() for _ in _ADDRESSES]
    try:
        one, other = (
            Mac(address, f"/proc/{os.getpid()}/fd/{namespace}")
            for address, namespace in zip(_ADDRESSES, namespaces, strict=True)
        )
        command = [sys.executable, __file__, one.namespace, other.namespace]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as carrier:
            try:
                assert carrier.stdin is not None
                assert carrier.stdout is not None
                if not carrier.stdout.readline():
                    raise RuntimeError("the cable could not be plugged in")
                for mac in (one, other):
                    _run(mac, "ip", "link", "set", "lo", "up")
                    _run(mac, "ip", "address", "add", f"{mac.address}/30", "dev", _DEVICE)
                    _run(mac, "ip", "link", "set", _DEVICE, "mtu", str(_MOST_BYTES))
                cable = Cable((one, other), carrier.stdin)
                cable.mend()
                yield cable
            finally:
                carrier.kill()
    finally:
        for namespace in namespaces:
            os.close(namespace)


def _run(mac: Mac, *command: str) -> None:
    subprocess.run(mac.command(*command), check=True)


def _namespace() -> int:
    """A new network namespace, which is there while this file is open."""
    opened: list[int] = []

    def make() -> None:  # in a thread of its own, which alone moves there
        os.unshare(os.CLONE_NEWNET)
        opened.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    (namespace,) = opened
    return namespace


def _carry(namespaces: Sequence[str]) -> None:
    """Carry packets until the standard input, which tells latencies, ends."""
    one, other = (_device(Mac("", namespace)) for namespace in namespaces)
    to = {one: other, other: one}
    # Ranks that wait keep the processors busy: no packet is to wait for them.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    print("plugged", flush=True)
    latency_seconds = 0.0
    under_way: deque[tuple[float, int, bytes]] = deque()  # when each is to arrive, and where
    while True:
        patience = max(under_way[0][0] - monotonic(), 0.0) if under_way else None
        ready, _, _ = select.select([sys.stdin, *to], [], [], patience)
        if sys.stdin in ready:
            told = sys.stdin.readline()
            if not told:
                return
            latency_seconds = float(told)
        for device in to.keys() & ready:
            with suppress(OSError):  # it is cut
                packet = os.read(device, _MOST_BYTES)
                under_way.append((monotonic() + latency_seconds, to[device], packet))
        while under_way and under_way[0][0] <= monotonic():
            _, device, packet = under_way.popleft()
            with suppress(OSError):
                os.write(device, packet)


def _device(mac: Mac) -> int:
    """The packets that are sent there, as a file."""
    mac.enter()
    device = os.open("/dev/net/tun", os.O_RDWR)
    request = struct.pack("16sH22x", _DEVICE.encode(), _IFF_TUN | _IFF_NO_PI)
    fcntl.ioctl(device, _TUNSETIFF, request)
    return device


if __name__ == "__main__":
    _carry(sys.argv[1:])
