"""Whatever goes wrong with a download, it goes on later or says why not; nothing loads wrongly."""

import errno
import os
import shutil
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from models.errors import Problem
from models.hub import client as client_module
from models.hub import problems, transfer
from models.hub.client import Hub
from models.hub.fetch import completed
from models.hub.stopping import Stop
from models.installed import store
from tests.support.models.hub_models import NAME, NEEDED
from tests.support.models.hub_server import Refusal, sha256
from tests.support.mostly_slow import mostly_slow

WEIGHTS = "model-1-of-2.safetensors"
OTHER_WEIGHTS = "model-2-of-2.safetensors"
DAMAGED = mostly_slow([WEIGHTS, "tokenizer.json", "README.md"], quick=[WEIGHTS])


@pytest.fixture
def pauses(monkeypatch):
    """The seconds that a transfer would have waited."""
    waited = []
    monkeypatch.setattr(Stop, "pause", lambda self, seconds: waited.append(seconds))
    return waited


def fails(client, match, **changes):
    """Fetching fails so, and leaves nothing that could be taken for a model."""
    with pytest.raises(Problem, match=match) as raised:
        client.fetch(**changes)
    assert not client.snapshot.exists()
    assert not completed(client.snapshot, home=client.home)
    assert "\n" not in str(raised.value)
    return raised.value


def recovers(client):
    assert client.fetch() == client.snapshot
    assert client.is_right()
    assert completed(client.snapshot, home=client.home)
    assert not list(client.folder.rglob("*.incomplete"))


@pytest.mark.slow
def test_a_hub_that_stalls_is_given_up_and_resumed(client, monkeypatch):
    client.hub = Hub(endpoint=client.server.endpoint, timeout_seconds=1.0)
    client.server.hold_after = 100_000
    with monkeypatch.context() as patch:
        patch.setattr(problems, "ATTEMPTS", 1)
        fails(client, "does not answer")
    client.server.hold_after = None
    client.hub = Hub(endpoint=client.server.endpoint)
    left = client.left_bytes()
    assert left < 250_000
    recovers(client)


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("status", "said", "waits"),
    [
        (503, "", [1.0, 2.0, 4.0]),
        (429, "11", [11.0] * 2),
        (503, "until 200 seconds later", [pytest.approx(150, abs=50)] * 2),
        *((status, "", [1.0]) for status in (408, 429, 500, 502, 503, 504)),
    ],
)
def test_passing_refusals_are_tried_again_after_a_while(client, pauses, status, said, waits):
    if said.startswith("until"):
        said = format_datetime(datetime.now(UTC) + timedelta(seconds=200), usegmt=True)
    refusal = Refusal(status, len(waits), {"Retry-After": said} if said else {})
    client.server.refusals[f"/resolve/{client.server.commit(NAME)}/{WEIGHTS}"] = refusal
    client.fetch(wait_seconds=1.0)
    assert client.is_right()
    assert pauses == waits


SIGN_IN = b"<html>sign in</html>"


@pytest.mark.parametrize("name", ["config.json", WEIGHTS])
@pytest.mark.parametrize(
    "answer",
    [
        Refusal(200, 2, {"Content-Type": "text/html; charset=utf-8"}, SIGN_IN),
        Refusal(200, 2, {"Content-Type": "text/plain"}, b"sign in"),
        *(
            pytest.param(answer, marks=pytest.mark.slow)
            for answer in (
                Refusal(200, 2, {"Content-Type": "text/html"}, b"<html>" + bytes(400_000)),
                Refusal(203, 2, {}, b"x" * 150_080),
                Refusal(204, 2, {}, b""),
                Refusal(302, 2, {}, b"no place is named"),
                Refusal(206, 2, {"Content-Range": "bytes 100000-100006/9000000"}, b"sign in"),
                Refusal(206, 2, {}, b"sign in"),
            )
        ),
    ],
    ids=lambda answer: f"{answer.status} {answer.body[:7]}",
)
def test_another_answer_is_not_taken_for_a_file(client, pauses, name, answer):
    data = client.server.repositories[NAME][WEIGHTS]
    partly_fetched(client, data, data[:100_000])
    client.server.refusals[f"/{name}"] = replace(answer)
    total = sum(len(client.server.repositories[NAME][each]) for each in NEEDED)
    recovers(client)
    assert client.server.sent_bytes < total - 100_000 + 1_000  # nothing came twice


def test_of_a_page_without_a_length_nothing_is_kept(client, pauses):
    headers = {"Content-Type": "text/plain", "Transfer-Encoding": "chunked"}
    client.server.refusals["/cdn/"] = Refusal(200, 1, headers, b"sign in")
    recovers(client)
    assert not any(asked.range for asked in client.server.requests("/cdn/"))


def test_the_first_questions_are_asked_as_patiently(client, monkeypatch):
    waited = []
    monkeypatch.setattr("models.hub.client.time.sleep", waited.append)
    for part, status in (("/api/models", 503), ("/config.json", 429)):
        client.server.refusals[part] = Refusal(status, 1, {"Retry-After": "7"})
    recovers(client)
    assert waited == [7.0] * 2
    client.server.refusals["/api/models"] = Refusal(503, headers={"Retry-After": "77"})
    with pytest.raises(Problem, match="answered 503"):
        client.describe()
    assert len(waited) == 2


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("status", "headers", "message"),
    [
        (401, {}, "rejected the token"),
        (429, {"Retry-After": "4000"}, "limits the number"),
        (500, {}, "answered 500"),
        (403, {}, "no access"),
        (403, {"X-Error-Code": "GatedRepo"}, "is gated"),
        (404, {"X-Error-Code": "EntryNotFound"}, "a file is gone"),
    ],
)
def test_refusals_end_the_download_and_say_why(client, pauses, status, headers, message):
    client.server.refusals[f"/{WEIGHTS}"] = Refusal(status, headers=headers)
    fails(client, message)
    asked = client.server.requests(f"/{WEIGHTS}")
    again = status in (429, 500) and not headers  # a long wait is left to the user
    assert len(asked) == (problems.ATTEMPTS if again else 1)
    client.server.refusals.clear()
    recovers(client)


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_that_stays_damaged_is_thrown_away(client, name):
    client.server.corrupt[name] = 2
    fails(client, f"{name} of .* damaged twice")
    right = list(client.server.repositories[NAME].values())
    for path in (client.folder / "blobs").iterdir():
        assert any(data.startswith(path.read_bytes()) for data in right)
    recovers(client)


def partly_fetched(client, data, part):
    """Leave `part` as the beginning of a file with `data`, as a fetch that broke off does."""
    partial = client.folder / "blobs" / f"{sha256(data)}.slipstream.incomplete"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(part)
    return partial


def test_a_start_over_that_breaks_off_leaves_nothing_of_before(client):
    client.server.ranges, client.server.drop_after = False, 50_000
    data, other = (client.server.repositories[NAME][name] for name in (WEIGHTS, OTHER_WEIGHTS))
    begun = partly_fetched(client, data, b"z" * 140_000)
    begun.with_name(sha256(other)).write_bytes(other)  # else either may be given up first
    fails(client, "broke off")
    client.server.ranges, client.server.drop_after = True, None
    recovers(client)
    assert client.server.requests(f"/{WEIGHTS}")[-1].range == "bytes=50000-"


def test_a_hub_that_sends_too_much_or_has_too_little(client):
    server = client.server
    files, server.excess = server.repositories[NAME], b"more"
    place = f"/{NAME}/resolve/{server.commit(NAME)}/config.json"
    server.answers[place] = files["config.json"]
    fails(client, "sends more of .* than the .* bytes that")
    server.excess = b""
    recovers(client)
    del files[OTHER_WEIGHTS]
    with pytest.raises(Problem, match="not whole on the hub"):
        client.fetch()
    assert not completed(client.snapshot, home=client.home)


def test_a_disk_that_fills_up(client, monkeypatch):
    taken = bytearray()

    def take(block):  # a part, as a nearly full disk does
        taken.extend(block[:7])
        return len(block[:7])

    transfer._write(Mock(write=take), bytes(range(100)))
    assert taken == bytes(range(100))
    written = 0

    def write(output, block):
        nonlocal written
        written += len(block)
        if written > 100_000:
            output.write(block[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        output.write(block)

    with monkeypatch.context() as patch:
        patch.setattr(transfer, "_write", write)
        assert "Make room" in fails(client, "cannot be stored in .*No space left").remedy
    total = sum(len(client.server.repositories[NAME][name]) for name in NEEDED)
    assert client.left_bytes() < total
    recovers(client)


def test_links_in_the_cache_are_not_written_through(client, tmp_path):
    data = client.server.repositories[NAME][WEIGHTS]
    outside = tmp_path / "precious"
    outside.write_bytes(b"precious")
    blobs = client.folder / "blobs"
    blobs.mkdir(parents=True)
    client.snapshot.mkdir(parents=True)
    (blobs / f"{sha256(data)}.slipstream.incomplete").symlink_to(outside)
    (blobs / sha256(data)).symlink_to(outside)
    (client.snapshot / "config.json").symlink_to(outside)
    (client.snapshot / WEIGHTS).symlink_to(outside)
    client.fetch()
    assert client.is_right()
    assert outside.read_bytes() == b"precious"


def test_what_is_refused_before_anything_comes_leaves_nothing(client, monkeypatch):
    files = client.server.repositories[NAME]
    config, weights = files["config.json"], files[WEIGHTS]
    for told, reason in (
        (b'{"model_type": "llama", "model_file": "modeling_tiny.py"}', "program code"),
        (b'{"model_type": "own", "auto_map": {"AutoModel": "x.Y"}}', "program code"),
        (b'{"model_type": "own"}', "does not know: 'own'"),
    ):
        files["config.json"] = told
        fails(client, reason)
    assert not client.server.requests("/cdn/")
    files["config.json"] = config
    client.server.asked.clear()
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=300_000))
        assert "Make room" in fails(client, r"needs 320 kB .*, .* 300 kB left").remedy
        assert store.incomplete(home=client.home, cache=client.cache) == []
        partly_fetched(client, weights, bytes(len(weights) + 1))  # too long to go on from
        fails(client, r"needs 320 kB more, .* 300 kB left")
    assert not client.server.requests("/resolve/")
    recovers(client)
    client.cache = client.cache.with_name("a file")
    client.cache.write_text("")
    with pytest.raises(Problem, match=r"cannot be stored.*may write there"):
        client.fetch()


def test_two_at_once_fetch_it_once(client, tmp_path):
    client.server.block_seconds = 0.01
    paths = []
    threads = [threading.Thread(target=lambda: paths.append(client.fetch())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths == [client.snapshot] * 2
    assert client.is_right()
    assert len(client.server.requests("/cdn/")) == 3


def test_a_file_that_needs_xet(client, monkeypatch):
    monkeypatch.setattr(client_module.constants, "MAX_HTTP_DOWNLOAD_SIZE", 100_000)
    assert f"hf download {NAME} model-" in fails(client, "too large to be fetched").remedy
    largest = max(map(len, client.server.repositories[NAME].values()))
    monkeypatch.setattr(client_module.constants, "MAX_HTTP_DOWNLOAD_SIZE", largest)
    client.fetch()
    assert client.is_right()
