"""The front door: `run_bench`. Everybody answers every prompt, one after the other.

What drifts (heat, other programs) hits all alike: contestants take turns within each prompt, and
another one begins at each. Every one is warmed up first. A machine that gets slower all the same
is given rests between contestants where heat is the reason, and the report says so.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from time import perf_counter

import mlx.core as mx

from engine.bench.contestants import HEADROOM, Assignment, Contestant
from engine.bench.cooling import Cooling, Thermometer
from engine.bench.figures import seconds_to_go
from engine.bench.lineup import contestants
from engine.bench.machine import is_hot, this_machine
from engine.bench.options import BenchOptions, as_plain, check, model_folders
from engine.bench.peers import Peers, find_peers
from engine.bench.probes import peak_rss_bytes, probed
from engine.bench.prompts import Prompt, load_prompts
from engine.bench.report import Report, Run, now, write_json
from engine.loading import load
from engine.pair import make_drafter
from engine.request import Message
from engine.session import Session
from models.errors import Problem
from models.installed.resolve import resolve_drafters
from models.model_folder import ModelFolder

_WARM_UP_TOKENS = 12

Encoded = tuple[Prompt, tuple[int, ...]]


def run_bench(
    options: BenchOptions,
    *,
    progress: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = perf_counter,
    hot: Callable[[], bool | None] = is_hot,
) -> Report:
    """Measure; `progress` gets a line at a time. Ctrl-C ends it with what was measured so far.

    `hot`: whether the system says that it is slowed by heat. Raises `Problem`, before anything is
    measured.
    """
    check(options)
    prompts = load_prompts(options.prompts, sets=options.sets, per_category=options.per_category)
    load_once = cache(load)
    target = load_once(options.target)
    session = Session(target)
    for drafter in options.drafters:  # a wrong one should be known at once
        drafters = resolve_drafters(drafter, target.folder)
        make_drafter(drafters, target=target, decoder=session.decoder, load=load_once)
    fitting = _encode(session, prompts, options.max_tokens)
    longest = max(len(ids) for _, ids in fitting) + options.max_tokens
    peers = find_peers(target, gguf=options.gguf, context=longest) if options.peers else Peers()
    lineup = {
        temperature: [*contestants(options, target, temperature, load_once), *peers.contestants]
        for temperature in options.temperatures
    }
    report = Report(
        date=now(),
        machine=this_machine(),
        target=options.target.name,
        precision=target.precision,
        drafters=tuple(
            (folder.name, load_once(ModelFolder(folder)).precision)
            for folder in model_folders(options.drafters)
        ),
        options=as_plain(options),
        skipped=len(prompts) - len(fitting),
        refused=(),
        notes=peers.notes,
        partial=True,
        runs=(),
    )
    progress(f"{report.label}: {len(fitting)} prompts, {report.skipped} too long for the context")
    for note in peers.notes:
        progress(note)
    try:
        progress("measuring the memory, acceptance and passes by themselves")
        report = probed(report, options, target, [ids for _, ids in fitting])
        report = _warm_up(report, lineup, fitting, progress)
        refused = {name for name, _ in report.refused}
        able = {t: [each for each in all if each.name not in refused] for t, all in lineup.items()}
        rests = _Rests(able, fitting, options, progress=progress, sleep=sleep, clock=clock, hot=hot)
        began = clock()
        for number, (prompt, ids) in enumerate(fitting):
            rests.gauge()
            for item in _answers(options, able, number, prompt, ids, rests):
                if isinstance(item, Run):
                    report = replace(report, runs=(*report.runs, item))
                    continue
                report = replace(report, refused=(*report.refused, item))
                able = {t: [c for c in all if c.name != item[0]] for t, all in able.items()}
                progress(f"{item[0]} is out: {item[1]}")
            report = replace(
                report,
                partial=number + 1 < len(fitting),
                cooling=rests.reading(),
                peak_rss_bytes=peak_rss_bytes(),
            )
            if options.out is not None:
                write_json(report, options.out)
            left = seconds_to_go(
                [run.measured.stats for run in report.runs],
                prompts=number + 1,
                left=[len(ids) for _, ids in fitting[number + 1 :]],
                limit=options.max_tokens,
                elapsed_seconds=clock() - began,
            )
            progress(f"{number + 1} of {len(fitting)}: {prompt.id}, about {_span(left)} to go")
    except KeyboardInterrupt:
        progress(f"Stopped; {len(report.runs)} answers were measured.")
        if options.out is not None:
            write_json(report, options.out)
    return report


class _Rests:
    """Runs the first contestant on the same few tokens now and then, and rests where heat slows it.

    Without baselines nobody's speed is of interest, and nobody rests.
    """

    def __init__(
        self,
        able: dict[float, list[Contestant]],
        fitting: list[Encoded],
        options: BenchOptions,
        *,
        progress: Callable[[str], None],
        sleep: Callable[[float], None],
        clock: Callable[[], float],
        hot: Callable[[], bool | None],
    ) -> None:
        temperature, everybody = next(iter(able.items()))
        shortest = min((ids for _, ids in fitting), key=len)
        self._first = everybody[0] if options.baselines and options.cool_down else None
        self._work = Assignment(shortest, _WARM_UP_TOKENS, temperature, seed=0)
        self._thermometer = Thermometer(limit=options.cool_down)
        self._progress, self._sleep, self._clock, self._hot = progress, sleep, clock, hot
        self._began = clock()

    def gauge(self) -> None:
        """See how fast the machine is now."""
        if self._first is not None:
            self._thermometer.measured(self._first.run(self._work).stats.tokens_per_second or 0.0)

    def rest(self) -> None:
        """If need be: before a contestant's turn."""
        if not self._thermometer.slow:
            return
        elapsed = self._clock() - self._began
        seconds = self._thermometer.rest_due(hot=self._hot(), elapsed_seconds=elapsed)
        if seconds:
            fall = self._thermometer.fall or 0.0
            self._progress(f"hot, and {fall:.0%} slower than at first: {seconds:.0f} s of rest")
            self._sleep(seconds)

    def reading(self) -> Cooling:
        """For the report."""
        return self._thermometer.reading()


def _encode(session: Session, prompts: list[Prompt], max_tokens: int) -> list[Encoded]:
    """The prompts as first messages of a chat, those that leave room for the answer."""
    context = session.target.context_length
    room = context - max_tokens - HEADROOM
    encoded = [(p, tuple(session.encode([Message("user", p.text)]))) for p in prompts]
    fitting = [(prompt, ids) for prompt, ids in encoded if len(ids) <= room]
    if not fitting:
        raise Problem(
            f"No prompt fits: the model can look at {context} tokens.",
            "Lower --max-tokens, or use shorter prompts.",
        )
    return fitting


def _warm_up(
    report: Report,
    lineup: dict[float, list[Contestant]],
    fitting: list[Encoded],
    progress: Callable[[str], None],
) -> Report:
    """Run all once, so that kernels are built and memory is there; who cannot run, is out."""
    shortest = min((ids for _, ids in fitting), key=len)
    refused: dict[str, str] = {}
    for temperature, everybody in lineup.items():
        for contestant in everybody:
            progress(f"warming up: {contestant.name}, temperature {temperature:g}")
            try:
                contestant.run(Assignment(shortest, _WARM_UP_TOKENS, temperature, seed=0))
            except ValueError as error:
                refused[contestant.name] = str(error)
    return replace(report, refused=tuple(refused.items()))


def _answers(
    options: BenchOptions,
    able: dict[float, list[Contestant]],
    number: int,
    prompt: Prompt,
    ids: tuple[int, ...],
    rests: _Rests,
) -> Iterator[Run | tuple[str, str]]:
    """Everybody's answers to one prompt; who begins depends on its `number`.

    Of one that fails its name and what it says.
    """
    for repeat in range(options.repeats):
        turn = number * options.repeats + repeat
        seed = options.seed + turn
        for temperature, everybody in able.items():
            first = turn % len(everybody)
            for contestant in everybody[first:] + everybody[:first]:
                rests.rest()
                mx.reset_peak_memory()
                try:
                    measured = contestant.run(
                        Assignment(ids, options.max_tokens, temperature, seed)
                    )
                except ValueError as error:
                    yield contestant.name, str(error)
                    continue
                peak_bytes = mx.get_peak_memory() if measured.same_weights else None
                mx.clear_cache()
                yield Run(
                    contestant=contestant.name,
                    temperature=temperature,
                    prompt=prompt.id,
                    category=prompt.category,
                    repeat=repeat,
                    seed=seed,
                    limit=options.max_tokens,
                    measured=measured,
                    peak_bytes=peak_bytes,
                )


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
