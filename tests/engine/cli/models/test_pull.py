"""From the hub to an answer, and what is kept when a pull ends early."""

import json
import os
import signal
import socket
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from engine.cli.models.pull import paced, pull
from models.errors import Problem
from models.files import models_folder
from models.hub.queue import Queue
from models.installed import resolve
from models.model_folder import ModelFolder
from models.records import Download, Installed
from models.starter import MARKER_NAME, STARTER
from tests.support.engine import tiny
from tests.support.engine.ended import Run, assert_refused
from tests.support.engine.repositories import NAME, answer_of, child, lines_of
from tests.support.models.drafter_configs import drafter_files, drafter_layout
from tests.support.models.tiny_gguf import TinyGguf

WEIGHTS = 2  # files


def test_from_a_hub_to_an_answer(run, hub):
    asked = ("--temperature", 0, "--prompt", "a b a b a b", "--max-tokens", 16)
    before = run("generate", "--target", NAME, *asked)
    assert_refused(before, f"slipstream models pull {NAME}")

    *told, last = lines_of(run("models", "pull", NAME, "--json"))
    downloads = [Download(**one["download"]) for one in told]
    assert [one.status for one in downloads][:1] == ["queued"]
    assert downloads[-1].status == "done"
    assert downloads[-1].done_bytes == downloads[-1].total_bytes > 100_000
    assert downloads[-1].revision == hub.commit(NAME)
    model = Installed(**last["installed"])
    assert (model.name, model.origin, model.role, model.problem) == (NAME, "hub", "chat", "")
    assert len(list(Path(model.path).glob("*.safetensors"))) == WEIGHTS
    assert not list(Path(model.path).glob("*.py"))
    assert answer_of(run("models", "list", "--json"))["downloads"] == []

    asked_before = len(hub.asked)
    names = ("--target", NAME.upper(), "--drafter", f"{NAME}@{downloads[-1].revision}")
    drafted = run("generate", *names, *asked, "--draft-length", 2)
    assert drafted.code == 0
    assert "accepted" in drafted.err
    assert len(hub.asked) == asked_before  # answering asks no hub

    assert run("models", "remove", NAME, "--yes").code == 0
    ended = run("models", "pull", NAME)
    assert (ended.code, ended.out) == (0, f"{NAME}\n")
    assert ("running" in ended.err, "done" in ended.err) == (True, True)
    sent = hub.sent_bytes
    for name in (NAME, f"{NAME}@main", f"{NAME}@v1.0", f"{NAME}@{hub.commit(NAME)}"):
        assert run("models", "pull", name).out == f"{NAME}\n", name
    assert hub.sent_bytes == sent
    assert "empty" in run("models", "pull").err
    with urllib.request.urlopen(f"{hub.endpoint}/api/models/{NAME}?blobs=true") as answer:
        hub.answers["/api/models/old/name"] = answer.read()
    *_, last = lines_of(run("models", "pull", "old/name", "--json"))
    assert last["installed"]["name"] == NAME  # it was renamed


@pytest.mark.parametrize(
    ("layout", "part", "name", "kind"),
    [
        ("dspark-deepspec", "", "Qwen/Tiny-27B", "dspark"),
        ("mtp-huggingface-inside", "/mtp.safetensors", "Tiny-27B-MTP", "mtp"),
    ],
)
def test_drafters_of_others(run, hub, tmp_path, layout, part, name, kind):
    hub.repositories["Qwen/Tiny-27B"] = drafter_files(drafter_layout(layout), tmp_path / "made")
    pull = ("models", "pull", f"Qwen/Tiny-27B{part}")
    *told, last = lines_of(run(*pull, "--json"))
    assert {one["download"]["repository"] for one in told} == {pull[-1]}
    assert told[-1]["download"]["status"] == "done"
    expected = {"name": name, "role": "drafter", "drafter_kind": kind, "problem": ""}
    assert last["installed"].items() >= expected.items()
    assert last["installed"] in answer_of(run("models", "list", "--json"))["installed"]
    sent = hub.sent_bytes
    assert run(*pull).out == f"{name}\n"
    assert hub.sent_bytes == sent
    assert run("models", "remove", name, "--yes").code == 0
    assert last["installed"] not in answer_of(run("models", "list", "--json"))["installed"]


def test_what_is_not_there(run, hub):
    *told, last = lines_of(run("models", "pull", "no/such", NAME, "--json"), code=2)
    assert [one["installed"]["name"] for one in told if "installed" in one] == [NAME]
    assert "no/such" in last["message"]
    failed = next(one for one in Queue().downloads() if one.status == "failed")
    assert (failed.problem, failed.remedy) == (last["message"], last["remedy"])
    assert "no/such" in run("models", "list").out
    ended = run("models", "pull", "no/such")
    assert (ended.code, "no/such" in ended.err.splitlines()[-1]) == (2, True)
    assert "paused" not in run("models", "pull", "--pause", "no/such").out
    cancelled = answer_of(run("models", "pull", "--cancel", "no/such", "--json"))
    assert Download(**cancelled["download"]).over
    assert_refused(run("models", "pull", "--pause", "no/such"), "no/such")
    assert_refused(run("models", "pull", "not a name"), "not a name")


def ended(process):
    out, err = process.communicate(timeout=60)
    return Run(process.returncode, out, err)


def last_download(ending):
    return Download(**json.loads(ending.out.splitlines()[-1])["download"])


PULL = ("models", "pull", NAME, "--json")


def paused(how, run, hub):
    """The end of a pull that is paused once half of the weights have come."""
    if how == "Ctrl-C":

        def press():
            assert hub.held.wait(60)
            os.kill(os.getpid(), signal.SIGINT)

        with ThreadPoolExecutor(1) as threads:
            threads.submit(press)
            return run(*PULL)
    with child(*PULL, *(["--with-parent"] if how == "the parent's end" else [])) as process:
        assert hub.held.wait(60)
        match how:
            case "SIGTERM":
                process.send_signal(signal.SIGTERM)
            case "the parent's end":
                process.stdin.close()
                process.stdin = None
            case _:
                asked = answer_of(run("models", "pull", "--pause", NAME, "--json"))
                assert asked["download"]["request"] == "pause"
        return ended(process)


CODES = {"Ctrl-C": 130, "SIGTERM": 143, "the parent's end": 143, "the queue": 0}


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", CODES)
def test_a_pause_is_gone_on_with(how, run, hub, tmp_path):
    hub.hold_after = 100_000
    ending = paused(how, run, hub)
    assert ending.code == CODES[how], ending
    assert last_download(ending).status == "paused"
    assert ("slipstream models pull" in ending.err) == (how != "the queue")
    assert_refused(run("generate", "--target", NAME, "--prompt", "x"), NAME, "models pull")
    assert "paused" in run("models", "list").out

    sent, hub.hold_after = hub.sent_bytes, None
    hub.release.set()
    last = lines_of(run("models", "pull", "--json"))[-1]
    assert last["installed"]["name"] == NAME
    whole = sum(map(len, hub.repositories[NAME].values()))
    assert hub.sent_bytes - sent < whole - 50_000  # what had come was kept
    (main,) = (tmp_path / "hub").glob("models--*/refs/main")  # for other tools, as without a pause
    assert main.read_text() == hub.commit(NAME)


@pytest.mark.slow
def test_a_hub_that_says_nothing_at_all_is_left_at_once(run, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with child("models", "pull", NAME, "--json") as process:
            asking, _ = silent.accept()
            with asking:
                assert asking.recv(1)  # the request is there, and has no answer
                process.send_signal(signal.SIGINT)
                ending = ended(process)
    assert ending.code == 130, ending
    assert last_download(ending).status == "paused"


def test_a_file_of_a_repository(run, hub, tmp_path):
    path = tmp_path / "tiny.gguf"
    TinyGguf().write(path)
    files = dict.fromkeys(("another.gguf", "tiny.gguf"), path.read_bytes())
    hub.repositories["tiny/files"] = files | {"another.gguf": files["tiny.gguf"] + b"\0" * 32}
    refusal = lines_of(run("models", "pull", "tiny/files", "--json"), code=2)[-1]
    assert "tiny.gguf" in refusal["message"] + refusal["remedy"]
    for name in ("tiny/files/another.gguf", "tiny/files/tiny.gguf"):
        *_, last = lines_of(run("models", "pull", name, "--json"))
        assert last["installed"]["name"] == name


def test_the_starter_goes_by_its_name_and_can_be_paused(run, monkeypatch):
    def interrupted(*, progress, **_):
        signal.raise_signal(signal.SIGINT)
        while True:  # until it is noticed
            progress(5, 10)

    def ensure(*, progress, **_):
        progress(5, 10)
        folder = models_folder() / STARTER.name
        tiny.write_folder("llama", folder)
        (folder / MARKER_NAME).write_text(STARTER.gguf_sha256)
        progress(10, 10)
        return ModelFolder(folder)

    monkeypatch.setattr(resolve, "ensure_starter", interrupted)
    assert run("models", "pull", STARTER.name).code == 130
    assert [one.status for one in Queue().downloads()] == ["paused"]
    monkeypatch.setattr(resolve, "ensure_starter", ensure)
    *told, last = lines_of(run("models", "pull", STARTER.name, "--json"))
    assert told[-1]["download"]["status"] == "done"
    assert told[-1]["download"]["total_bytes"] == 10
    assert (last["installed"]["name"], last["installed"]["origin"]) == (STARTER.name, "starter")
    refusal = lines_of(run("models", "pull", f"{STARTER.name}@v1", "--json"), code=2)[-1]
    assert "@v1" in refusal["remedy"]


# The queue is worked through by this process, or by another that is then watched


@pytest.fixture
def queue(tmp_path):
    return Queue(home=tmp_path)


def fetching():
    def fetch(download, report, cancelled):
        for done in (0, 50, 100):
            if cancelled():
                raise RuntimeError("stopped")
            report(replace(download, done_bytes=done, total_bytes=100))

    return fetch


def pulled(queue, *names, fetch=None, report=print, stopped=bool, **more):
    """The ends of these downloads."""
    return pull(names, queue, fetch or fetching(), report=report, stopped=stopped, **more)


def statuses(downloads):
    return [(one.repository, one.status) for one in downloads]


def test_all_that_was_asked_for_in_that_order(queue):
    told = []
    ends = pulled(queue, "o/a", "o/b@v1", "o/a", report=told.append)
    assert statuses(ends) == [("o/a", "done"), ("o/b", "done")]
    assert ends[1].revision == "v1"
    assert [one.done_bytes for one in told if one.repository == "o/a"][-1] == 100
    assert statuses(told)[:3] == [("o/a", "queued"), ("o/b", "queued"), ("o/a", "running")]
    assert statuses(told)[-1] == ("o/b", "done")


ADDRESSES = (
    ("o/a/x.Q4.gguf@v1", "o/a/x.Q4.gguf", "v1"),
    ("o/a@", "o/a", ""),
    ("https://hub.example/o/a", "o/a", ""),
    ("https://hub.example/o/a/tree/main", "o/a", ""),
    ("https://hub.example/o/a/tree/v1?x=y", "o/a", "v1"),
    ("https://hub.example/o/a/blob/main/x.Q4.gguf", "o/a/x.Q4.gguf", ""),
    ("https://hub.example/o/a/resolve/v1/x.gguf?download=true", "o/a/x.gguf", "v1"),
    ("https://hub.example/o/a/discussions/3#4", "o/a", ""),
)


def test_a_repository_a_file_in_it_an_address_of_a_browser_and_what_is_none_of_them(queue):
    for name in ("", "a b", "../a", "a/b/c", "o/a@../x", "@main"):
        with pytest.raises(Problem):
            pulled(queue, "o/good", name)
        assert queue.downloads() == [], name
    for address, name, revision in ADDRESSES:
        (end,) = pulled(queue, address)
        assert (end.repository, end.revision) == (name, revision), address


def test_what_was_stopped_is_paused_and_gone_on_with(queue):
    queue.enqueue("o/old")
    queue.pause("o/old")
    told = []

    def stopped():
        return any(one.done_bytes == 50 for one in told)

    ends = pulled(queue, "o/a", "o/b", report=told.append, stopped=stopped)
    assert statuses(ends) == [("o/a", "paused"), ("o/b", "paused")]
    assert statuses(queue.downloads()) == [("o/old", "paused"), *statuses(ends)]
    assert statuses(pulled(queue, "o/a", "o/b")) == [("o/a", "done"), ("o/b", "done")]
    assert ("o/old", "paused") in statuses(queue.downloads())
    assert statuses(pulled(queue)) == [("o/old", "done")]
    assert pulled(queue) == []


class Other:
    """Another process, as far as the queue can tell: it has its own object, lock and thread."""

    def __init__(self, home, fetch):
        self.queue = Queue(home=home)
        self.begun, self.go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(fetch,))

    def __enter__(self):
        self.queue.enqueue("o/theirs")
        self._thread.start()
        assert self.begun.wait(30)
        return self

    def __exit__(self, *_):
        self.go_on.set()
        self._thread.join()

    def _run(self, fetch):
        def slow(download, report, cancelled):
            self.begun.set()
            assert self.go_on.wait(30)
            fetch(download, report, cancelled)

        self.queue.run(slow)


def unheard(*_):
    pytest.fail("fetched by the wrong one")


def test_another_process_fetches_and_is_watched(queue, tmp_path):
    told, looks = [], []
    with Other(tmp_path, fetching()) as other:

        def stopped():
            return len(looks) > 1

        ends = pulled(queue, "o/mine", fetch=unheard, stopped=stopped, sleep=looks.append)
        assert statuses(ends) == [("o/mine", "queued")]

        def sleep(_):
            other.go_on.set()

        ends = pulled(queue, "o/mine", fetch=unheard, report=told.append, sleep=sleep)
    assert statuses(ends) == [("o/mine", "done")]
    assert ("o/mine", "done") in statuses(told)
    assert not [one for one in told if one.repository == "o/theirs"]


def test_what_another_process_leaves_is_taken_over(queue, tmp_path):
    def end(download, report, cancelled):
        other.queue.pause("o/theirs")
        raise RuntimeError("as if it were ended")

    with Other(tmp_path, end) as other:
        stopped = threading.Event()
        other.queue.run = None

        def sleep(_):
            queue.pause("o/mine")
            other.go_on.set()
            while queue.is_run():  # or it would begin with the one that is resumed
                stopped.wait(0.01)
            queue.resume("o/mine")

        ends = pulled(queue, "o/mine", sleep=sleep)
    assert statuses(ends) == [("o/mine", "done")]
    assert ("o/theirs", "paused") in statuses(queue.downloads())


def test_a_queue_that_cannot_be_used_is_not_taken_for_a_busy_one(queue, monkeypatch):
    runs = []

    def full(*_, **__):
        runs.append(1)
        raise Problem("The disk is full.", "Make room.")

    monkeypatch.setattr(queue, "run", full)
    with pytest.raises(Problem):
        pulled(queue, "o/a", fetch=unheard)
    assert len(runs) == 1


def test_reports_are_paced_but_changes_are_not():
    moment, told = [0.0], []
    report = paced(lambda one: told.append((one.status, one.done_bytes)), lambda: moment[0])
    one = Download("o/a", "", "queued", 0, 100)
    report(one)
    for done in range(100):
        moment[0] += 0.01
        report(replace(one, status="running", done_bytes=done))
    report(replace(one, repository="o/b"))
    report(replace(one, status="done"))
    (first, *running, other, last) = told
    assert (first, other, last) == (("queued", 0), ("queued", 0), ("done", 0))
    assert running[0] == ("running", 0)
    assert 4 <= len(running) <= 5
