"""From the hub to an answer, and what is kept when a pull ends early."""

import json
import os
import signal
import socket
import urllib.request
from pathlib import Path
from threading import Thread

import pytest

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


def test_a_person_reads_what_was_fetched(run, hub):
    ended = run("models", "pull", NAME)
    assert (ended.code, ended.out) == (0, f"{NAME}\n")
    assert "running" in ended.err
    assert "done" in ended.err
    sent = hub.sent_bytes
    for name in (NAME, f"{NAME}@main", f"{NAME}@v1.0", f"{NAME}@{hub.commit(NAME)}"):
        assert run("models", "pull", name).out == f"{NAME}\n", name
    assert hub.sent_bytes == sent
    assert "empty" in run("models", "pull").err


@pytest.mark.parametrize(
    ("layout", "part", "name", "kind"),
    [
        ("dspark-deepspec", "", "Qwen/Tiny-27B", "dspark"),
        ("mtp-huggingface-inside", "/mtp.safetensors", "Tiny-27B-MTP", "mtp"),
    ],
)
def test_drafters_of_others(run, hub, tmp_path, layout, part, name, kind):
    hub.repositories["Qwen/Tiny-27B"] = drafter_files(drafter_layout(layout), tmp_path / "made")
    *told, last = lines_of(run("models", "pull", f"Qwen/Tiny-27B{part}", "--json"))
    assert {one["download"]["repository"] for one in told} == {f"Qwen/Tiny-27B{part}"}
    assert told[-1]["download"]["status"] == "done"
    model = Installed(**last["installed"])
    assert (model.name, model.role, model.drafter_kind, model.problem) == (
        name,
        "drafter",
        kind,
        "",
    )
    assert last["installed"] in answer_of(run("models", "list", "--json"))["installed"]
    sent = hub.sent_bytes
    assert run("models", "pull", f"Qwen/Tiny-27B{part}").out == f"{name}\n"
    assert hub.sent_bytes == sent
    assert run("models", "remove", name, "--yes").code == 0
    assert last["installed"] not in answer_of(run("models", "list", "--json"))["installed"]


def test_a_renamed_repository(run, hub):
    with urllib.request.urlopen(f"{hub.endpoint}/api/models/{NAME}?blobs=true") as answer:
        hub.answers["/api/models/old/name"] = answer.read()
    *_, last = lines_of(run("models", "pull", "old/name", "--json"))
    assert last["installed"]["name"] == NAME


def test_what_is_not_there(run, hub):
    *told, last = lines_of(run("models", "pull", "no/such", NAME, "--json"), code=2)
    assert [one["installed"]["name"] for one in told if "installed" in one] == [NAME]
    assert "no/such" in last["message"]
    failed = next(one for one in Queue().downloads() if one.status == "failed")
    assert (failed.problem, failed.remedy) == (last["message"], last["remedy"])
    assert "no/such" in run("models", "list").out
    ended = run("models", "pull", "no/such")
    assert ended.code == 2
    assert "slipstream: " in ended.err
    assert "no/such" in ended.err
    assert "paused" not in run("models", "pull", "--pause", "no/such").out
    cancelled = answer_of(run("models", "pull", "--cancel", "no/such", "--json"))
    assert Download(**cancelled["download"]).over
    assert_refused(run("models", "pull", "--pause", "no/such"), "not among the downloads")
    assert_refused(run("models", "pull", "not a name"), "not a name", "organization/model")


def await_half(hub):
    """Until half of the weights have come, and the hub keeps the rest back."""
    assert hub.held.wait(60)


def ended(process):
    out, err = process.communicate(timeout=60)
    return Run(process.returncode, out, err)


def last_download(ending):
    return Download(**json.loads(ending.out.splitlines()[-1])["download"])


def paused_child(how, run, hub):
    """The end of a pull in a process of its own."""
    words = ["--with-parent"] if how == "the parent's end" else []
    with child("models", "pull", NAME, "--json", *words) as process:
        await_half(hub)
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


def press_ctrl_c(hub):
    await_half(hub)
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM", "the parent's end", "the queue"])
def test_a_pause_is_gone_on_with(how, run, hub, tmp_path):
    hub.hold_after = 100_000
    if how == "Ctrl-C":
        pressing = Thread(target=press_ctrl_c, args=(hub,))
        pressing.start()
        ending = run("models", "pull", NAME, "--json")
        pressing.join()
    else:
        ending = paused_child(how, run, hub)
    codes = {"Ctrl-C": 130, "SIGTERM": 143, "the parent's end": 143, "the queue": 0}
    assert ending.code == codes[how], ending
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
def test_a_hub_that_says_nothing_at_all_is_left_at_once(run, surroundings, monkeypatch):
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


@pytest.mark.slow
@pytest.mark.parametrize("words", [["list"], ["pull", NAME, "--json"], ["pair"]])
def test_nobody_listens(words, hub):
    with child("models", *words) as process:
        process.stdout.close()
        process.stdout = None
        ending = ended(process)
    assert "Traceback" not in ending.err
    assert ending.code in (0, 1)


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


def test_the_starter_goes_by_its_name(run, surroundings, monkeypatch):
    def ensure(*, progress, **_):
        progress(5, 10)
        folder = models_folder() / STARTER.name
        tiny.write_folder("llama", folder)
        (folder / MARKER_NAME).write_text(STARTER.gguf_sha256)
        progress(10, 10)
        return ModelFolder(folder)

    monkeypatch.setattr(resolve, "ensure_starter", ensure)
    *told, last = lines_of(run("models", "pull", STARTER.name, "--json"))
    assert told[-1]["download"]["status"] == "done"
    assert told[-1]["download"]["total_bytes"] == 10
    assert (last["installed"]["name"], last["installed"]["origin"]) == (STARTER.name, "starter")
    refusal = lines_of(run("models", "pull", f"{STARTER.name}@v1", "--json"), code=2)[-1]
    assert "no revisions" in refusal["message"]


def test_the_starter_can_be_paused(run, surroundings, monkeypatch):
    def ensure(*, progress, **_):
        signal.raise_signal(signal.SIGINT)
        while True:  # until it is noticed
            progress(5, 10)

    monkeypatch.setattr(resolve, "ensure_starter", ensure)
    ended = run("models", "pull", STARTER.name)
    assert ended.code == 130
    assert "Paused" in ended.err
    assert [one.status for one in Queue().downloads()] == ["paused"]
