"""`python -m tests.lab.cluster`: two Macs on one Linux machine, as root.

Each process multiplies with one core, the one that is compared with too: each of two Macs has its
own, and here there may be no more than two.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import engine  # noqa: F401  # puts OpenBLAS in front

# isort: split
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from engine.bench.machine import this_machine
from engine.bench.prompts import BUILTIN
from engine.cluster.connect import Cluster
from engine.cluster.hosts import ClusterHost, Hosts
from engine.conversation.loading import load
from models.drafters.folders import find_head
from models.errors import Problem
from models.installed.resolve import open_target
from models.model_folder import ModelFolder
from models.sharing import Mode
from tests.lab.cluster.cable import Cable, plugged
from tests.lab.cluster.failures import FAILURES, Outcome, Scene, answer, suffer
from tests.lab.cluster.table import PLAIN, Measured, Place, Setting, Way, differing, measure, render

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def main() -> None:
    """Two Macs on one machine, with a cable between them that has a latency."""


@app.command()
def table(
    *,
    target: Annotated[str | None, typer.Option(help="A model; else the starter's.")] = None,
    mode: Annotated[str, typer.Option(help="pipeline or tensor.")] = "pipeline",
    way: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DRAFTER:LENGTH",
            help="Beside plain; else suffix and what head there is, fixed and automatic.",
        ),
    ] = None,
    latency: Annotated[
        list[float] | None, typer.Option(help="Milliseconds, each way; else 0, 0.3 and 2.")
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(
            help="Of a built-in prompt, or of a task about a document; else edit and reasoning."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="How often all is measured.")] = 5,
    minutes: Annotated[float, typer.Option(help="After which no other round begins.")] = 10.0,
    max_tokens: Annotated[int, typer.Option(help="Of an answer.")] = 64,
) -> None:
    """How fast answers are in one process and on two Macs, with drafts and without."""
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"[{time.monotonic() - began:.0f} s] {line}", file=sys.stderr, flush=True)

    folder = open_target(target)
    heads = ["head:3", "suffix+head:auto"] if find_head(folder.fingerprint) else []
    parts = [each.rpartition(":") for each in way or ["suffix:4", "suffix:auto", *heads]]
    ways = [PLAIN, *(Way(drafter, length) for drafter, _, length in parts)]
    wanted = category or ["edit", "reasoning"]
    prompts = [*BUILTIN]
    questions = [next(text for kind, text in prompts if kind == each) for each in wanted]
    shared: Mode = "tensor" if mode == "tensor" else "pipeline"
    with arranged(folder, shared, latency or [0.0, 0.3, 2.0], report) as settings:
        for setting in settings:
            for each in ways:
                if not setting.calibrate(each):
                    report(f"{setting.name}, {each}: not calibrated, timings varied too much")
        measured: list[Measured] = []
        for one in measure(settings, ways, questions, rounds=rounds, most_tokens=max_tokens):
            late = time.monotonic() - began > 60 * minutes
            if late and measured and one.round > measured[-1].round:
                break
            measured.append(one)
            answer = one.answer
            report(
                f"round {one.round}, {one.setting}, {one.way}, {wanted[one.question]}: "
                f"{answer.tokens} tokens in {answer.passes} passes, {answer.seconds:.2f} s"
            )
    here = this_machine()
    print(
        f"{folder.name}, {mode}; {here.processor}, {here.cores} cores; MLX {here.mlx} on "
        f"{here.matrix_library}, one thread a process; medians of {measured[-1].round + 1} rounds"
    )
    print("\n".join(render(measured)))
    others = differing(measured)
    print(f"{len(measured)} answers; with another text: {len(others)}")
    for one in others:
        print(f"  round {one.round}, {one.setting}, {one.way}, {wanted[one.question]}")
    raise typer.Exit(int(bool(others)))


@app.command()
def failures(
    *,
    only: Annotated[list[str] | None, typer.Option(help="A failure's name; else all.")] = None,
    times: Annotated[int, typer.Option(help="How often each of them happens.")] = 20,
) -> None:
    """What becomes of an answer when a Mac fails; status 1 where it is not one clear line."""
    chosen = [FAILURES[name] for name in only or FAILURES]
    bad = 0
    with TemporaryDirectory() as folder, plugged() as cable:
        scene = Scene(cable, Path(folder))
        expected = answer(scene)
        if expected is None:
            raise Problem("There is no answer even without a failure.", " ".join(scene.said()))
        for failure in chosen:
            outcomes: list[Outcome] = []
            for number in range(times):
                outcome = suffer(scene, failure, expected)
                outcomes.append(outcome)
                if not outcome.good:
                    print(f"{failure.name}, {number}: {outcome}", flush=True)
            good = sum(outcome.good for outcome in outcomes)
            seconds = [outcome.seconds for outcome in outcomes]
            print(
                f"{failure.name}: {good} of {times} as they should be, {median(seconds):.1f} s "
                f"({min(seconds):.1f}–{max(seconds):.1f}), deadline {failure.deadline:g} s; "
                f"{' / '.join(outcomes[-1].said)}; {outcomes[-1].ring} lines of MLX's ring",
                flush=True,
            )
            bad += times - good
    raise typer.Exit(int(bad > 0))


@contextmanager
def arranged(
    folder: ModelFolder, mode: Mode, latencies: Sequence[float], report: Callable[[str], None]
) -> Iterator[list[Setting]]:
    """The settings: a target in this process, and shared with another Mac over a cable with these
    latencies, in milliseconds."""
    with plugged() as cable:
        cable.ends[0].enter()
        command = partial(follower_command, cable)
        cluster = Cluster.connect(hosts_of(cable), command=command, lost=_end)
        try:
            shared = cluster.load(folder, mode=mode)
            report(f"{folder.name} is on two Macs: {[each.needed_bytes for each in cluster.ranks]}")
            alone = load(folder, expand=shared.precision.startswith("float32"))
            if alone.precision != shared.precision:
                raise Problem("The two would not compute alike.", "Free some memory.")
            report("and in one process")
            two = Place(shared)
            yield [
                Setting("one process", Place(alone)),
                *(
                    Setting(f"two ranks, {each:g} ms", two, partial(cable.delay, each / 1000))
                    for each in latencies
                ),
            ]
        finally:
            cluster.close()


def _end(problem: Problem) -> None:
    """MLX cannot leave a group that has lost a rank."""
    print(problem, file=sys.stderr, flush=True)
    os._exit(1)


def hosts_of(cable: Cable) -> Hosts:
    """The Macs at a cable's ends, rank 0's first."""
    return Hosts(
        Path("cable"), tuple(ClusterHost(mac.address, (mac.address,)) for mac in cable.ends)
    )


def follower_command(cable: Cable, host: ClusterHost, environment: Sequence[str]) -> list[str]:
    """What starts a follower at the other end of a cable, where ssh would on a Mac."""
    return cable.ends[1].command(sys.executable, "-m", "engine", "follow")


if __name__ == "__main__":
    app()
