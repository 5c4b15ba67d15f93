"""What the user reads: a reason for every no, something to do where there is nothing."""

import io
from dataclasses import replace
from pathlib import Path

import pyte
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
