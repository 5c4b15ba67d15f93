"""From the hub through the queue onto the shelf, and off it again, with all the parts joined."""

import json
from pathlib import Path

import pytest
from huggingface_hub import close_session

from models.errors import Problem
from models.hub.fetch import Stopped, fetch
from models.hub.marks import completed
from models.hub.queue import Queue
from models.installed import store
from models.installed.resolve import resolve_target
from tests.support.models.hub_models import NAME, Client, model_files, safetensors
from tests.support.models.hub_server import serving_hub
from tests.support.models.tiny_store import clean


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setattr(store, "_SHIPPED", tmp_path / "shipped")
    close_session()
    with serving_hub({NAME: model_files()}) as server:
        yield Client(server, tmp_path)
    close_session()


def names(client):
    return [one.name for one in store.installed(home=client.home, cache=client.cache)]


def left_over(client):
    return [one.name for one in store.incomplete(home=client.home, cache=client.cache)]


def fetch_from(client):
    def fetch_one(download, report, cancelled):
        fetch(
            client.hub.describe(download.repository, download.revision or None),
            hub=client.hub,
            cache=client.cache,
            home=client.home,
            progress=report,
            cancelled=cancelled,
        )

    return fetch_one


def test_fetched_used_removed_and_fetched_again(client):
    queue = Queue(home=client.home)
    for _ in range(2):
        queue.enqueue(NAME)
        queue.run(fetch_from(client))
        (done,) = queue.downloads()
        assert (done.status, done.revision) == ("done", client.server.commit(NAME))
        assert done.done_bytes == done.total_bytes > 0
        (model,) = store.installed(home=client.home, cache=client.cache)
        assert (model.name, model.problem, model.path) == (NAME, "", str(client.snapshot))
        assert left_over(client) == []
        assert resolve_target("tiny-1b-4bit", home=client.home, cache=client.cache).path == Path(
            model.path
        )
        assert completed(client.snapshot, home=client.home)
        freed = store.remove(model, home=client.home, cache=client.cache)
        assert freed == model.size_bytes
        assert names(client) == []
        assert left_over(client) == []
        assert not completed(client.snapshot, home=client.home)
        assert list(client.cache.glob("models--*")) == []


def test_paused_it_is_the_queues_and_cancelled_it_is_left_over(client):
    queue = Queue(home=client.home)
    queue.enqueue(NAME)

    client.server.hold_after = 120_000

    def pausing(download, report, cancelled):
        def look():
            if client.server.held.is_set():
                Queue(home=client.home).pause(NAME)
                client.server.release.set()
            return cancelled()

        fetch_from(client)(download, report, look)

    queue.run(pausing)
    assert [one.status for one in queue.downloads()] == ["paused"]
    assert (names(client), left_over(client)) == ([], [])
    with pytest.raises(Problem, match="not downloaded yet"):
        resolve_target(NAME, home=client.home, cache=client.cache)
    queue.cancel(NAME)
    assert left_over(client) == [NAME]
    with pytest.raises(Problem, match="not whole"):
        resolve_target(NAME, home=client.home, cache=client.cache)
    assert clean(client.home, client.cache) > 0
    assert list(client.cache.glob("models--*")) == []


def test_a_broken_download_beside_an_older_revision(client):
    client.fetch()
    client.server.repositories[NAME]["model-2-of-2.safetensors"] = safetensors(7, 150_000)
    client.server.hold_after = client.server.sent_bytes + 50_000

    def stop():
        if client.server.held.is_set():
            client.server.release.set()
        return client.server.held.is_set()

    with pytest.raises(Stopped):
        client.fetch(cancelled=stop)
    assert left_over(client) == [NAME]
    (model,) = store.installed(home=client.home, cache=client.cache)
    assert (model.name, model.problem) == (NAME, "")
    assert clean(client.home, client.cache) > 0
    assert left_over(client) == []
    assert names(client) == [NAME]
    assert completed(Path(model.path), home=client.home)


def with_index(files, *, shards):
    """The files with an index of `shards` others, as a conversion may leave it there."""
    places = {f"t{n}": f"model-{n}-of-{shards}.safetensors" for n in range(1, shards + 1)}
    return files | {"model.safetensors.index.json": json.dumps({"weight_map": places}).encode()}


def test_an_index_of_other_files_changes_nothing(client):
    served = client.server.repositories[NAME]
    single = {name: data for name, data in served.items() if "-of-2" not in name}
    single |= {"model.safetensors": safetensors(1, 1_000)}
    for files in (with_index(served, shards=5), with_index(single, shards=2)):
        client.server.repositories[NAME] = files
        snapshot = client.fetch()
        assert completed(snapshot, home=client.home)
        (model,) = store.installed(home=client.home, cache=client.cache)
        assert (model.name, model.problem, model.path) == (NAME, "", str(snapshot))
        assert left_over(client) == []
        assert resolve_target(NAME, home=client.home, cache=client.cache).path == snapshot
        store.remove(model, home=client.home, cache=client.cache)


def test_a_model_that_is_not_whole_on_the_hub_is_not_called_complete(client):
    del client.server.repositories[NAME]["model-1-of-2.safetensors"]
    queue = Queue(home=client.home)
    queue.enqueue(NAME)
    queue.run(fetch_from(client))
    (failed,) = queue.downloads()
    assert failed.status == "failed"
    assert "model-1-of-2.safetensors" in failed.problem
    assert "version" in failed.remedy
    assert not completed(client.snapshot, home=client.home)
    assert names(client) == []
