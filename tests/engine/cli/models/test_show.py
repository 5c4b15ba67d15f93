"""What a person reads: a reason for every no, something to do where there is nothing."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from engine.cli.models.progress import DownloadView
from engine.cli.models.show import (
    show_candidates,
    show_download,
    show_fit,
    show_found,
    show_local,
    show_offers,
)
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
from tests.support.engine.ended import CONTROLS

HOSTILE = "evil\x1b[2J\u202e\nname[bold]"
SHOWN = "evil[2J name[bold]"


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=100)


def written(console):
    """What it shows; nothing in it drives a terminal."""
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert not CONTROLS.search(text.replace("\n", ""))
    return text


def model(name=HOSTILE, problem="", remedy=""):
    return Installed(
        name, "/x", "hub", "chat", 2_000_000, None, "llama", 4, 8192, True, problem, remedy
    )


def offer(target, *, recommended=False, reason="", **more):
    return PairOffer(
        target=target,
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
        installed=more.get("installed", False),
        recommended=recommended,
        verified=more.get("verified", True),
        reason=reason,
    )


def test_a_shelf(console):
    show_local(
        console,
        Inventory(
            (model(), model("broken", f"It is {HOSTILE}.", "Fetch it again.")),
            (Incomplete("half/one", "/y", 1000),),
            (Download(HOSTILE, "", "failed", 5, 10, problem="Gone.", remedy="Look."),),
            (HOSTILE,),
            10**9,
        ),
    )
    text = written(console)
    assert text.count(SHOWN) == 4
    assert "✗ broken" in text
    assert "Fetch it again." in text
    assert "remove --incomplete half/one" in text
    assert "Gone. Look." in text
    assert ": slipstream models pull\n" in text
    assert "4.00 MB" in text
    assert "1.00 GB are free" in text


@pytest.mark.parametrize(
    ("status", "word"),
    [("queued", "…"), ("running", "↓"), ("paused", "‖"), ("failed", "✗"), ("done", "✓")],
)
def test_a_download(status, word, console):
    show_download(console, Download("o/a", "", status, 500_000, 1_000_000))
    text = written(console)
    assert word in text
    assert "500 kB of 1.00 MB" in text


def test_what_the_hub_has(console):
    show_found(
        console,
        "x",
        [
            SearchResult("o/good", 1234, 5, "2026-01-02", False, HOSTILE, 2_300_000_000),
            SearchResult("o/unknown", 0, 0, "", False, ""),
            SearchResult(HOSTILE, 1, 1, "", True, "", None, "It is gated."),
        ],
    )
    text = written(console)
    for word in ("o/good", "2.30 GB", "1,234", "o/unknown", "?", SHOWN, "→ It is gated.",
                 "slipstream models pull o/good"):  # fmt: skip
        assert word in text


def test_only_what_cannot_be_used(console):
    show_found(console, "x", [SearchResult("o/bad", 1, 1, "", True, "", None, "It is gated.")])
    assert "o/bad" in written(console)
    assert "models pull" not in written(console)


def test_offers(console):
    show_offers(
        console,
        [
            offer("o/best", recommended=True),
            offer("o/here", installed=True),
            offer("o/large", reason="Needs 90 GB.", verified=False),
        ],
    )
    text = written(console)
    assert text.index("o/best") < text.index("o/here") < text.index("o/large")
    assert "needs 4.00 GB, of 9.00 GB available" in text
    assert "slipstream models pull o/best o/small (3.00 GB)" in text
    assert "→ Needs 90 GB." in text
    assert "may differ" in text


def test_a_recommended_pair_that_is_here_and_one_without_room(console):
    show_offers(console, [offer("o/best", recommended=True, installed=True)])
    assert "slipstream chat --target o/best --drafter o/small" in written(console)
    show_offers(console, [offer("o/none", recommended=True, reason="Needs 90 GB.")])
    assert "→ Needs 90 GB." in written(console)
    assert "pull o/none" not in written(console)


def test_candidates(console):
    candidates = [
        Candidate("lookup", "lookup", True, "Costs nothing.", 0.0),
        Candidate("o/a", "model", True, "The same tokens.", 0.125, installed=False),
        Candidate(HOSTILE, "model", False, f"Token 3 is {HOSTILE}."),
    ]
    show_candidates(console, "o/target", candidates)
    text = written(console)
    for word in ("o/target", "Costs nothing.", "12 % of a pass", "not installed", "✗ evil"):
        assert word in text
    assert text.count(SHOWN) == 2
    show_candidates(console, "o/target", candidates[2:])
    assert "--drafter none" in written(console)


def test_published_candidates(console):
    published = Candidate(
        "o/spark", "dspark", False, "Fetch it.", installed=False, licence="mit", tried=False
    )
    show_candidates(console, "o/target", [published])
    assert "o/spark  DSpark, not installed, untested, licence mit" in written(console)
    show_candidates(console, "o/target", [replace(published, kind="gemma-4-assistant", licence="")])
    assert "Gemma-4 assistant, not installed, untested, licence unknown" in written(console)


def test_installed_drafters_go_by_their_kind(console):
    mtp = Installed("o/mtp", "/", "hub", "drafter", 9, None, "", 4, None, True, drafter_kind="mtp")
    show_local(console, Inventory(installed=(mtp,)))
    assert "MTP" in written(console)


def test_a_fit(console):
    show_fit(console, Fit("t", "d", 8192, 7, 6, 5, 4, 3, 30, 20480, True, "All is well."))
    text = written(console)
    for word in ("✓ t with d", "8,192", "25 bytes", "30 bytes", "All is well.", "20,480"):
        assert word in text
    show_fit(console, Fit("t", "", 8192, 70, 6, 0, 0, 3, 30, 0, False, "No room."))
    text = written(console).partition("✗")[2]
    assert "No room." in text
    assert "longest" not in text
    assert "drafter" not in text


RUNNING = Download("evil\x1b[2J", "", "running", 5_000_000, 10_000_000, 2e6, 125.0)


def drawn(*downloads, terminal):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100, color_system=None)
    view = DownloadView(console)
    for download in downloads:
        view.show(download)
    view.close()
    assert "evil\x1b[2J" not in file.getvalue()
    return file.getvalue()


def test_a_bar_while_it_runs_and_a_line_when_it_is_done():
    assert "5.00 of 10.0 MB  2.00 MB/s  2 min left" in drawn(RUNNING, terminal=True)
    assert "waiting" in drawn(replace(RUNNING, status="queued"), terminal=True)
    text = drawn(RUNNING, replace(RUNNING, status="done"), terminal=True)
    assert "✓ evil" in text
    assert "↓" not in text


def test_a_line_for_each_change_where_there_is_no_terminal():
    queued, done = replace(RUNNING, status="queued"), replace(RUNNING, status="done")
    text = drawn(queued, RUNNING, replace(RUNNING, done_bytes=6_000_000), done, terminal=False)
    assert [line[0] for line in text.splitlines()] == ["…", "↓", "✓"]
