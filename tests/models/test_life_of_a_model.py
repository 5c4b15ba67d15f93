"""From the hub through the queue onto the shelf, and off it again, with all the parts joined."""

from pathlib import Path

import pytest
from huggingface_hub import close_session

from models.hub.fetch import fetch
from models.hub.marks import completed
from models.hub.queue import Queue
from models.installed import store
from models.installed.resolve import resolve_target
from tests.support.models.hub_models import NAME, Client, model_files
from tests.support.models.hub_server import serving_hub


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setattr(store, "_SHIPPED", tmp_path / "shipped")
    close_session()
    with serving_hub({NAME: model_files()}) as server:
        yield Client(server, tmp_path)
    close_session()


def test_fetched_used_removed_and_fetched_again(client):
    places = {"home": client.home, "cache": client.cache}

    def fetch_one(download, report, cancelled):
        told = client.hub.describe(download.repository, download.revision or None)
        fetch(told, hub=client.hub, progress=report, cancelled=cancelled, **places)

    queue = Queue(home=client.home)
    for _ in range(2):
        queue.enqueue(NAME)
        queue.run(fetch_one)
        (done,) = queue.downloads()
        assert (done.status, done.revision) == ("done", client.server.commit(NAME))
        assert done.done_bytes == done.total_bytes > 0
        (model,) = store.installed(**places)
        assert (model.name, model.problem, model.path) == (NAME, "", str(client.snapshot))
        assert store.incomplete(**places) == []
        assert resolve_target("tiny-1b-4bit", **places).path == Path(model.path)
        assert completed(client.snapshot, home=client.home)
        freed = store.remove(model, **places)
        assert freed == model.size_bytes
        assert store.installed(**places) == []
        assert store.incomplete(**places) == []
        assert not completed(client.snapshot, home=client.home)
        assert list(client.cache.glob("models--*")) == []
