"""Two Macs on one machine: what is sent between them arrives late, or not at all."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from time import perf_counter

import psutil
import pytest

from tests.lab.cluster.cable import Cable, Mac, plugged

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None,
    reason="network namespaces need Linux, root and iproute2",
)

PATIENCE_SECONDS = 60.0


@pytest.fixture
def cable() -> Iterator[Cable]:
    with plugged() as cable:
        yield cable


def _there[T](mac: Mac, make: type[T], *arguments: object) -> T:
    """What `make` makes on that Mac: a socket stays where it was made."""
    made: list[T] = []

    def work() -> None:
        mac.enter()
        made.append(make(*arguments))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return made[0]


@contextmanager
def _connected(cable: Cable) -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = cable.ends
    with closing(_there(other, socket.socket)) as listening:
        listening.bind((other.address, 0))
        listening.listen()
        with closing(_there(one, socket.socket)) as near:
            near.settimeout(PATIENCE_SECONDS)
            near.connect(listening.getsockname())
            far, _ = listening.accept()
            with closing(far):
                far.settimeout(PATIENCE_SECONDS)
                yield near, far


def test_what_is_sent_arrives_as_much_later_as_was_said(cable: Cable):
    with _connected(cable) as (near, far):
        for seconds in (0.2, 0.0, 0.1):
            cable.delay(seconds)
            for sender, receiver in ((near, far), (far, near)):
                began = perf_counter()
                sender.sendall(b"x")
                assert receiver.recv(8) == b"x"
                assert perf_counter() - began >= seconds


def test_nothing_arrives_over_a_cable_that_is_cut_until_it_is_mended(cable: Cable):
    with _connected(cable) as (near, far):
        cable.cut()
        near.sendall(b"late")  # nobody is told
        far.settimeout(0.3)
        with pytest.raises(TimeoutError):
            far.recv(8)
        cable.mend()
        far.settimeout(PATIENCE_SECONDS)
        assert far.recv(8) == b"late"


def test_the_macs_see_each_other_and_nobody_else(cable: Cable):
    for mac in cable.ends:
        with closing(_there(mac, socket.socket)) as tried, pytest.raises(OSError, match="unreach"):
            tried.connect(("192.0.2.1", 9))
    addresses = {each.address for addresses in psutil.net_if_addrs().values() for each in addresses}
    assert addresses.isdisjoint(mac.address for mac in cable.ends)


def test_programs_run_on_either_mac(cable: Cable):
    for mac in cable.ends:
        listed = subprocess.run(
            mac.command("ip", "-brief", "address"), capture_output=True, text=True, check=True
        )
        assert mac.address in listed.stdout


def test_latency_can_be_less_than_that_of_what_is_still_under_way(cable: Cable):
    with _connected(cable) as (near, far):
        cable.delay(0.2)
        near.sendall(b"one")
        cable.delay(0.0)
        near.sendall(b"two")
        received = b""
        while len(received) < 6:
            received += far.recv(8)
        assert received == b"onetwo"
