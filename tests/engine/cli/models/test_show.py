"""What a person reads: a reason for every no, something to do where there is nothing."""

import io
from dataclasses import replace

import pyte
import pytest
from rich.console import Console

from engine.cli.models.progress import DownloadView, Steps, bytes_bar
from engine.cli.models.show import (
    show_candidates,
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


def test_what_the_hub_has(console):
    gated = SearchResult(HOSTILE, 1, 1, "", True, "", None, "It is gated.")
    show_found(console, "x", [gated])
    assert "models pull" not in written(console)
    good = SearchResult("o/good", 1234, 5, "2026-01-02", False, HOSTILE, 2_300_000_000)
    show_found(console, "x", [good, SearchResult("o/unknown", 0, 0, "", False, ""), gated])
    text = written(console)
    for word in ("o/good", "2.30 GB", "1,234", "o/unknown", "?", SHOWN, "→ It is gated.",
                 "slipstream models pull o/good"):  # fmt: skip
        assert word in text


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
    for word in ("needs 4.00 GB, of 9.00 GB available", "→ Needs 90 GB.", "may differ",
                 "slipstream models pull o/best o/small (3.00 GB)"):  # fmt: skip
        assert word in text
    show_offers(console, [offer("o/best", recommended=True, installed=True)])
    assert "slipstream chat --target o/best --drafter o/small" in written(console)
    show_offers(console, [offer("o/none", recommended=True, reason="Needs 90 GB.")])
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
    published = Candidate("o/spark", "dspark", False, "", installed=False, tried=False)
    show_candidates(console, "o/target", [published])
    assert "o/spark  DSpark, not installed, untested, licence unknown" in written(console)


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


# Steps


def test_each_is_told_as_it_begins_and_all_at_the_end(console):
    moment = [100.0]
    usual, steps = (Steps(console, lambda: moment[0]) for _ in range(2))
    usual.begin("loading")
    usual.end()
    assert console.file.getvalue() == ""  # it is done every time
    steps.begin("fetching", "Fetching it: 93 MB")
    assert console.file.getvalue() == "Fetching it: 93 MB\n"
    moment[0] += 39
    steps.begin("loading")
    moment[0] += 2
    steps.begin("measuring", "Measuring [once]")
    moment[0] += 5
    steps.end()
    assert console.file.getvalue().splitlines()[1:] == [
        "Measuring [once]",
        "Ready: fetching 39 s, loading 2 s, measuring 5 s.",
    ]


def test_a_step_that_begins_while_bytes_come_stands_on_a_line_of_its_own():
    console = Console(file=io.StringIO(), width=60, force_terminal=True)
    steps = Steps(console)
    steps.begin("fetching", "Fetching it")
    with bytes_bar("It", console=console) as show:
        show(5, 10)
        steps.begin("importing", "Importing it")
        show(10, 10)
    screen = pyte.Screen(60, 8)
    pyte.Stream(screen).feed(console.file.getvalue().replace("\n", "\r\n"))
    assert [line.rstrip() for line in screen.display][:3] == ["Fetching it", "Importing it", ""]
    assert "10" not in "".join(screen.display)  # the bar has gone
