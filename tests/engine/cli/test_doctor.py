"""The doctor: facts with remedies, about this machine and about machines that are not here."""

import json
import re
from dataclasses import replace
from unittest import mock

import pytest

from engine.bench.machine import this_machine
from engine.bench.measure import CurvePoint, PassCurve
from engine.cli import doctor
from engine.cli.doctor import (
    Check,
    Symptom,
    check_backend,
    check_blas,
    check_chip,
    check_curve,
    check_drafter,
    check_fit,
    check_load,
    check_version,
    diagnose,
    starter_if_here,
)
from engine.conversation.template_abilities import TemplateAbilities
from engine.cpu.blas import MatrixLibrary
from engine.draft_length.costs import Calibration, DraftCosts, PassCosts
from engine.exactness import Exactness
from engine.replies.syntax import ReasoningMarks, ReplySyntax
from models.errors import Problem
from models.model_folder import ModelFolder
from models.speed import load_chips

GB = 1_000_000_000


@pytest.fixture
def measured(monkeypatch):
    """The figures of a calm machine, however busy this one is."""
    drafts = (DraftCosts("early-exit", 0.001, 0.002),)
    calibration = Calibration(PassCosts(24, (1, 4), (0.05, 0.06)), drafts)
    monkeypatch.setattr(doctor, "calibrate", lambda *_, **__: calibration)


@pytest.fixture
def known(monkeypatch):
    """The speed of this machine's matrices, which takes a while to measure."""
    monkeypatch.setattr(doctor, "_gigaflops", lambda: 53)


def by_name(diagnosis):
    return {check.name: check for check in diagnosis.checks}


@pytest.mark.usefixtures("measured")
def test_a_sound_pair_is_usable_and_every_line_is_shown_once(target):
    shown = []
    found = diagnose(
        lambda: ModelFolder(target), "early-exit:1", show=shown.append, budget_seconds=0.5
    )

    assert found.usable
    assert tuple(shown) == found.checks
    checks = by_name(found)
    assert list(checks)[:10] == [
        *("slipstream", "mlx", "mlx-lm", "window", "chip", "memory", "backend", "BLAS", "load"),
        "cache",
    ]
    assert checks["target"].fact.startswith("target, llama, float32, ")
    assert checks["drafter"] == Check("drafter", "early-exit")
    assert "4,096" in checks["fit"].fact
    assert checks["fit"].symptom is None
    assert {"passes", "drafting", "gain"} <= checks.keys()
    assert found.curve.step_seconds is not None


@pytest.mark.usefixtures("known")
def test_what_a_busy_machine_measures_is_not_believed(target, monkeypatch):
    monkeypatch.setattr(Calibration, "steady", False)
    found = diagnose(lambda: ModelFolder(target), "lookup", budget_seconds=0.2)
    assert found.usable
    assert found.curve is None
    assert found.checks[-1].name == "passes"
    assert found.checks[-1].symptom is Symptom.BUSY


@pytest.mark.usefixtures("known")
def test_a_pair_that_does_not_work_says_why(target, tmp_path, monkeypatch):
    exact = Exactness(0, why="layer 1 of 2 gives 2 rows other bits", kernel="our kernel: off")
    monkeypatch.setattr(doctor, "settle", lambda target, wish: exact)
    broken = Problem("It is broken.", "Mend it.")
    without = diagnose(lambda: ModelFolder(target), str(tmp_path / "none"))
    assert by_name(without)["text"].fact == exact.in_words()
    nowhere = diagnose(lambda: ModelFolder(tmp_path / "none"), "lookup")
    assert str(tmp_path / "none") in nowhere.checks[-1].fact
    finds_nothing = diagnose(mock.Mock(side_effect=broken), "lookup")
    assert finds_nothing.checks[-1].fact == broken.message
    assert finds_nothing.checks[-1].remedy == broken.remedy
    monkeypatch.setattr(doctor, "available_bytes", lambda: 1000)
    large = diagnose(lambda: ModelFolder(target), "lookup")
    assert "1.00 kB" in large.checks[-1].fact
    for found, name, symptom in (
        (without, "drafter", Symptom.REFUSED),
        (nowhere, "target", Symptom.REFUSED),
        (finds_nothing, "target", Symptom.REFUSED),
        (large, large.checks[-1].name, Symptom.TOO_LARGE),
    ):
        assert not found.usable, name
        assert (found.checks[-1].name, found.checks[-1].symptom) == (name, symptom)


@pytest.mark.usefixtures("known")
def test_without_the_starter_model_slipstream_is_usable(tmp_path, monkeypatch):
    found = diagnose(starter_if_here, "auto")
    assert found.usable
    assert found.checks[-1].symptom is Symptom.NOT_HERE
    assert found.curve is None
    monkeypatch.setattr(doctor, "shipped_starter", lambda: ModelFolder(tmp_path))
    assert starter_if_here() == ModelFolder(tmp_path)


@pytest.mark.usefixtures("measured", "known")
def test_the_command_ends_with_0_or_1(target, tmp_path, run):
    ended = run("doctor", "--target", target, "--drafter", "lookup", "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["usable"]) == (0, True)
    assert found["lines"][-1].keys() == {"name", "fact", "remedy", "usable", "symptom"}
    assert found["curve"]["points"][0]["rows"] == 1
    text = run("doctor", "--no-pair", "--json").out
    alone = json.loads(text)
    assert ("target" in {line["name"] for line in alone["lines"]}, alone["curve"]) == (False, None)
    assert "\n" not in text.strip()  # as the window reads lines
    ended = run("doctor", "--target", tmp_path / "none")
    assert ended.code == 1
    assert "✗ target" in ended.out
    assert "→ " in ended.out


def test_each_symptom_is_told_from_what_is_right():
    metal = replace(this_machine(), device="GPU Apple M4", platform="macOS-26.0-arm64-arm-64bit")
    assert check_backend(metal) == Check("backend", "Metal, GPU Apple M4")
    right = MatrixLibrary("OpenBLAS 0.3", "Sandybridge", 2)
    sound = check_blas(right, gigaflops=53, rows_alike=True)
    assert sound.symptom is None
    for figure in ("OpenBLAS 0.3", "Sandybridge", "53 GFLOP/s", "2 threads"):
        assert figure in sound.fact
    mac = MatrixLibrary("Accelerate")
    assert check_blas(mac, gigaflops=0, rows_alike=False) == Check("BLAS", "Accelerate")
    slow = check_blas(MatrixLibrary("reference BLAS"), gigaflops=6, rows_alike=True)
    assert slow.usable
    assert "It is here." in check_drafter("auto", "suffix+mtp", "It is here.").fact
    old = check_version("mlx-lm", "0.9.9")
    assert (old.usable, "mlx-lm>=0.32.2" in old.remedy) == (False, True)
    chips = load_chips()
    losing, gaining = (chips.find(name, 48 << 30) for name in ("M1 Pro", "M4 Pro"))
    assert "seldom" in check_chip(losing).fact
    assert "273 GB/s" in check_chip(gaining).fact
    for check, symptom in (
        (old, Symptom.OUTDATED),
        (check_version("mlx-lm", "0.32.1"), Symptom.OUTDATED),
        *((check_version("mlx-lm", number), None) for number in ("0.32.2", "0.32.10", "1.0")),
        (check_backend(replace(metal, device="CPU")), Symptom.NO_METAL),
        (check_backend(replace(metal, device="CPU", platform="Linux-6")), None),
        (check_blas(right, gigaflops=53, rows_alike=False), Symptom.ROWS_DIFFER),
        (slow, Symptom.SLOW_BLAS),
        (check_load(2.0, 2), None),
        (check_load(5.0, 2), Symptom.BUSY),
        (check_drafter("auto", "suffix+head"), None),
        (check_drafter("lookup", "lookup"), None),
        (check_drafter("auto", "suffix"), Symptom.NO_HEAD),
    ):
        assert check.symptom is symptom, check
    reasons = ReplySyntax(reasoning=ReasoningMarks("<think>", "</think>"))
    chooses = TemplateAbilities(switches=("enable_thinking",))
    for able, syntax, options in (
        (TemplateAbilities(), ReplySyntax(), []),
        (TemplateAbilities(), reasons, ["--thinking-budget N"]),
        (chooses, reasons, ["--thinking on|off", "--thinking-budget N"]),
    ):
        fact = doctor.check_template(able, syntax).fact
        assert [part for part in fact.split("; ") if part.startswith("--")] == options


def test_whether_a_pair_fits():
    def fit(free, device=0):
        return check_fit(weights=4 * GB, token=100_000, context=10_000, free=free, device=device)

    for check, symptom, figure in (
        (fit(2 * GB), None, "5.00 GB"),
        (fit(GB // 2), Symptom.SHORT_CONTEXT, " 5,000 "),
        (fit(9 * GB, device=6 * GB), None, "5.00 GB"),
        (fit(9 * GB, device=3 * GB), Symptom.TOO_LARGE, " 3.00 GB "),
    ):
        assert (check.symptom, figure in check.fact) == (symptom, True), check
        assert check.usable == (symptom is not Symptom.TOO_LARGE)
    wired = {device: "paged out" in fit(9 * GB, device=device * GB).fact for device in (5, 6, 7)}
    assert wired == {5: True, 6: True, 7: False}


def curve(*seconds, step=None):
    points = tuple(CurvePoint(rows, s) for rows, s in zip((1, 2, 4, 8), seconds, strict=True))
    return PassCurve(64, points, "model", step)


def test_what_a_curve_says():
    passes, drafting, gain = check_curve(curve(0.01, 0.01, 0.012, 0.02, step=0.001), drafts=True)
    assert re.findall(r"[\d.]+", passes.fact) == [
        *["1", "10.0", "2", "1.00", "4", "1.20", "8", "2.00"]
    ]
    assert re.findall(r"[\d.]+", drafting.fact) == ["1.0", "10"]
    assert drafting.fact.startswith("model: ")
    assert gain.symptom is None
    assert re.search(r"\b3\b.* 1\.69 .* 70%", gain.fact)
    for seconds, symptom in (
        ((0.01, 0.02, 0.04, 0.08), Symptom.NEVER_PAYS),
        ((0.01, 0.018, 0.033, 0.06), Symptom.SELDOM_PAYS),
    ):
        *_, gain = check_curve(curve(*seconds), drafts=True)
        assert gain.symptom is symptom
    chips, flat = load_chips(), curve(0.01, 0.01, 0.01, 0.01)
    known = chips.curve(chips.find("M4 Pro", 48 << 30), 4)
    (passes,) = check_curve(flat, drafts=False, known=known)
    assert (passes.name, "M4 Pro, 4 bits" in passes.fact) == ("passes", True)
    (passes,) = check_curve(flat, drafts=False)
    assert "M4" not in passes.fact
