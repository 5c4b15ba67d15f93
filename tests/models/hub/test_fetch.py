"""A model is fetched into the shared cache, whole, and marked; what is there is taken over."""

import os
import threading
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir, snapshot_download
from huggingface_hub.utils import disable_progress_bars

from models.drafters.folders import describe_drafter
from models.errors import Problem
from models.hub import marks
from models.hub.cache_layout import has_digest
from models.hub.fetch import Stopped, completed, fetch
from models.hub.marks import mark_path, unmark
from models.hub.watching import WINDOW_SECONDS, Meter
from tests.support.models.drafter_configs import drafter_files, drafter_layout
from tests.support.models.hub_models import NAME, NEEDED, TOKEN, Client
from tests.support.mostly_slow import mostly_slow


def test_a_commit_becomes_the_main_one_when_it_is_fetched_as_that(client):
    commit = client.server.commit(NAME)
    as_commit = client.hub.describe(NAME, commit)
    path = fetch(as_commit, hub=client.hub, cache=client.cache, home=client.home)
    reference = client.folder / "refs" / "main"
    assert not reference.exists()
    asked = len(client.server.asked)
    assert client.fetch() == path
    assert reference.read_text() == commit
    assert [one.path for one in client.server.asked[asked:]] == [f"/api/models/{NAME}"]


def test_the_hubs_own_client_and_ours_have_one_cache(client, tmp_path, monkeypatch):
    monkeypatch.setattr("models.hub.cache_layout._BLOCK_BYTES", 50_000)
    disable_progress_bars()
    server, wanted = client.server, sorted(NEEDED)
    path = client.fetch()
    assert client.is_right()
    assert not list((client.folder / "blobs").glob("*.incomplete"))
    sent = server.sent_bytes
    hub = {"endpoint": server.endpoint, "allow_patterns": wanted}
    theirs = snapshot_download(NAME, cache_dir=client.cache, revision=path.name, **hub)
    assert (Path(theirs), server.sent_bytes) == (path, sent)
    info = scan_cache_dir(client.cache)
    assert not info.warnings
    assert not info.incomplete_files
    (repository,) = info.repos
    assert (repository.repo_id, repository.refs.keys()) == (NAME, {"main"})

    other = Client(server, tmp_path / "other")
    theirs = Path(snapshot_download(NAME, cache_dir=other.cache, **hub))
    assert not completed(theirs, home=other.home)
    sent = server.sent_bytes
    assert other.fetch() == theirs
    assert server.sent_bytes - sent < 1_000  # the config, which is looked at first
    assert completed(theirs, home=other.home)


def damage(blob):
    """Change a byte, and nothing that can be seen from outside."""
    state, data = blob.stat(), bytearray(blob.read_bytes())
    data[-1] ^= 1
    blob.write_bytes(data)
    os.utime(blob, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_without_a_mark_it_is_checked_and_fetched_again_also_through_a_link(client, tmp_path):
    path = client.fetch()
    (tmp_path / "link").symlink_to(client.cache)
    same = tmp_path / "link" / path.relative_to(client.cache)
    assert completed(same, home=client.home)
    unmark(same, home=client.home)
    assert not completed(path, home=client.home)
    damage((path / "model-1-of-2.safetensors").resolve())
    client.fetch()
    assert client.is_right()
    assert completed(same, home=client.home)
    assert not completed(client.cache, home=client.home)


@pytest.mark.parametrize(
    "change",
    mostly_slow(
        ["shorter", "gone", "rewritten", "while it is read", "elsewhere", "more", "mark"],
        quick=["while it is read", "more"],
    ),
)
def test_a_mark_holds_for_what_was_checked_only(client, tmp_path, monkeypatch, change):
    path = client.fetch()
    weights = path / "model-2-of-2.safetensors"
    blob = weights.resolve()
    match change:
        case "shorter":
            os.truncate(blob, 100)
        case "gone":
            blob.unlink()
        case "rewritten":
            blob.write_bytes(bytes(blob.stat().st_size))
        case "while it is read":

            def read(path, digest, *, stop):
                is_whole = has_digest(path, digest, stop=stop)
                blob.write_bytes(bytes(blob.stat().st_size))
                return is_whole

            os.utime(blob, ns=(1, 1))
            with monkeypatch.context() as patch:
                patch.setattr(marks, "has_digest", read)
                completed(path, home=client.home)
        case "elsewhere":
            outside = blob.rename(tmp_path / "outside")
            weights.unlink()
            weights.symlink_to(outside)
        case "more":
            (path / "model-3-of-2.safetensors").symlink_to(blob)
        case "mark":
            mark_path(path, home=client.home).write_text('{"files": [1]}')
    assert not completed(path, home=client.home)


@pytest.mark.parametrize("copied", [False, True])
def test_a_cache_that_was_moved_is_still_whole(client, tmp_path, copied):
    path = client.fetch()
    moved = client.cache.rename(tmp_path / "moved") / path.relative_to(client.cache)
    weights = moved / "model-2-of-2.safetensors"
    if copied:  # where another disk gives files other times
        os.utime(weights, ns=(1, 1))
    assert completed(moved, home=client.home)
    assert not completed(path, home=client.home)
    damage(weights.resolve())
    assert completed(moved, home=client.home)  # which needs no reading any more
    os.utime(weights, ns=(2, 2))
    assert not completed(moved, home=client.home)


def test_progress_is_told_in_the_callers_thread_which_may_end_it(client):
    def end(told):
        raise KeyboardInterrupt

    client.server.block_seconds = 0.02
    with pytest.raises(KeyboardInterrupt):
        client.fetch(progress=end)
    seen, threads = [], set()

    def progress(told):
        seen.append(told)
        threads.add(threading.current_thread())

    client.fetch(progress=progress)
    assert client.is_right()
    total = sum(len(client.server.repositories[NAME][name]) for name in NEEDED)
    assert threads == {threading.current_thread()}
    assert {one.total_bytes for one in seen} == {total}
    assert len(seen) >= 2
    done = [one.done_bytes for one in seen]
    assert done == sorted(done)
    assert (seen[-1].status, seen[-1].revision) == ("running", client.snapshot.name)
    assert done[-1] == total
    assert any(one.bytes_per_second > 0 for one in seen)


def test_a_stopped_download_goes_on_where_it_was(client):
    server = client.server
    server.hold_after = 120_000

    def cancelled():
        partial = client.folder.rglob("*.incomplete")
        came = server.held.is_set() and any(path.stat().st_size for path in partial)
        if came:
            server.release.set()  # the connections break; the pauses after that are cut short
        return came

    with pytest.raises(Stopped):
        client.fetch(cancelled=cancelled, wait_seconds=600.0)
    assert len(server.requests("/cdn/")) <= 3  # each at most once: no one tried again
    assert not client.snapshot.exists()
    came = client.left_bytes()
    total = sum(len(client.server.repositories[NAME][name]) for name in NEEDED)
    assert 0 < came < total
    client.server.hold_after, before = None, client.server.sent_bytes
    client.fetch()
    assert client.is_right()
    assert client.server.sent_bytes - before < came + 1_000
    assert any(asked.range for asked in client.server.requests("/cdn/"))


def test_the_token_goes_to_the_hub_alone(client):
    client.fetch()
    cdn = client.server.requests("/cdn/")
    assert cdn
    assert all(asked.token is None for asked in cdn)
    assert all("localhost" in asked.origin for asked in cdn)
    rest = [asked for asked in client.server.asked if asked not in cdn]
    assert {asked.token for asked in rest} == {TOKEN}
    kept = [path for path in (*client.cache.rglob("*"), *client.home.rglob("*")) if path.is_file()]
    assert kept
    assert not any(TOKEN.encode() in path.read_bytes() for path in kept)


def test_a_chosen_gguf_file(server, tmp_path):
    name = "org/tiny-GGUF"
    server.repositories[name] = {
        "README.md": b"#",
        "tiny-Q4.gguf": b"GGUF" + bytes(5_000),
        "tiny-Q8.gguf": b"GGUF" + bytes(9_000),
        **(split := {f"a-{part}-of-00002.gguf": part.encode() for part in ("00001", "00002")}),
        "b-00001-of-00002.gguf": b"GGUF",
    }
    client = Client(server, tmp_path, name=name)
    with pytest.raises(Problem, match=r"GGUF files only.*tiny-Q4.gguf, tiny-Q8.gguf"):
        client.fetch()
    with pytest.raises(Problem, match=r"no GGUF file called 'other.gguf'"):
        client.fetch(gguf="other.gguf")
    for lacking in ("a-00002-of-00002.gguf", "b-00001-of-00002.gguf"):
        with pytest.raises(Problem, match="not all of its parts"):
            client.fetch(gguf=lacking)
    path = client.fetch(gguf="tiny-Q4.gguf")
    assert path.read_bytes() == server.repositories[name]["tiny-Q4.gguf"]
    assert completed(path, home=client.home)
    assert [one.name for one in path.parent.iterdir()] == ["tiny-Q4.gguf"]
    other = client.fetch(gguf="tiny-Q8.gguf")
    assert completed(other, home=client.home)
    assert completed(path, home=client.home)
    assert not completed(path.parent, home=client.home)
    kept = {each.name for each in path.parent.iterdir()}
    client.fetch(gguf="a-00001-of-00002.gguf")
    came = {each.name: each.read_bytes() for each in path.parent.iterdir() if each.name not in kept}
    assert came == split


def test_contents_that_are_the_same_come_once(client):
    files = client.server.repositories[NAME]
    files["model-2-of-2.safetensors"] = files["model-1-of-2.safetensors"]
    seen = []
    client.fetch(progress=seen.append)
    assert seen[-1].done_bytes == seen[-1].total_bytes
    assert client.is_right()
    assert len(client.server.requests("/cdn/")) == 2  # that one and the tokenizer


def test_a_rate_is_of_the_last_seconds_and_of_what_came_in_them():
    meter = Meter()
    meter.tell(0.0, 1_000_000)  # was there before
    meter.tell(0.0, 1_000_500)  # in no time
    assert (meter.bytes_per_second, meter.seconds_left(100)) == (0.0, None)
    meter.tell(1.0, 0)  # it was thrown away
    meter.tell(2.0, 10)
    assert meter.bytes_per_second == 10.0
    for second in range(3, 10 + 2 * int(WINDOW_SECONDS)):
        meter.tell(float(second), 500 + 100 * second)
    assert meter.bytes_per_second == 100.0
    assert meter.seconds_left(1_000) == 10.0
    assert meter.seconds_left(0) == 0.0


# Drafters of others are fetched like models; what cannot be used is refused early.


@pytest.mark.parametrize(
    ("layout", "weights"),
    [
        ("dspark-liquid", "model.safetensors"),
        ("medusa", "medusa_lm_head.safetensors"),
        ("mtp-huggingface", "mtp.safetensors"),
    ],
)
def test_a_drafter_is_fetched(server, tmp_path, layout, weights):
    """Its network is our own: the code that comes along is neither fetched nor run."""
    made = drafter_layout(layout)
    made.config["auto_map"] = {"AutoModel": "modeling_drafter.Drafter"}
    files = drafter_files(made, tmp_path / "made", weights=weights)
    server.repositories["a/drafter"] = files | {"modeling_drafter.py": b"raise SystemExit"}
    client = Client(server, tmp_path, name="a/drafter")
    path = client.fetch()
    assert {file.name for file in path.iterdir()} == files.keys()
    assert completed(path, home=client.home)
    assert describe_drafter(path).kind == made.expected["kind"]


def test_a_drafter_that_cannot_be_used_is_refused_before_it_is_fetched(server, tmp_path, subtests):
    for layout, message, remedy in [
        ("refused-pickled", "pickled", "safetensors"),
        ("refused-unknown-kind", "architecture", "another"),
        ("refused-quantized-by-others", "compressed-tensors", "16-bit"),
        ("refused-layers-that-cannot-be", "layers", "another"),
    ]:
        name = f"a/{layout}"
        server.repositories[name] = drafter_files(drafter_layout(layout), tmp_path / layout)
        with subtests.test(layout=layout):
            with pytest.raises(Problem, match=message) as refusal:
                Client(server, tmp_path, name=name).fetch()
            assert remedy in refusal.value.remedy
            assert not server.requests(".safetensors")
            assert not server.requests(".bin")
