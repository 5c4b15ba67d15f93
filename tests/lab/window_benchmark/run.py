"""`make benchmark-window`: how long the window's frames take while an answer grows, and how
soon the window is there, and a long conversation in it.

Measures the window as it is, on made-up rounds that another process plays; what it costs is read
from outside, around the calls of the event loop. Judges nothing: it prints figures.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from PySide6.QtCore import (
    QAbstractEventDispatcher,
    QCoreApplication,
    QEvent,
    QEventLoop,
    QObject,
    QSettings,
)
from PySide6.QtWidgets import QApplication

from app.application import Application
from app.chat.transcript import FRAME_MILLISECONDS
from app.conversations.records import Entry, ExportedChat
from app.conversations.store import Store
from app.engine_client.engine_log import EngineLog
from app.engine_client.engine_process import EngineProcess
from app.models.library import Library
from app.models.loader import ModelLoader
from app.server.local_server import LocalServer
from app.settings import DraftsInText, Settings
from app.start import keep_quick, make_application, run_window
from app.theme.style import Theme
from app.tools.tool_process import ToolProcess
from app.tools.toolbox import Toolbox
from app.window import Window
from app.windows import Windows
from models.files import HOME_VARIABLE
from tests.lab.window_benchmark.frames import Frame, Summary, by_thousand, growth, summarize
from tests.lab.window_benchmark.rounds import made_text
from tests.support.app.fake_commands import OpeningCommands
from tests.support.app.window_maker import windows_of

_SETTLE_SECONDS = 2.0  # the window gets ready, and other processes start
_NAP_SECONDS = 0.0005  # where there is nothing to do; a frame's work does not count it
_DELETED = QEvent.Type.DeferredDelete.value
_UNSEEN = FRAME_MILLISECONDS / 1000  # without a paint, a frame ends after so many seconds
_PATIENCE_SECONDS = 60.0
_TARGET = "benchmark"


@dataclass(frozen=True, slots=True)
class Run:
    """A stream into the window. `end`: what came between the last round and all being saved."""

    name: str
    frames: tuple[Frame, ...]
    end: tuple[Frame, ...]
    characters: int


@dataclass(frozen=True, slots=True)
class Opening:
    """A stored conversation that was opened: until its end was painted. `laid_out`: the messages
    that have widgets then."""

    messages: int
    seconds: float
    processor_seconds: float
    laid_out: int


@dataclass(frozen=True, slots=True)
class Report:
    """All that was measured. `starts`: from the start of a process to its first paint, seconds."""

    starts: tuple[float, ...]
    openings: tuple[Opening, ...]
    runs: tuple[Run, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print; the process's exit status."""
    options = _options(sys.argv[1:] if arguments is None else arguments)
    if options.first_paint:
        return _tell_first_paint()
    report = measure(
        characters=options.characters,
        tokens_per_second=options.speed,
        starts=options.starts,
        messages=options.messages,
    )
    print(json.dumps(as_json(report), indent=1) if options.json else as_text(report))
    return 0


def measure(*, characters: int, tokens_per_second: float, starts: int, messages: int) -> Report:
    """Start the window so many times, open a conversation of so many messages three times, then
    stream an answer twice: light, and with everything."""
    application = QApplication.instance()
    if not isinstance(application, QApplication):
        application = make_application(["slipstream"])
    command = (
        *(sys.executable, "-m", "tests.lab.window_benchmark.host"),
        *(str(characters), str(tokens_per_second)),
    )
    return Report(
        tuple(first_paint_seconds() for _ in range(starts)),
        tuple(_open_long(application, command, messages) for _ in range(3 if messages else 0)),
        tuple(
            _stream(application, command, name, drafts=drafts, everything=everything)
            for name, drafts, everything in (
                ("text alone", DraftsInText.OFF, False),
                ("drafts in the text", DraftsInText.FADE, False),
                ("drafts, panel, tokens", DraftsInText.FADE, True),
            )
        ),
    )


# The first paint


def first_paint_seconds() -> float:
    """From just before a process is started until it has painted the window: all that
    `python -m app` does, with a home of its own and nothing in it."""
    home = tempfile.mkdtemp()
    try:
        environment = {**os.environ, HOME_VARIABLE: home}
        begin = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "tests.lab.window_benchmark.run", "--first-paint"],
            cwd=Path(__file__).parents[3],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=True,
        )
    finally:
        shutil.rmtree(home)
    return float(done.stdout.split()[-1]) - begin


def _tell_first_paint() -> int:
    """Be the app until its window is painted, and say when that was, by the system's clock."""

    def tell(window: Window) -> None:
        print(time.monotonic(), flush=True)
        window.close()

    return run_window(["slipstream"], begin=tell)


# Frames


class Meter(QObject):
    """Turns the event loop, and keeps a `Frame` for each paint of a window."""

    def __init__(self, window: Window) -> None:
        super().__init__()
        self.frames: list[Frame] = []
        self._window = window
        self._painted = False
        self._seconds = self._processor = self._begin = 0.0
        self._length = 0
        window.installEventFilter(self)

    def turn(self, until: Callable[[], object]) -> None:
        """Let the window live until something holds. Raises TimeoutError if it never does."""
        dispatcher = QAbstractEventDispatcher.instance()
        flags = QEventLoop.ProcessEventsFlag.AllEvents
        heard, shown = time.monotonic(), self._shown()
        while not until():
            begin, processor = time.perf_counter(), time.thread_time()
            worked = dispatcher.processEvents(flags)
            if worked:
                self._begin = self._begin or begin
                self._seconds += time.perf_counter() - begin
                self._processor += time.thread_time() - processor
            length, before, shown = self._look(), shown, self._shown()
            if (length, shown) != (self._length, before):
                self._length, heard = length, time.monotonic()
            elif time.monotonic() - heard > _PATIENCE_SECONDS:
                raise TimeoutError(f"Nothing happened for {_PATIENCE_SECONDS:.0f} s.")
            if self._painted or (self._begin and time.perf_counter() - self._begin > _UNSEEN):
                self._close()
            if not worked:
                # Left to itself only a loop of Qt's own does this.
                QCoreApplication.sendPostedEvents(None, _DELETED)
                time.sleep(_NAP_SECONDS)

    def rest(self, seconds: float) -> None:
        """Let the window live for a while."""
        end = time.monotonic() + seconds
        self.turn(lambda: time.monotonic() >= end)

    def take(self) -> tuple[Frame, ...]:
        """The frames so far, which are then forgotten; work that no paint followed is the last."""
        self._close()
        frames, self.frames = tuple(self.frames), []
        return frames

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.UpdateRequest:
            self._painted = True
        return False

    def _look(self) -> int:
        """How long the answer is; as it was, where it has ended."""
        writing = self._window.conversation.writing
        return len(writing.text) if writing else self._length

    def _shown(self) -> int:
        """How much of the last message is written: on a busy machine that goes on for long."""
        messages = self._window.transcript.messages
        return messages[-1].view.document().characterCount() if messages else 0

    def _close(self) -> None:
        if self._seconds:
            self.frames.append(Frame(self._seconds, self._processor, self._length))
        self._seconds = self._processor = self._begin = 0.0
        self._painted = False


def _stream(
    application: QApplication,
    command: Sequence[str],
    name: str,
    *,
    drafts: DraftsInText,
    everything: bool,
) -> Run:
    """One answer into a window of its own, which has nothing else in it."""
    with tempfile.TemporaryDirectory() as home:
        window = _open(application, Path(home), command)
        window.rounds.setVisible(everything)
        if everything:
            window.menus.actions["provenance"].trigger()
        window.presenter.show_drafts(drafts, calm=False)
        garbage = keep_quick(windows_of(window))
        meter = Meter(window)
        meter.turn(lambda: window.loader.loaded)
        meter.rest(_SETTLE_SECONDS)
        window.composer.set_text("Write a long answer.")
        window.composer.send()
        meter.turn(lambda: window.conversation.writing)
        meter.take()
        meter.turn(lambda: window.conversation.writing is None)
        frames = meter.take()
        answer = window.conversation.branch[-1]
        meter.turn(lambda: window.answers.writing(answer.id) is None)
        meter.rest(_SETTLE_SECONDS)
        characters = len(window.transcript.messages[-1].written)
        end = meter.take()
        garbage.close()
        window.removeEventFilter(meter)
        window.close()
        window.deleteLater()
        application.processEvents()
    return Run(name, frames, end, characters)


def _open_long(application: QApplication, command: Sequence[str], messages: int) -> Opening:
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
    with tempfile.TemporaryDirectory() as home:
        window = _open(application, Path(home), command)
        chat = ExportedChat("Long", entries, leaf=messages - 1)
        (record,) = window.store.add([chat]).result()
        meter, transcript = Meter(window), window.transcript
        meter.turn(lambda: window.loader.loaded)
        meter.rest(_SETTLE_SECONDS)
        begin, processor = time.perf_counter(), time.thread_time()
        window.conversation.open(record.id)
        meter.turn(lambda: transcript.messages and transcript.messages[-1].measured)
        window.repaint()
        seconds, processor = time.perf_counter() - begin, time.thread_time() - processor
        laid_out = sum(row.widget is not None for row in transcript.messages)
        window.removeEventFilter(meter)
        window.close()
        window.deleteLater()
        application.processEvents()
    return Opening(messages, seconds, processor, laid_out)


def _open(application: QApplication, home: Path, command: Sequence[str]) -> Window:
    settings = Settings(QSettings(str(home / "settings.ini"), QSettings.Format.IniFormat))
    engine = EngineProcess(EngineLog(home / "log"), command=command)
    loader = ModelLoader(engine, settings, commands=OpeningCommands(lambda target: Path(_TARGET)))
    shared = Application(
        Store.open(home / "conversations.sqlite"),
        engine,
        loader=loader,
        settings=settings,
        theme=Theme(application, settings),
        library=Library(),
        server=LocalServer(
            engine,
            loader,
            EngineLog(home / "log", name="server"),
            settings=settings,
            key_file=home / "server-key",
        ),
        tools=Toolbox(
            home / "tools.json", ToolProcess(EngineLog(home / "log", name="tools")), logs=home
        ),
    )
    (window,) = Windows(shared).restore()
    window.show()
    window.begin()
    return window


# What is printed


def as_json(report: Report) -> dict[str, object]:
    """All figures, for other programs."""
    return {
        "machine": _machine(),
        "load": _load(),
        "first_paint_seconds": report.starts,
        "openings": [asdict(opening) for opening in report.openings],
        "runs": [
            {
                "name": run.name,
                "characters": run.characters,
                "growth": growth(run.frames),
                "whole": asdict(summarize(run.frames)),
                "end": asdict(summarize(run.end)),
                "by_thousand": {
                    thousand: asdict(summary)
                    for thousand, summary in by_thousand(run.frames).items()
                },
            }
            for run in report.runs
        ],
    }


def as_text(report: Report) -> str:
    """The same, to be read."""
    lines = [f"Slipstream's window on {_machine()}; load {_load()}", ""]
    if report.starts:
        shown = ", ".join(f"{start:.2f}" for start in sorted(report.starts))
        lines += [f"First paint after {shown} s from the start of the process.", ""]
    for opening in report.openings:
        lines.append(
            f"The end of a conversation of {opening.messages:,} messages after "
            f"{opening.seconds:.2f} s, {opening.processor_seconds:.2f} s of the processor's; "
            f"{opening.laid_out} of them laid out."
        )
    if report.openings:
        lines.append("")
    lines += [
        "Frames in milliseconds: by the clock, and by the processor's time, which is free of",
        "what else runs on this machine.",
    ]
    for run in report.runs:
        lines += ["", f"{run.name}, {run.characters:,} characters"]
        lines.append(_row("characters", "frames", *("p50", "p99", "max") * 2))
        for thousand, summary in by_thousand(run.frames).items():
            lines.append(_figures(f"from {1000 * thousand:,}", summary))
        lines.append(_figures("all", summarize(run.frames)))
        lines.append(_figures("at its end", summarize(run.end)))
        grown = growth(run.frames)
        if grown is not None:
            lines.append(f"  last third against the first: {grown:.2f} times the work for a frame")
    return "\n".join(lines)


def _figures(name: str, summary: Summary) -> str:
    shown = (
        *(summary.p50_ms, summary.p99_ms, summary.max_ms),
        *(summary.processor_p50_ms, summary.processor_p99_ms, summary.processor_max_ms),
    )
    return _row(name, str(summary.frames), *(f"{figure:.1f}" for figure in shown))


def _row(name: str, *cells: str) -> str:
    return f"  {name:<12}" + "".join(f"{cell:>8}" for cell in cells)


def _machine() -> str:
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"


def _load() -> str:
    try:
        return " ".join(f"{load:.1f}" for load in os.getloadavg())
    except OSError:
        return "unknown"


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmark-window", description=__doc__)
    parser.add_argument("--first-paint", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="figures for other programs")
    parser.add_argument("--characters", type=int, default=30_000, help="of the answer")
    parser.add_argument("--speed", type=float, default=200.0, help="in tokens a second")
    parser.add_argument("--starts", type=int, default=5, help="how often the window is opened")
    parser.add_argument("--messages", type=int, default=600, help="of a conversation to open")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
