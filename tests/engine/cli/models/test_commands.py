"""`slipstream models ...`: the JSON that the window builds on, and what a person reads."""

import json
import os
import signal
import time
from dataclasses import fields

import mlx.core as mx
import pytest

from engine.cli.models import commands
from models.files import models_folder
from models.hub.client import Hub
from models.hub.queue import Queue
from models.records import Candidate, Download, Fit, Incomplete, Installed, PairOffer, SearchResult
from tests.support.engine import tiny
from tests.support.engine.adapters import adapter_for
from tests.support.engine.ended import CONTROLS, assert_refused
from tests.support.engine.repositories import NAME, answer_of, lines_of
from tests.support.models.drafter_configs import drafter_files, drafter_layout
from tests.support.models.hub_server import Refusal, Told


def keys(record):
    return {field.name for field in fields(record)}


@pytest.fixture
def imported(surroundings):
    folder = models_folder() / "my model"
    tiny.write_folder("llama", folder, bits=4)
    return folder


# What is here


def test_nothing_is_here_yet(run, surroundings):
    answer = answer_of(run("models", "list", "--json"))
    assert set(answer) == {
        *("installed", "incomplete", "downloads", "downloading", "folders", "free_bytes")
    }
    assert [one["origin"] for one in answer["installed"]] == ["starter"]  # the head that ships
    assert answer["free_bytes"] > 1_000_000
    shown = run("models", "list")
    assert shown.code == 0
    assert "models pair" in shown.out
    assert "slipstream models pair" in shown.out


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
    for key, record in (
        ("installed", Installed),
        ("incomplete", Incomplete),
        ("downloads", Download),
    ):
        assert answer[key]
        assert all(set(one) == keys(record) for one in answer[key])
    found = {one["name"]: Installed(**one) for one in answer["installed"]}
    assert found["my model"].origin == "imported"
    assert found["my model"].quantization_bits == 4
    assert found[NAME].origin == "hub"
    assert found["one"].origin == "folder"
    assert found["broken"].problem
    assert [one["name"] for one in answer["incomplete"]] == ["left/over"]
    assert [one["repository"] for one in answer["downloads"]] == ["other/waiting"]
    assert answer["folders"] == [str(more)]

    shown = run("models", "list")
    assert (shown.code, shown.err) == (0, "")
    for word in ("my model", NAME, "one", "names no model_type", "left/over", "other/waiting",
                 "paused", "remove --incomplete", str(more)):  # fmt: skip
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


def test_folders(run, surroundings, tmp_path):
    assert "--add FOLDER" in run("models", "folders").out
    assert_refused(run("models", "folders", "--add", tmp_path / "none"), "not found")
    run("models", "folders", "--add", tmp_path)
    assert run("models", "folders").out == f"{tmp_path}\n"
    assert "Slipstream found no model in" in run("models", "list").out
    assert answer_of(run("models", "folders", "--remove", tmp_path, "--json")) == {"folders": []}


def test_removing_asks_and_frees(run, imported, monkeypatch):
    assert_refused(run("models", "remove", "my model"), "my model", "Add --yes")
    (problem,) = lines_of(run("models", "remove", "my model", "--json"), code=2)
    assert "--yes" in problem["remedy"]

    class Terminal:
        @staticmethod
        def isatty():
            return True

    monkeypatch.setattr("engine.cli.models.commands.sys.stdin", Terminal())
    asked = []
    monkeypatch.setattr(commands.typer, "confirm", lambda text: asked.append(text))
    assert "Nothing was deleted" in run("models", "remove", "my model").out
    assert "my model" in asked[0]
    assert "kB" in asked[0]
    assert imported.is_dir()
    monkeypatch.setattr(commands.typer, "confirm", lambda text: True)
    assert "freed" in run("models", "remove", "my model").out
    assert not imported.exists()


def test_removing_what_is_not_there_or_not_ours(run, imported, surroundings):
    assert_refused(run("models", "remove", "my modle", "--yes"), "my modle", "mean my model?")
    assert_refused(run("models", "remove", "zzz", "--yes"), "zzz", "slipstream models list")
    incomplete = ("models", "remove", "--incomplete", "--yes")
    assert_refused(run(*incomplete, "my model"), "No incomplete download")
    Queue().enqueue("o/x")
    Queue().pause("o/x")
    assert_refused(run(*incomplete, "o/x"), "--cancel o/x")
    assert imported.is_dir()
    folder = surroundings / "person" / ".lmstudio" / "models" / "anna" / "small"
    tiny.write_folder("llama", folder)
    assert_refused(run("models", "remove", "anna/small", "--yes"), "LM Studio's folder")
    assert folder.is_dir()


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


def test_searching(run, hub):
    hub.repositories["tiny-community/Tiny-GGUF"] = {"a.gguf": b"GGUF"}
    hub.told["tiny-community/Tiny-GGUF"] = Told(downloads=1, tags=[])
    answer = answer_of(run("models", "search", "--json", "--", "tiny"))
    assert set(answer) == {"found"}
    assert all(set(one) == keys(SearchResult) for one in answer["found"])
    reasons = {one["repository"]: one["reason"] for one in answer["found"]}
    assert reasons[NAME] == ""
    assert "GGUF" in reasons["tiny-community/Tiny-GGUF"]
    shown = run("models", "search", "tiny")
    assert shown.code == 0
    for word in (NAME, "apache-2.0", "Tiny-GGUF", "GGUF files only", f"pull {NAME}"):
        assert word in shown.out
    nothing = run("models", "search", "no such model")
    assert "no such model" in nothing.out
    assert "models pair" in nothing.out


def test_a_hub_that_fails(run, hub, monkeypatch):
    monkeypatch.setattr(Hub, "wait_seconds", 0.0)
    hub.refusals["/api/models"] = Refusal(500)
    (answer,) = lines_of(run("models", "search", "x", "--json"), code=2)
    assert all((answer["message"], answer["remedy"]))
    assert run("models", "search", "x").code == 2


# Pairs


def test_the_catalogs_pairs(run, surroundings):
    answer = answer_of(run("models", "pair", "--json"))
    assert set(answer) == {"offers"}
    assert all(set(one) == keys(PairOffer) for one in answer["offers"])
    assert [one["recommended"] for one in answer["offers"]].count(True) == 1
    assert answer["offers"][0]["recommended"]
    shown = run("models", "pair")
    assert (shown.code, shown.err) == (0, "")
    assert answer["offers"][0]["target"] in shown.out
    assert all(offer["target"] in shown.out for offer in answer["offers"])
    assert shown.out.count("✗") == shown.out.count("  → It needs") > 3
    target = answer["offers"][-1]["target"]
    published = answer_of(run("models", "pair", "--target", target, "--json"))
    assert all(one["reason"] for one in published["candidates"])
    assert_refused(run("models", "pair", "--target", "nonsense"), "nonsense")


def test_what_drafts_for_a_target(run, imported):
    tiny.write_folder("llama", models_folder() / "other", seed=1)
    answer = answer_of(run("models", "pair", "--json", "--target", "my model"))
    assert answer["target"] == "my model"
    assert all(set(one) == keys(Candidate) for one in answer["candidates"])
    found = {one["drafter"]: one for one in answer["candidates"]}
    assert found["lookup"]["works"]
    assert found["other"]["kind"] == "model"
    assert all(one["reason"] for one in answer["candidates"])
    shown = run("models", "pair", "--target", imported)
    for drafter, one in found.items():
        assert drafter in shown.out
        assert one["reason"][:30] in shown.out


def test_fit(run, imported, hub):
    answer = answer_of(run("models", "fit", "my model", "--context", "512", "--json"))
    assert set(answer) == keys(Fit)
    assert answer["fits"]
    assert answer["context"] == 512
    pair = run("models", "fit", imported, "--drafter", f"lookup+{imported}", "--json")
    assert answer_of(pair)["drafter_weights_bytes"] > 0
    assert answer_of(run("models", "fit", imported, "--drafter", "auto", "--json"))["drafter"] == ""
    shown = run("models", "fit", "my model")
    for word in ("my model", "weights", "needed", "available", answer["reason"][:5]):
        assert word in shown.out
    # Neither what is on the hub nor what the catalog knows needs to be here.
    assert answer_of(run("models", "fit", NAME, "--json"))["weights_bytes"] > 100_000
    assert not hub.requests("safetensors")
    offer = answer_of(run("models", "pair", "--json"))["offers"][-1]["target"]
    assert answer_of(run("models", "fit", offer, "--json"))["target"] == offer
    assert_refused(run("models", "fit", "nonsense"), "nonsense", "slipstream models list")
    assert_refused(run("models", "fit", "my model", "--drafter", "head"), "no trained head")
    assert_refused(run("models", "fit", "my model", "--drafter", "mtp"), "no MTP module")


@pytest.mark.slow
def test_fit_on_several_macs(run, imported, hub, tmp_path):
    """Each of them is asked how much memory it has; the model need not be here."""
    hosts = tmp_path / "two.json"
    hosts.write_text(json.dumps([{"ssh": "127.0.0.1", "ips": ["127.0.0.1"]}] * 2))
    told = answer_of(run("models", "fit", "my model", "--hosts", hosts, "--json"))
    assert told["fits"]
    assert told["mode"] == "pipeline"
    (_, end), (first, border) = told["layers"]
    assert (first, end) == (0, 4)
    assert told["layers"][0][0] == border
    assert [set(each) for each in told["ranks"]] == [keys(Fit)] * 2
    shown = run("models", "fit", NAME, "--hosts", hosts)
    for word in (*told["macs"], "pipeline", "needed", "available"):
        assert word in shown.out
    assert not hub.requests("safetensors")
    assert_refused(run("models", "fit", "my model", "--hosts", tmp_path / "none.json"), "hostfile")


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


def test_converting(run, surroundings, tmp_path):
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
    again = run("convert", source, tmp_path / "made")
    assert_refused(again, "exists already")
    assert_refused(run("convert", "nonsense"), "nonsense")
    elsewhere = lines_of(run("convert", source, tmp_path / "x", "--json"))[-1]["installed"]
    assert (elsewhere["name"], elsewhere["origin"]) == ("x", "folder")


def test_a_conversion_that_is_stopped_leaves_nothing(run, surroundings, monkeypatch):
    number = signal.SIGTERM
    before = signal.getsignal(number)
    source = surroundings / "Tiny"
    tiny.write_folder("llama", source)
    monkeypatch.setattr(commands, "say", lambda _: signal.raise_signal(number))
    ended = run("convert", source, surroundings / "made", "--json")
    assert (ended.code, ended.out) == (128 + number, "")
    assert "nothing was written" in ended.err
    assert sorted(path.name for path in surroundings.iterdir() if path.is_dir()) == ["Tiny"]
    assert signal.getsignal(number) == before


def test_fusing_an_adapter(run, tmp_path):
    source = tmp_path / "source"
    tiny.write_folder("llama", source, layers=2)
    adapter = adapter_for(source, tmp_path / "poems")
    assert_refused(
        run("generate", "--prompt", "Hi", "--target", adapter), "is an adapter for", "--adapter"
    )
    *_, last = lines_of(run("models", "convert", "--adapter", adapter, "--json"))
    made = Installed(**last["installed"])
    assert (made.name, made.problem, made.quantization_bits) == ("source-poems", "", None)
    assert_refused(run("convert"), "name is missing")
    assert_refused(run("convert", source, "--mtp", "--adapter", adapter), "without --mtp")
