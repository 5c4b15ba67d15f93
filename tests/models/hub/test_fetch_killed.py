"""A download that is killed, wherever that is, leaves nothing that loads wrongly, and goes on."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir

from models.errors import Problem
from models.hub.fetch import completed
from models.model_folder import inspect
from tests.support.models.hub_models import NAME, NEEDED, Client
from tests.support.mostly_slow import mostly_slow

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 60

# Kills itself before the n-th change to the disk, of those that tell one state from another.
FETCH = """
import os, signal, sys, threading
from pathlib import Path
from models.hub.fetch import fetch
from models.hub.client import Hub

endpoint, cache, home, name, die_at = sys.argv[1:]
hub, seen, lock = Hub(endpoint=endpoint), 0, threading.Lock()
repository = hub.describe(name)

def count(event, arguments):
    global seen
    changes = event in ("os.rename", "os.symlink", "os.mkdir", "os.remove")
    if event == "open" and isinstance(arguments[2], int):
        changes = arguments[2] & (os.O_RDWR | os.O_WRONLY)
    if changes:
        with lock:
            seen += 1
            if seen == int(die_at):
                os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
fetch(repository, hub=hub, cache=Path(cache), home=Path(home), wait_seconds=0.0)
print(seen)
"""


def start(client, *, die_at=0):
    places = [client.server.endpoint, client.cache, client.home, client.name]
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, *map(str, places), str(die_at)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )


def came_bytes(client):
    blobs = client.folder / "blobs"
    return sum(path.stat().st_size for path in blobs.iterdir()) if blobs.exists() else 0


def kill_after(client, hold_after):
    """Let so many bytes through, wait until they are on the disk, and kill."""
    server = client.server
    server.hold_after = hold_after
    before = server.sent_bytes - came_bytes(client)  # the configs, which no one keeps
    process = start(client)
    try:
        assert server.held.wait(PATIENCE_SECONDS)
        config = len(server.repositories[NAME]["config.json"])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while came_bytes(client) < hold_after - before - config and time.monotonic() < deadline:
            time.sleep(0.005)
        process.kill()
    finally:
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    server.release.set()
    server.hold_after = None
    server.held.clear()


def check_nothing_loads_wrongly(client):
    """What looks like a model is one; and the cache's own tools are not confused."""
    path = client.snapshot
    if completed(path, home=client.home) or (path / "config.json").exists():
        assert client.is_right()
    try:
        inspect(path)
    except Problem:
        pass
    else:
        assert client.is_right()
    if client.folder.exists() and any(client.folder.iterdir()):
        assert not scan_cache_dir(client.cache).warnings


def finish(client):
    """Fetch the rest, and not what was there."""
    left = client.left_bytes()
    client.server.settle()
    before = client.server.sent_bytes
    client.fetch()
    assert client.is_right()
    assert completed(client.snapshot, home=client.home)
    assert client.server.sent_bytes - before <= left + 1_000  # a config, perhaps twice
    assert not list(client.folder.rglob("*.incomplete"))
    assert not scan_cache_dir(client.cache).warnings


def total_bytes(client):
    return sum(len(client.server.repositories[NAME][name]) for name in NEEDED)


@pytest.mark.parametrize("share", mostly_slow([0.1, 0.5, 0.95], quick=[0.5]))
def test_a_killed_download_goes_on(client, share):
    total = total_bytes(client)
    kill_after(client, int(total * share))
    check_nothing_loads_wrongly(client)
    assert not client.snapshot.exists()
    left = client.left_bytes()
    assert left <= total - int(total * share) + 1_000
    finish(client)


@pytest.mark.slow
def test_killed_before_every_second_change_to_the_disk(server, tmp_path):
    whole = start(Client(server, tmp_path / "whole"))
    points = range(1, int(whole.communicate()[0]) + 1, 2)
    assert len(points) >= 20
    died = 0
    for die_at in points:
        client = Client(server, tmp_path / str(die_at))
        process = start(client, die_at=die_at)
        process.communicate()
        died += process.returncode == -signal.SIGKILL
        check_nothing_loads_wrongly(client)
        finish(client)
    assert died >= len(points) - 3  # which thread waits for which lock is chance
