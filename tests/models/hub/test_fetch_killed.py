"""A download that is killed, wherever that is, leaves nothing that loads wrongly, and goes on."""

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir

from models.errors import Problem
from models.hub.fetch import completed
from models.model_folder import inspect
from tests.support.models.hub_models import NAME, NEEDED, Client
from tests.support.mostly_slow import mostly_slow

# Kills itself before the n-th change to the disk, of those that tell one state from another, or
# when so many bytes are there.
FETCH = """
import os, signal, sys, threading
from pathlib import Path
from models.hub.fetch import fetch
from models.hub.client import Hub

endpoint, cache, home, name, change, most_bytes = sys.argv[1:]
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
            if seen == int(change):
                os.kill(os.getpid(), signal.SIGKILL)

def progress(told):
    if told.done_bytes >= int(most_bytes):
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
fetch(repository, hub=hub, cache=Path(cache), home=Path(home), wait_seconds=0.0, progress=progress)
"""


def is_killed(client, *, before_change=0, after_bytes=10**9):
    """Whether a process that fetches was killed; then nothing is there that loads wrongly."""
    client.server.hold_after = after_bytes + 1_000  # with the config, which is looked at first
    places = [client.server.endpoint, client.cache, client.home, client.name]
    command = [sys.executable, "-c", FETCH, *map(str, (*places, before_change, after_bytes))]
    ended = subprocess.run(command, cwd=Path(__file__).parents[3])
    client.server.release.set()
    client.server.hold_after = None
    path = client.snapshot
    if completed(path, home=client.home) or (path / "config.json").exists():
        assert client.is_right()
    with suppress(Problem):
        inspect(path)
        assert client.is_right()
    if client.folder.exists() and any(client.folder.iterdir()):
        assert not scan_cache_dir(client.cache).warnings
    return ended.returncode == -signal.SIGKILL


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


@pytest.mark.parametrize("share", mostly_slow([0.1, 0.5, 0.95], quick=[0.5]))
def test_a_killed_download_goes_on(client, share):
    total = sum(len(client.server.repositories[NAME][name]) for name in NEEDED)
    assert is_killed(client, after_bytes=int(total * share))
    assert not client.snapshot.exists()
    assert client.left_bytes() <= total - int(total * share)
    finish(client)


@pytest.mark.slow
def test_killed_before_every_second_change_to_the_disk(server, tmp_path):
    died = 0
    for change in range(1, 60, 2):
        client = Client(server, tmp_path / str(change))
        died += is_killed(client, before_change=change)
        finish(client)
    assert died >= 17  # which thread waits for which lock is chance
