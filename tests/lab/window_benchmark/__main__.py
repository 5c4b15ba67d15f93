"""`make benchmark-window`: how long the window's frames take while an answer grows, and how
soon the window is there, and a long conversation in it.

Measures the window as it is, on made-up rounds that another process plays; what it costs is read
from outside, around the calls of the event loop. Judges nothing: it prints figures.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from PySide6.QtWidgets import QApplication

from app.conversations.records import Entry, ExportedChat
from app.settings import DraftsInText
from app.start import make_application, run_idle_work, run_window
from app.window import Window
from models.files import HOME_VARIABLE
from tests.support.app.frames import Frame, Meter, let_python_collect, milliseconds
from tests.support.app.long_texts import made_text
from tests.support.app.window_maker import ROOT, make_window, windows_of

_SETTLE_SECONDS = 2.0  # the window gets ready, and other processes start
_PATIENCE_SECONDS = 60.0
_RUNS = (
    ("text alone", DraftsInText.OFF, False),
    ("drafts in the text", DraftsInText.FADE, False),
    ("drafts, panel, tokens", DraftsInText.FADE, True),
)


def main() -> int:
    """Start the window `starts` times, open a conversation of `messages` messages three times, then
    stream an answer, from light to everything; print what each takes."""
    options = _options()
    if options.first_paint:
        return _tell_first_paint()
    application = make_application(["slipstream"])
    host = (sys.executable, "-m", "tests.support.app.streaming_host")
    command = (*host, str(options.characters), str(options.speed))
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    print(f"Slipstream's window on {machine}; load {os.getloadavg()[0]:.1f}\n")
    starts = sorted(first_paint_seconds() for _ in range(options.starts))
    print(f"First paint after {[round(start, 2) for start in starts]} s from a process's start.")
    for _ in range(3 if options.messages else 0):
        print(_open_long(application, command, options.messages))
    print(
        "Frames in milliseconds: by the clock, and by the processor's time, which is free of\n"
        "what else runs on this machine."
    )
    for name, drafts, everything in _RUNS:
        print(f"\n{name}")
        _stream(application, command, drafts=drafts, everything=everything)
    return 0


# The first paint


def first_paint_seconds() -> float:
    """From just before a process is started until it has painted the window: all that
    `python -m app` does, with a home of its own and nothing in it."""
    with tempfile.TemporaryDirectory() as home:
        begin = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "tests.lab.window_benchmark", "--first-paint"],
            cwd=ROOT,
            env={**os.environ, HOME_VARIABLE: home},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=True,
        )
    return float(done.stdout.split()[-1]) - begin


def _tell_first_paint() -> int:
    """Be the app until its window is painted, and say when that was, by the system's clock."""

    def tell(window: Window) -> None:
        print(time.monotonic(), flush=True)
        window.close()

    return run_window(["slipstream"], begin=tell)


# Frames


@contextmanager
def _open(application: QApplication, command: Sequence[str]) -> Iterator[tuple[Window, Meter]]:
    """A window of its own, which has nothing else in it, ready; it is closed in the end."""
    with tempfile.TemporaryDirectory() as home:
        window = make_window(application, Path(home), command)
        window.show()
        window.begin()
        meter = Meter(window)
        meter.turn(lambda: window.loader.loaded)
        meter.rest(_SETTLE_SECONDS)
        yield window, meter
        window.removeEventFilter(meter)
        window.close()
        window.deleteLater()
        application.processEvents()


def _stream(
    application: QApplication, command: Sequence[str], *, drafts: DraftsInText, everything: bool
) -> None:
    """One answer: frames by thousands of characters, and what comes between the last round and
    all being saved."""
    with _open(application, command) as (window, meter):
        window.rounds.setVisible(everything)
        if everything:
            window.menus.actions["provenance"].trigger()
        window.presenter.show_drafts(drafts, calm=False)
        garbage = run_idle_work(windows_of(window))
        window.composer.set_text("Write a long answer.")
        window.composer.send()
        meter.turn(lambda: window.conversation.writing)
        meter.take()
        meter.turn(lambda: window.conversation.writing is None)
        frames = meter.take()
        answer = window.conversation.branch[-1]
        meter.turn(lambda: window.answers.writing(answer.id) is None)
        meter.rest(_SETTLE_SECONDS)
        end = meter.take()
        let_python_collect(garbage)
    print(
        "  characters  " + "".join(f"{name:>8}" for name in ("frames", *("p50", "p99", "max") * 2))
    )
    longest = max(frame.characters for frame in frames)
    for first in range(0, longest + 1, 1000):
        _print_row(f"from {first:,}", [f for f in frames if 0 <= f.characters - first < 1000])
    _print_row("all", frames)
    _print_row("at its end", end)
    thirds = [
        [f.processor_seconds for f in frames if f.characters <= longest / 3],
        [f.processor_seconds for f in frames if f.characters >= 2 * longest / 3],
    ]
    if min(map(len, thirds)) >= 10:
        grown = median(thirds[1]) / median(thirds[0])
        print(f"  last third against the first: {grown:.2f} times the work for a frame")


def _print_row(name: str, frames: Sequence[Frame]) -> None:
    if frames:
        by_clock = milliseconds([frame.seconds for frame in frames])
        by_processor = milliseconds([frame.processor_seconds for frame in frames])
        figures = "".join(f"{figure:8.1f}" for figure in (*by_clock, *by_processor))
        print(f"  {name:<12}{len(frames):8}{figures}")


def _open_long(application: QApplication, command: Sequence[str], messages: int) -> str:
    """A conversation of questions and of answers with code and tables, opened at its end."""
    sections = made_text(1_000 * messages).split("## ")[1:]
    entries = tuple(
        Entry(
            number - 1 if number else None,
            "assistant" if number % 2 else "user",
            f"## {sections[number // 2]}" if number % 2 else f"Question {number}?",
        )
        for number in range(messages)
    )
    with _open(application, command) as (window, meter):
        (record,) = window.store.add([ExportedChat("Long", entries, leaf=messages - 1)]).result()
        transcript = window.transcript
        begin, processor = time.perf_counter(), time.thread_time()
        window.conversation.open(record.id)
        meter.turn(lambda: transcript.messages and transcript.messages[-1].measured)
        window.repaint()
        seconds, processor = time.perf_counter() - begin, time.thread_time() - processor
        laid_out = sum(row.widget is not None for row in transcript.messages)
    return (
        f"The end of a conversation of {messages:,} messages after {seconds:.2f} s, "
        f"{processor:.2f} s of the processor's; {laid_out} of them laid out."
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmark-window", description=__doc__)
    parser.add_argument("--first-paint", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--characters", type=int, default=30_000, help="of the answer")
    parser.add_argument("--speed", type=float, default=200.0, help="in tokens a second")
    parser.add_argument("--starts", type=int, default=5, help="how often the window is opened")
    parser.add_argument("--messages", type=int, default=600, help="of a conversation to open")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
