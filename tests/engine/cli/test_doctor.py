"""The doctor: facts with remedies, about this machine and about machines that are not here."""

import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

from engine.bench.machine import this_machine
from engine.bench.measure import CurvePoint, PassCurve, curve_of
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
    show_check,
    starter_if_here,
)
from engine.cli.main import main
from engine.conversation.template_abilities import TemplateAbilities
from engine.cpu.blas import MatrixLibrary
from engine.draft_length.costs import Calibration, DraftCosts, PassCosts
from engine.exactness import Exactness
from engine.replies.syntax import ReasoningMarks, ReplySyntax
from models.errors import Problem
from models.model_folder import ModelFolder
from models.speed import load_chips
from tests.support.engine.tiny import write_folder

GB = 1_000_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("models") / "target"
    write_folder("llama", place)
    return place


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
def test_a_sound_pair_is_usable_and_every_line_is_shown_once(folder):
    shown = []
    found = diagnose(
        lambda: ModelFolder(folder), "early-exit:2", show=shown.append, budget_seconds=0.5
    )

    assert found.usable
    assert tuple(shown) == found.checks
    checks = by_name(found)
    assert list(checks)[:10] == [
        *("slipstream", "mlx", "mlx-lm", "window", "chip", "memory", "backend", "BLAS", "load"),
        "cache",
    ]
    assert checks["target"].fact.startswith("target, llama, float32, loaded in")
    assert checks["drafter"] == Check("drafter", "early-exit")
    assert "4,096 tokens" in checks["fit"].fact
    assert checks["fit"].symptom is None
    assert re.search(r"1 row takes \d+\.\d ms; multiples of that: ", checks["passes"].fact)
    assert re.match(r"early-exit: \d+\.\d ms a token", checks["drafting"].fact)
    assert "gain" in checks
    assert found.curve.step_seconds is not None


@pytest.mark.usefixtures("known")
def test_what_a_busy_machine_measures_is_not_believed(folder, monkeypatch):
    monkeypatch.setattr(Calibration, "steady", False)
    found = diagnose(lambda: ModelFolder(folder), "lookup", budget_seconds=0.2)
    assert found.usable
    assert found.curve is None
    assert found.checks[-1].name == "passes"
    assert found.checks[-1].symptom is Symptom.BUSY


def test_a_curve_is_of_the_pair_alone():
    # A calibration tells what copying costs, whoever drafts.
    passes = PassCosts(24, (1, 4), (0.05, 0.06))
    drafts = (DraftCosts("lookup", 0.001, 0.0), DraftCosts("head", 0.002, 0.003))
    calibration = Calibration(passes, drafts)
    points = (CurvePoint(1, 0.05), CurvePoint(4, 0.06))
    assert curve_of(calibration, ["lookup", "head"]) == PassCurve(24, points, "head", 0.005)
    assert curve_of(calibration, ["lookup"]) == PassCurve(24, points, "lookup", 0.001)
    assert curve_of(calibration, ["none"]) == PassCurve(24, points)


@pytest.mark.usefixtures("known")
def test_a_pair_that_does_not_work_says_why(folder, tmp_path, monkeypatch):
    exact = Exactness(0, why="layer 1 of 2 gives 2 rows other bits", kernel="our kernel: off")
    monkeypatch.setattr(doctor, "settle", lambda target, wish: exact)
    found = diagnose(lambda: ModelFolder(folder), str(tmp_path / "none"))
    assert not found.usable
    assert by_name(found)["text"].fact == exact.in_words()
    assert found.checks[-1].name == "drafter"
    assert found.checks[-1].symptom is Symptom.REFUSED

    found = diagnose(lambda: ModelFolder(tmp_path / "none"), "lookup")
    assert found.checks[-1].name == "target"
    assert found.checks[-1].symptom is Symptom.REFUSED
    assert str(tmp_path / "none") in found.checks[-1].fact

    def finds_nothing():
        raise Problem("It is broken.", "Mend it.")

    found = diagnose(finds_nothing, "lookup")
    assert found.checks[-1] == Check("target", "It is broken.", "Mend it.", False, Symptom.REFUSED)


@pytest.mark.usefixtures("known")
def test_without_the_starter_model_slipstream_is_usable(tmp_path, monkeypatch):
    found = diagnose(starter_if_here, "auto")
    assert found.usable
    assert found.checks[-1].symptom is Symptom.NOT_HERE
    assert found.curve is None
    monkeypatch.setattr(doctor, "shipped_starter", lambda: ModelFolder(tmp_path))
    assert starter_if_here() == ModelFolder(tmp_path)


@pytest.mark.usefixtures("known")
def test_weights_that_do_not_fit_are_not_loaded(folder, monkeypatch):
    monkeypatch.setattr(doctor, "available_bytes", lambda: 1000)
    found = diagnose(lambda: ModelFolder(folder), "lookup")
    assert not found.usable
    assert found.checks[-1].symptom is Symptom.TOO_LARGE
    assert "1.00 kB" in found.checks[-1].fact


@pytest.mark.usefixtures("measured", "known")
def test_the_command_ends_with_0_or_1(folder, tmp_path, capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)))
        assert isinstance(ended.value.code, int)
        return ended.value.code, capsys.readouterr().out

    code, text = run("doctor", "--target", folder, "--drafter", "lookup", "--json")
    found = json.loads(text)
    assert (code, found["usable"]) == (0, True)
    assert found["lines"][-1].keys() == {"name", "fact", "remedy", "usable", "symptom"}
    assert found["curve"]["points"][0]["rows"] == 1
    code, text = run("doctor", "--no-pair", "--json")
    alone = json.loads(text)
    names = [line["name"] for line in alone["lines"]]
    assert ("target" in names, alone["curve"]) == (False, None)
    assert "\n" not in text.strip()  # as the window reads lines
    code, text = run("doctor", "--target", tmp_path / "none")
    assert code == 1
    assert "✗ target" in text
    assert "→ " in text


def test_lines_are_printed_as_they_are(capsys):
    console = Console(width=40)
    show_check(Check("chip", "an [odd] one " + "x" * 60), console)
    show_check(Symptom.REFUSED.found("mlx", "old", remedy="[do] this"), console)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "✓ chip       an [odd] one " + "x" * 60
    assert lines[1:] == ["! mlx        old", "             → [do] this"]


def test_the_options_for_thinking_are_those_of_the_template():
    reasons = ReplySyntax(reasoning=ReasoningMarks("<think>", "</think>"))
    chooses = TemplateAbilities(switches=("enable_thinking",))
    for able, syntax, options in (
        (TemplateAbilities(), ReplySyntax(), []),
        (TemplateAbilities(), reasons, ["--thinking-budget N"]),
        (chooses, reasons, ["--thinking on|off", "--thinking-budget N"]),
    ):
        fact = doctor.check_template(able, syntax).fact
        assert [part for part in fact.split("; ") if part.startswith("--")] == options


def test_each_symptom_is_told_from_what_is_right():
    metal = replace(this_machine(), device="GPU Apple M4", platform="macOS-26.0-arm64-arm-64bit")
    assert check_backend(metal) == Check("backend", "Metal, GPU Apple M4")
    right = MatrixLibrary("OpenBLAS 0.3", "Sandybridge", 2)
    assert check_blas(right, gigaflops=53, rows_alike=True) == Check(
        "BLAS", "OpenBLAS 0.3, Sandybridge kernels, 53 GFLOP/s for 8 rows, 2 threads"
    )
    mac = MatrixLibrary("Accelerate")
    assert check_blas(mac, gigaflops=0, rows_alike=False) == Check("BLAS", "Accelerate")
    slow = check_blas(MatrixLibrary("reference BLAS"), gigaflops=6, rows_alike=True)
    assert slow.usable
    assert "It is here." in check_drafter("auto", "suffix+mtp", "It is here.").fact
    old = check_version("mlx-lm", "0.9.9")
    assert (old.usable, "mlx-lm>=0.32.2" in old.remedy) == (False, True)
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


def test_whether_a_pair_fits():
    def fit(free, device=0):
        return check_fit(weights=4 * GB, token=100_000, context=10_000, free=free, device=device)

    assert fit(2 * GB).symptom is None
    assert "5.00 GB" in fit(2 * GB).fact
    assert fit(GB // 2).symptom is Symptom.SHORT_CONTEXT
    assert fit(GB // 2).fact.endswith(" 5,000 tokens fit")
    assert fit(9 * GB, device=6 * GB).symptom is None
    wired = {device: "paged out" in fit(9 * GB, device=device * GB).fact for device in (5, 6, 7)}
    assert wired == {5: True, 6: True, 7: False}
    tight = fit(9 * GB, device=3 * GB)
    assert not tight.usable
    assert tight.symptom is Symptom.TOO_LARGE
    assert tight.fact.endswith(" 3.00 GB are available")


def curve(*seconds, step=None):
    points = tuple(CurvePoint(rows, s) for rows, s in zip((1, 2, 4, 8), seconds, strict=True))
    return PassCurve(64, points, "model", step)


def test_what_a_curve_says():
    passes, drafting, gain = check_curve(curve(0.01, 0.01, 0.012, 0.02, step=0.001), drafts=True)
    assert (
        passes.fact
        == "1 row takes 10.0 ms; multiples of that: 2 rows 1.00, 4 rows 1.20, 8 rows 2.00"
    )
    assert drafting.fact == "model: 1.0 ms a token, 10% of a pass"
    assert gain.symptom is None
    assert re.search(r"\b3\b.* 1\.69 .* 70%", gain.fact)

    *_, gain = check_curve(curve(0.01, 0.02, 0.04, 0.08), drafts=True)
    assert gain.symptom is Symptom.NEVER_PAYS
    assert "1.00 times" in gain.fact

    *_, gain = check_curve(curve(0.01, 0.018, 0.033, 0.06), drafts=True)
    assert gain.symptom is Symptom.SELDOM_PAYS

    (passes,) = check_curve(curve(0.01, 0.01, 0.01, 0.01), drafts=False)
    assert passes.name == "passes"


def test_what_a_chip_is_known_for():
    chips = load_chips()
    losing, gaining = (chips.find(name, 48 << 30) for name in ("M1 Pro", "M4 Pro"))
    assert losing is not None
    assert gaining is not None
    assert "seldom" in check_chip(losing).fact
    assert "273 GB/s" in check_chip(gaining).fact
    known = chips.curve(gaining, 4)
    (passes,) = check_curve(curve(0.01, 0.01, 0.01, 0.01), drafts=False, known=known)
    assert "M4 Pro, 4 bits" in passes.fact
