"""`slipstream models ...`: the JSON that the window builds on, and what the user reads."""

import io
import json
import os
import signal
import time
from dataclasses import fields, replace
from pathlib import Path
from unittest.mock import Mock, patch

import mlx.core as mx
import pytest
from rich.console import Console

from engine.cli.models import commands
from engine.cli.models.progress import DownloadView, Steps
from engine.cli.models.show import (
    show_candidates,
    show_fit,
    show_found,
    show_local,
    show_offers,
)
from models.files import models_folder
from models.hub.client import Hub
from models.hub.queue import Queue
from models.records import (
    Candidate,
    Download,
    Fit,
    Incomplete,
    Installed,
    Inventory,
    PairOffer,
    SearchResult,
)
from tests.support.engine import tiny
from tests.support.engine.ended import CONTROLS, assert_refused
from tests.support.engine.repositories import NAME, adapter_for, answer_of, lines_of
from tests.support.models.drafter_configs import drafter_files, drafter_layout
from tests.support.models.hub_server import Refusal, Told


def keys(record):
    return {field.name for field in fields(record)}


def require(records, kind):
    """There are some, and each has the fields of this kind."""
    assert records
    assert all(set(one) == keys(kind) for one in records)


@pytest.fixture
def imported():
    folder = models_folder() / "my model"
    tiny.write_folder("llama", folder, bits=4)
    return folder


# What is here


def test_nothing_is_here_yet(run, tmp_path):
    answer = answer_of(run("models", "list", "--json"))
    assert set(answer) == {
        *("installed", "incomplete", "downloads", "downloading", "folders", "free_bytes")
    }
    assert [one["origin"] for one in answer["installed"]] == ["starter"]  # the head that ships
    assert answer["free_bytes"] > 1_000_000
    shown = run("models", "list")
    assert (shown.code, "slipstream models pair" in shown.out) == (0, True)
    assert "--add FOLDER" in run("models", "folders").out
    assert_refused(run("models", "folders", "--add", tmp_path / "none"), "not found")
    run("models", "folders", "--add", tmp_path)
    assert run("models", "folders").out == f"{tmp_path}\n"
    assert str(tmp_path) in run("models", "list").out, "no model was found in it"
    assert answer_of(run("models", "folders", "--remove", tmp_path, "--json")) == {"folders": []}


def test_all_that_is_here_is_listed_and_removed(run, imported, hub, tmp_path):
    assert run("models", "pull", NAME).code == 0
    more = tmp_path / "more"
    tiny.write_folder("llama", more / "one")
    (more / "broken").mkdir()
    (more / "broken" / "config.json").write_text("{}")
    assert answer_of(run("models", "folders", "--add", more, "--json")) == {"folders": [str(more)]}
    Queue().enqueue("other/waiting")
    Queue().pause("other/waiting")
    blobs = tmp_path / "hub" / "models--left--over" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{'0' * 64}.incomplete").write_bytes(b"half")

    answer = answer_of(run("models", "list", "--json"))
    require(answer["installed"], Installed)
    require(answer["incomplete"], Incomplete)
    require(answer["downloads"], Download)
    found = {one["name"]: Installed(**one) for one in answer["installed"]}
    origins = {name: found[name].origin for name in ("my model", NAME, "one")}
    assert origins == {"my model": "imported", NAME: "hub", "one": "folder"}
    assert found["my model"].quantization_bits == 4
    assert found["broken"].problem
    assert [one["name"] for one in answer["incomplete"]] == ["left/over"]
    assert [one["repository"] for one in answer["downloads"]] == ["other/waiting"]
    assert answer["folders"] == [str(more)]

    shown = run("models", "list")
    assert (shown.code, shown.err) == (0, "")
    for word in (
        *found,
        found["broken"].problem,
        "left/over",
        "other/waiting",
        "paused",
        str(more),
    ):
        assert word in shown.out
    assert not CONTROLS.search(shown.out.replace("\n", ""))

    size = sum(path.stat().st_size for path in imported.iterdir())
    before = ("models", "remove", "--json", "--yes")
    assert answer_of(run(*before, "--", "my model")) == {"freed_bytes": size}
    assert answer_of(run(*before, "--incomplete", "--", "left/over")) == {"freed_bytes": 4}
    assert answer_of(run(*before, NAME))["freed_bytes"] > 100_000
    left = answer_of(run("models", "list", "--json"))
    assert not {NAME, "my model"} & {one["name"] for one in left["installed"]}
    assert left["incomplete"] == []


def test_removing_asks_and_frees(run, imported, monkeypatch):
    assert_refused(run("models", "remove", "my model"), "my model", "Add --yes")
    (problem,) = lines_of(run("models", "remove", "my model", "--json"), code=2)
    assert "--yes" in problem["remedy"]
    monkeypatch.setattr(commands.sys, "stdin", Mock(isatty=Mock(return_value=True)))
    monkeypatch.setattr(commands.typer, "confirm", confirm := Mock(side_effect=[False, True]))
    run("models", "remove", "my model")
    (asked,) = confirm.call_args.args
    assert ("my model" in asked, "kB" in asked) == (True, True)
    assert imported.is_dir()
    assert "freed" in run("models", "remove", "my model").out
    assert not imported.exists()


def test_removing_what_is_not_there_or_not_ours(run, imported, tmp_path):
    folder = tmp_path / "person" / ".lmstudio" / "models" / "anna" / "small"
    tiny.write_folder("llama", folder)
    Queue().enqueue("o/x")
    Queue().pause("o/x")
    for words, told in (
        (["my modle"], ("my modle", "mean my model?")),
        (["zzz"], ("zzz", "slipstream models list")),
        (["my model", "--incomplete"], ("my model",)),
        (["o/x", "--incomplete"], ("--cancel o/x",)),
        (["anna/small"], ("LM Studio's folder",)),
    ):
        assert_refused(run("models", "remove", *words, "--yes"), *told)
    assert (imported.is_dir(), folder.is_dir()) == (True, True)


def test_what_was_used_is_noted(run, imported):
    tiny.write_folder("llama", models_folder() / "never", seed=1)
    tiny.write_folder("llama", models_folder() / "drafts", seed=2)
    asked = ("--drafter", "drafts", "--prompt", "x", "--max-tokens", 2)
    began = time.time() - 1
    for folder in models_folder().iterdir():
        for path in folder.iterdir():
            os.utime(path, (0, 0))
    assert run("generate", "--target", "my model", *asked).code == 0
    found = {one["name"]: one for one in answer_of(run("models", "list", "--json"))["installed"]}
    assert found["my model"]["last_used"] > began > found["never"]["last_used"]
    assert found["drafts"]["last_used"] > began


# The hub


def test_searching(run, hub, monkeypatch):
    hub.repositories["tiny-community/Tiny-GGUF"] = {"a.gguf": b"GGUF"}
    hub.told["tiny-community/Tiny-GGUF"] = Told(downloads=1, tags=[])
    answer = answer_of(run("models", "search", "--json", "--", "tiny"))
    assert set(answer) == {"found"}
    require(answer["found"], SearchResult)
    reasons = {one["repository"]: one["reason"] for one in answer["found"]}
    assert reasons[NAME] == ""
    assert "GGUF" in reasons["tiny-community/Tiny-GGUF"]
    shown = run("models", "search", "tiny")
    assert shown.code == 0
    for word in ("apache-2.0", "Tiny-GGUF", f"pull {NAME}"):
        assert word in shown.out
    nothing = run("models", "search", "no such model")
    assert ("no such model" in nothing.out, "models pair" in nothing.out) == (True, True)
    monkeypatch.setattr(Hub, "wait_seconds", 0.0)
    hub.refusals["/api/models"] = Refusal(500)
    (answer,) = lines_of(run("models", "search", "x", "--json"), code=2)
    assert all((answer["message"], answer["remedy"]))
    assert run("models", "search", "x").code == 2


# Pairs


def test_the_catalogs_pairs(run):
    answer = answer_of(run("models", "pair", "--json"))
    assert set(answer) == {"offers"}
    require(answer["offers"], PairOffer)
    assert [one["recommended"] for one in answer["offers"]].count(True) == 1
    assert answer["offers"][0]["recommended"]
    shown = run("models", "pair")
    assert (shown.code, shown.err) == (0, "")
    assert all(offer["target"] in shown.out for offer in answer["offers"])
    assert shown.out.count("✗") == shown.out.count("  → It needs") > 3
    target = answer["offers"][-1]["target"]
    published = answer_of(run("models", "pair", "--target", target, "--json"))
    assert all(one["reason"] for one in published["candidates"])
    assert_refused(run("models", "pair", "--target", "nonsense"), "nonsense")


def test_what_drafts_for_a_target_and_whether_it_fits(run, imported, hub):
    def fit(*words):
        return answer_of(run("models", "fit", *words, "--json"))

    tiny.write_folder("llama", models_folder() / "other", seed=1)
    answer = answer_of(run("models", "pair", "--json", "--target", "my model"))
    assert answer["target"] == "my model"
    require(answer["candidates"], Candidate)
    found = {one["drafter"]: one for one in answer["candidates"]}
    assert (found["lookup"]["works"], found["other"]["kind"]) == (True, "model")
    shown = run("models", "pair", "--target", imported).out
    for drafter, one in found.items():
        assert one["reason"]
        assert (drafter in shown, one["reason"][:30] in shown) == (True, True)
    answer = fit("my model", "--context", "512")
    assert set(answer) == keys(Fit)
    assert (answer["fits"], answer["context"]) == (True, 512)
    assert fit(imported, "--drafter", f"lookup+{imported}")["drafter_weights_bytes"] > 0
    assert fit(imported, "--drafter", "auto")["drafter"] == ""
    shown = run("models", "fit", "my model").out
    assert ("my model" in shown, answer["reason"][:5] in shown) == (True, True)
    # Neither what is on the hub nor what the catalog knows needs to be here.
    assert fit(NAME)["weights_bytes"] > 100_000
    assert not hub.requests("safetensors")
    offer = answer_of(run("models", "pair", "--json"))["offers"][-1]["target"]
    assert fit(offer)["target"] == offer
    for words, told in (
        (["nonsense"], ("nonsense", "slipstream models list")),
        (["my model", "--drafter", "head"], ("no trained head",)),
        (["my model", "--drafter", "mtp"], ("no MTP module",)),
        (["my model", "--hosts", imported / "none.json"], ("hostfile",)),
    ):
        assert_refused(run("models", "fit", *words), *told)


def test_what_is_only_on_the_hub(run, imported, hub, tmp_path):
    """Its config and the headers of its tensors tell what can draft for it."""
    spark = drafter_layout("dspark-deepspec")
    hub.repositories["o/spark"] = drafter_files(spark, tmp_path / "spark")
    told = answer_of(run("models", "fit", imported, "--drafter", "lookup+o/spark", "--json"))
    assert told["drafter_weights_bytes"] > 0
    assert told["drafter_cache_bytes"] > 0
    assert not hub.requests("safetensors")
    layout = drafter_layout("mtp-huggingface-inside")
    hub.repositories["o/Qwen3.8-27B-6bit"] = drafter_files(layout, tmp_path / "made")
    whole = len(hub.repositories["o/Qwen3.8-27B-6bit"]["model.safetensors"])
    found = answer_of(run("models", "pair", "--target", "o/Qwen3.8-27B-6bit", "--json"))
    named = {each["drafter"]: each for each in found["candidates"]}
    module = named["o/Qwen3.8-27B-6bit/mtp.safetensors"]
    assert (module["kind"], module["obstacle"]) == ("mtp", "not installed")
    assert 0 < module["size_bytes"] < whole
    assert {"dspark", "dflash2"} <= {each["kind"] for each in named.values()}
    strange = layout.config | {"model_type": "unheard_of"}
    files = hub.repositories["o/Qwen3.8-27B-6bit"]
    hub.repositories["o/strange"] = files | {"config.json": json.dumps(strange).encode()}
    assert_refused(run("models", "pair", "--target", "o/strange"), "unheard_of")


# Converting


def test_converting(run, tmp_path):
    source = tmp_path / "Tiny"
    tiny.write_folder("llama", source, dtype=mx.float16)
    *told, last = lines_of(run("models", "convert", source, "--bits", "8", "--json"))
    done = [[one["done"], one["total"]] for one in told]
    assert done[-1][0] == done[-1][1] > 0
    made = Installed(**last["installed"])
    assert (made.name, made.origin, made.quantization_bits) == ("Tiny-8bit", "imported", 8)
    ended = run("convert", source, tmp_path / "made", "--recipe", "mixed_4_6", "--group-size", 32)
    assert (ended.code, ended.out) == (0, f"{tmp_path / 'made'}\n")
    (refusal,) = lines_of(run("models", "convert", made.path, "--json"), code=2)
    assert "quantized already" in refusal["message"]
    assert_refused(run("convert", source, tmp_path / "made"), "exists already")
    assert_refused(run("convert", "nonsense"), "nonsense")
    elsewhere = lines_of(run("convert", source, tmp_path / "x", "--json"))[-1]["installed"]
    assert (elsewhere["name"], elsewhere["origin"]) == ("x", "folder")
    before, there = signal.getsignal(signal.SIGTERM), {*tmp_path.iterdir()}
    with patch.object(commands, "say", lambda _: signal.raise_signal(signal.SIGTERM)):
        ended = run("convert", source, tmp_path / "stopped", "--json")
    assert (ended.code, ended.out) == (128 + signal.SIGTERM, "")
    assert ended.err.count("\n") == 1
    assert {*tmp_path.iterdir()} == there, "a part of it is left"
    assert signal.getsignal(signal.SIGTERM) == before


def test_fusing_an_adapter(run, tmp_path):
    source = tmp_path / "source"
    tiny.write_folder("llama", source, layers=2)
    adapter = adapter_for(source, tmp_path / "poems")
    assert_refused(run("generate", "--prompt", "Hi", "--target", adapter), "adapter", "--adapter")
    *_, last = lines_of(run("models", "convert", "--adapter", adapter, "--json"))
    made = Installed(**last["installed"])
    assert (made.name, made.problem, made.quantization_bits) == ("source-poems", "", None)
    assert_refused(run("convert"), "name is missing")
    assert_refused(run("convert", source, "--mtp", "--adapter", adapter), "--mtp")


SAID = Path(__file__).parents[3] / "data" / "said" / "models.txt"
HOSTILE = "evil\x1b[2J\u202e\nname[bold]"


def model(name=HOSTILE, problem="", remedy=""):
    return Installed(
        name, "/x", "hub", "chat", 2_000_000, None, "llama", 4, 8192, True, problem, remedy
    )


OFFER = PairOffer(
    target="o/best",
    drafter="o/small",
    family="F",
    good_for="writing",
    licence="mit",
    context=4096,
    memory_class_gb=8,
    drafter_kinds=("model", "lookup"),
    download_bytes=3_000_000_000,
    needed_bytes=4_000_000_000,
    available_bytes=9_000_000_000,
    installed=False,
    recommended=True,
    verified=True,
    reason="",
)
OTHERS = [
    replace(OFFER, target="o/here", installed=True, recommended=False),
    replace(OFFER, target="o/large", recommended=False, reason="Needs 90 GB.", verified=False),
]
GATED = SearchResult(HOSTILE, 1, 1, "", True, "", None, "It is gated.")
FOUND = [
    SearchResult("o/good", 1234, 5, "2026-01-02", False, HOSTILE, 2_300_000_000),
    SearchResult("o/unknown", 0, 0, "", False, ""),
]
REFUSED = Candidate(HOSTILE, "model", False, f"Token 3 is {HOSTILE}.")
CANDIDATES = [
    Candidate("lookup", "lookup", True, "Costs nothing.", 0.0),
    Candidate("o/a", "model", True, "The same tokens.", 0.125, installed=False),
    Candidate("o/spark", "dspark", False, "", installed=False, tried=False),
]
SHELF = Inventory(
    (model(), model("broken", f"It is {HOSTILE}.", "Fetch it again.")),
    (Incomplete("half/one", "/y", 1000),),
    (Download(HOSTILE, "", "failed", 5, 10, problem="Gone.", remedy="Look."),),
    (HOSTILE,),
    10**9,
)
NO_ROOM = Fit("t", "", 8192, 70, 6, 0, 0, 3, 30, 0, False, "No room.")
SHOWN = {
    "a shelf": (show_local, SHELF),
    "what the hub has": (show_found, "x", [*FOUND, GATED]),
    "nothing that could be pulled": (show_found, "x", [GATED]),
    "offers": (show_offers, [OFFER, *OTHERS]),
    "the best offer is here": (show_offers, [replace(OFFER, installed=True)]),
    "no offer fits": (show_offers, [replace(OFFER, reason="Needs 90 GB.")]),
    "candidates": (show_candidates, "o/target", [*CANDIDATES, REFUSED]),
    "no candidate": (show_candidates, "o/target", [REFUSED]),
    "a fit": (show_fit, Fit("t", "d", 8192, 7, 6, 5, 4, 3, 30, 20480, True, "All is well.")),
    "no fit": (show_fit, NO_ROOM),
}


def test_what_is_shown_is_what_the_file_says():
    """Nothing in it drives a terminal. Whoever changes a sentence changes it there."""
    found = {}
    for name, (show, *records) in SHOWN.items():
        console = Console(file=io.StringIO(), width=100)
        show(console, *records)
        found[name] = console.file.getvalue()
        assert not CONTROLS.search(found[name].replace("\n", "")), name
    said = (part.partition("\n") for part in SAID.read_text(encoding="utf-8").split("==> ")[1:])
    assert found == {name: text for name, _, text in said}


RUNNING = Download("evil\x1b[2J", "", "running", 5_000_000, 10_000_000, 2e6, 125.0)
QUEUED, DONE = replace(RUNNING, status="queued"), replace(RUNNING, status="done")


def drawn(*downloads, terminal):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100, color_system=None)
    view = DownloadView(console)
    for download in downloads:
        view.show(download)
    view.close()
    assert "evil\x1b[2J" not in file.getvalue()
    return file.getvalue()


def test_downloads_have_a_bar_in_a_terminal_and_a_line_for_each_change_elsewhere():
    assert "5.00 of 10.0 MB  2.00 MB/s  2 min left" in drawn(RUNNING, terminal=True)
    assert "waiting" in drawn(QUEUED, terminal=True)
    text = drawn(RUNNING, DONE, terminal=True)
    assert "✓ evil" in text
    assert "↓" not in text
    text = drawn(QUEUED, RUNNING, replace(RUNNING, done_bytes=6_000_000), DONE, terminal=False)
    assert [line[0] for line in text.splitlines()] == ["…", "↓", "✓"]


def test_each_step_is_told_as_it_begins_and_all_at_the_end():
    moment, file = [100.0], io.StringIO()
    usual, steps = (Steps(Console(file=file, width=100), lambda: moment[0]) for _ in range(2))
    usual.begin("loading")
    usual.end()
    assert file.getvalue() == ""  # it is done every time
    steps.begin("fetching", "Fetching it: 93 MB")
    assert file.getvalue() == "Fetching it: 93 MB\n"
    moment[0] += 39
    steps.begin("loading")
    moment[0] += 2
    steps.begin("measuring", "Measuring [once]")
    moment[0] += 5
    steps.end()
    assert file.getvalue().splitlines()[1:] == [
        "Measuring [once]",
        "Ready: fetching 39 s, loading 2 s, measuring 5 s.",
    ]
