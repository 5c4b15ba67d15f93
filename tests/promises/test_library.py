"""From the Library to an answer, with the real commands, a hub on loopback and the real engine."""

import json
import os
import signal

import pytest

from app.commands import CommandRunner
from app.engine_client.engine_process import host_command
from tests.support.app.window_maker import make_window
from tests.support.app.window_use import button_of, let_go, row_of, words_of
from tests.support.children import children_with
from tests.support.models.hub_server import serving_hub

NAME = "tiny-community/Tiny-Llama-8bit"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """The files of a model to fetch."""
    from tests.support.engine.repositories import two_files  # imports MLX, which takes a while

    return two_files(tmp_path_factory.mktemp("repository"))


@pytest.fixture
def hub(repository, tmp_path, monkeypatch):
    with serving_hub({NAME: repository}) as server:
        for name, value in {
            "HF_ENDPOINT": server.endpoint,
            "HF_HUB_CACHE": str(tmp_path / "hub"),
            "HF_TOKEN_PATH": str(tmp_path / "no-token"),
            "HF_HUB_DOWNLOAD_TIMEOUT": "1",
            "SLIPSTREAM_HOME": str(tmp_path),
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


@pytest.fixture
def open_real(hub, tiny_folder, tmp_path, plain_application, until):
    """Opens the window, with everything behind it, on the same data each time."""
    windows = []

    def open_real():
        windows.append(
            make_window(
                plain_application,
                tmp_path,
                host_command(),
                target=tiny_folder,
                commands=CommandRunner(),
            )
        )
        windows[-1].show()
        windows[-1].begin()
        until(lambda: windows[-1].loader.loaded)
        return windows[-1]

    yield open_real
    for window in windows:
        window.close()
        let_go(window.application, window)
    assert children_with("engine") == []


def library_of(window):
    window.menus.actions["library"].trigger()
    return window.library_controller.view


def statuses(home):
    """What the queue on the disk says."""
    queue = json.loads((home / "downloads.json").read_text())
    return [one["status"] for one in queue["downloads"]]


def pull_of(window):
    """The process that downloads."""
    return window.library.downloads.running[0].pid


def test_from_a_search_to_an_answer(open_real, until):
    window = open_real()
    view = library_of(window)
    until(lambda: view.offers.card.isVisible())
    assert len(view.offers.rows.rows) > 10
    view.show_page("search")
    view.search.searched.emit("tiny")
    until(lambda: view.search.rows.rows)
    button_of(row_of(view.search.rows, NAME), "get").click()
    until(lambda: row_of(view.search.rows, NAME).data.badge == "On this machine")
    button_of(row_of(view.search.rows, NAME), "use").click()
    until(lambda: window.loader.loaded and "snapshots" in window.loader.loaded.target)
    assert window.loader.names[0] == "Tiny-Llama-8bit"
    window.composer.set_text("a b a b a b")
    window.composer.send()
    until(lambda: len(window.transcript.messages) == 2 and not window.answers.busy)
    answer = window.conversation.branch[-1]
    until(lambda: window.answers.writing(answer.id) is None)
    kept = window.store.message(answer.id).result()
    assert kept.content
    assert kept.target == "Tiny-Llama-8bit"
    assert kept.state in ("complete", "length")  # sampled, from a random model
    view.show_page("disk")
    until(lambda: any(row.data.badge == "In use" for row in view.disk.rows.rows))
    view.show_page("drafters")
    until(lambda: len(view.drafters.rows.rows) > 3)
    assert "Lookup" in [row.data.title for row in view.drafters.rows.rows]


@pytest.mark.slow
def test_closing_pauses_and_the_next_start_resumes(open_real, until, hub, tmp_path):
    hub.hold_after = 50_000
    window = open_real()
    window.library.downloads.pull(NAME)
    until(hub.held.is_set)
    until(lambda: window.library.downloads.all[0].done_bytes > 0)
    children = children_with("engine")
    assert children
    window.close()
    assert not any(child.is_running() for child in children)
    hub.hold_after = None
    hub.release.set()

    window = open_real()
    view = library_of(window)
    view.show_page("downloads")
    until(lambda: view.downloads.rows.rows)
    row = row_of(view.downloads.rows, NAME)
    assert row.data.line.startswith("Paused")
    button_of(row, "resume").click()
    until(lambda: window.library.inventory.value.find(NAME))
    until(lambda: not view.downloads.rows.rows)
    assert statuses(tmp_path) in ([], ["done"])


@pytest.mark.slow
def test_a_killed_download_is_reported_and_resumed(open_real, until, hub, tmp_path):
    hub.hold_after = 50_000
    window = open_real()
    view = library_of(window)
    window.library.downloads.pull(NAME)
    until(hub.held.is_set)
    view.show_page("downloads")
    os.kill(pull_of(window), signal.SIGKILL)
    hub.hold_after = None
    hub.release.set()
    until(lambda: view.downloads.rows.rows[0].data.warns)
    assert statuses(tmp_path) == ["failed"]  # so that every process knows it
    button_of(row_of(view.downloads.rows, NAME), "resume").click()
    until(lambda: window.library.inventory.value.find(NAME))


@pytest.mark.slow
def test_pausing_and_cancelling_a_real_download(open_real, until, hub, monkeypatch):
    hub.block_seconds = 3.0
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "30")
    window = open_real()
    view = library_of(window)
    downloads = window.library.downloads
    downloads.pull(NAME)
    until(lambda: downloads.all[0].done_bytes > 0)
    view.show_page("downloads")
    button_of(row_of(view.downloads.rows, NAME), "pause").click()
    until(lambda: downloads.all[0].status == "paused" and not downloads.running)
    assert 0 < downloads.all[0].done_bytes < downloads.all[0].total_bytes
    button_of(row_of(view.downloads.rows, NAME), "cancel").click()
    until(lambda: not downloads.all)
    until(lambda: window.library.inventory.value.incomplete)
    view.show_page("disk")
    (left,) = (row for row in view.disk.rows.rows if "incomplete:" in row.data.key)
    button_of(left, "clean").click()
    until(lambda: window.library.inventory.value.incomplete == ())
    assert view.line.text.startswith("Freed")


@pytest.mark.slow
def test_a_hub_that_is_not_there(open_real, until, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    window = open_real()
    view = library_of(window)
    until(lambda: view.offers.card.isVisible())  # the catalog needs no hub
    view.show_page("search")
    view.search.searched.emit("tiny")
    until(lambda: window.library.found.problem)
    assert words_of(view.search.status) == str(window.library.found.problem)
