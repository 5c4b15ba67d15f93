"""Runs a benchmark: `run_bench`. Every runner answers every prompt, one after the other.

Heat and other programs affect all runners alike, as they take turns within each prompt, and each
prompt begins with another runner. Every runner is warmed up first.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import chain
from time import perf_counter

import mlx.core as mx

from engine.bench.answers import MeasuredAnswer, Measurements, with_forks
from engine.bench.machine import this_machine
from engine.bench.measure import (
    Roofline,
    at_depth,
    measure_roofline,
    peak_rss_bytes,
    reads_all_weights,
)
from engine.bench.options import BenchOptions, as_plain, check
from engine.bench.prompts import Prompt, load_prompts
from engine.bench.report import BenchReport
from engine.bench.runners import HEADROOM, Runner, Workload, make_runners
from engine.conversation.loading import LoadedModel, load
from engine.conversation.pair import held_as, make_drafter
from engine.conversation.proof import settle
from engine.conversation.session import Session
from engine.core.forks import first_fork
from engine.near_ties import Fork
from engine.request import asked
from models.errors import Problem
from models.files import write_text
from models.in_words import left
from models.installed.resolve import resolve_drafters

_WARM_UP_TOKENS = 12
_DEEPEST_PROBE = 1024  # tokens: to read more takes long on a slow machine

Encoded = tuple[Prompt, tuple[int, ...]]
Runners = dict[float, list[Runner]]  # by temperature


def run_bench(options: BenchOptions, *, progress: Callable[[str], None]) -> Measurements:
    """Measure; `progress` gets a line at a time. Ctrl-C keeps all finished measurements.
    Raises `Problem`, before anything is measured."""
    check(options)
    prompts = load_prompts(options.prompts, per_category=options.per_category)
    names = tuple(dict.fromkeys(drafter for drafter, _ in options.drafting))
    load_once = cache(load)
    found = [resolve_drafters(n, options.target, bits=options.drafter_bits) for n in names]
    target = load_once(options.target)
    exact = settle(target, options.exact)
    session = Session(target)
    for each in found:
        make_drafter(each, target=target, decoder=session.decoder, load=load_once)
    fitting = _encode(session, prompts, options.max_tokens)
    runners = {
        temperature: make_runners(options, target, load_once)
        for temperature in options.temperatures
    }
    machine = this_machine()
    backend = "CPU backend" if machine.device == "CPU" else machine.device
    setup = BenchReport(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine,
        target=options.target.name,
        precision=target.precision,
        label=f"{backend}, {target.precision}",
        exact=exact,
        drafters=tuple(chain.from_iterable(map(held_as, found))),
        options=as_plain(options),
        skipped=len(prompts) - len(fitting),
        refused=(),
        partial=True,
    )
    progress(f"{setup.label}: {len(fitting)} prompts, {setup.skipped} too long for the context")
    run = _Run(options, target, setup, runners, progress)
    run.measure(fitting)
    return run.measured


@dataclass(slots=True)
class _Run:
    """A benchmark under way: the report without figures, the runners that can run, the answers."""

    options: BenchOptions
    target: LoadedModel
    setup: BenchReport
    runners: Runners
    progress: Callable[[str], None]
    answers: list[MeasuredAnswer] = field(default_factory=list)

    @property
    def measured(self) -> Measurements:
        """All measurements so far."""
        return Measurements(self.setup, tuple(self.answers))

    def measure(self, fitting: Sequence[Encoded]) -> None:
        """Have every runner answer every prompt. Ctrl-C ends it early."""
        try:
            self.progress("measuring the memory")
            prompts = [ids for _, ids in fitting]
            roofline = _measure_roofline(self.options, self.target, prompts)
            self.setup = replace(self.setup, roofline=roofline)
            self._leave_out(_warm_up(self.runners, fitting, self.progress))
            began = perf_counter()
            for number, (prompt, ids) in enumerate(fitting):
                before = len(self.answers)
                try:
                    self._answer(number, prompt, ids)
                finally:  # also where Ctrl-C ends it: else a near tie would seem to be a fault
                    fork_of = partial(_fork_of, self.target, ids)
                    self.answers[before:] = with_forks(self.answers[before:], fork_of)
                done, left_over = number + 1, len(fitting) - number - 1
                self.setup = replace(
                    self.setup, partial=left_over > 0, peak_rss_bytes=peak_rss_bytes()
                )
                self._keep()
                to_go = (perf_counter() - began) / done * left_over
                self.progress(f"{done} of {len(fitting)}: {prompt.id}, {left(to_go)}")
        except KeyboardInterrupt:
            self.progress(f"Stopped; {len(self.answers)} answers were measured.")
            self._keep()

    def _answer(self, number: int, prompt: Prompt, ids: tuple[int, ...]) -> None:
        """Add all runners' answers to one prompt; the prompt's `number` decides who begins."""
        options = self.options
        for repeat in range(options.repeats):
            turn = number * options.repeats + repeat
            seed = options.seed + turn
            for temperature, several in self.runners.items():
                first = turn % len(several) if several else 0
                for runner in several[first:] + several[:first]:
                    mx.reset_peak_memory()
                    try:
                        measured = runner.run(Workload(ids, options.max_tokens, temperature, seed))
                    except ValueError as error:
                        self._leave_out({runner.name: str(error)})
                        self.progress(f"{runner.name} is left out from here on: {error}")
                        continue
                    peak_bytes = mx.get_peak_memory()
                    mx.clear_cache()
                    self.answers.append(
                        MeasuredAnswer(
                            runner=runner.name,
                            temperature=temperature,
                            prompt=prompt.id,
                            category=prompt.category,
                            repeat=repeat,
                            seed=seed,
                            limit=options.max_tokens,
                            measured=measured,
                            peak_bytes=peak_bytes,
                        )
                    )

    def _leave_out(self, refused: Mapping[str, str]) -> None:
        """Measure the other runners only, from here on; `refused`: names, with the reasons."""
        self.setup = replace(self.setup, refused=(*self.setup.refused, *refused.items()))
        self.runners = {
            temperature: [runner for runner in several if runner.name not in refused]
            for temperature, several in self.runners.items()
        }

    def _keep(self) -> None:
        if self.options.out is not None:
            self.options.out.parent.mkdir(parents=True, exist_ok=True)
            write_text(self.options.out, self.measured.to_json())


def _fork_of(
    target: LoadedModel, prompt: Sequence[int], plain: Sequence[int], written: Sequence[int]
) -> Fork | None:
    """Return the first difference from the plain answer, and whether rounding explains it; None if
    there is none, or on several Macs, where it is not measured."""
    if not target.alone:
        return None
    decoder = target.decoder(target.model)
    decoder.promise = target.promise
    fork = first_fork(decoder, [*prompt, *plain], [*prompt, *written])
    mx.clear_cache()
    return fork and replace(fork, at=fork.at - len(prompt))


def _measure_roofline(
    options: BenchOptions, target: LoadedModel, prompts: Sequence[tuple[int, ...]]
) -> Roofline | None:
    """Measure the memory at about the depth of the answers' middle; None if no speeds are compared,
    or if a pass does not read all weights here."""
    if not (options.baselines and target.alone and reads_all_weights(target.model)):
        return None
    decoder = target.decoder(target.model)
    depth = int(statistics.median(map(len, prompts))) + options.max_tokens // 2
    depth = min(depth, _DEEPEST_PROBE, max(1, target.context_length - 2))
    with at_depth(decoder, depth):
        roofline = measure_roofline(decoder)
    mx.clear_cache()
    return roofline


def _encode(session: Session, prompts: list[Prompt], max_tokens: int) -> list[Encoded]:
    """Encode the prompts as first messages of a chat; leave out those without room to answer."""
    context = session.target.context_length
    room = context - max_tokens - HEADROOM
    encoded = [(p, tuple(session.encode(asked(p.text)))) for p in prompts]
    fitting = [(prompt, ids) for prompt, ids in encoded if len(ids) <= room]
    if not fitting:
        raise Problem(
            f"No prompt fits: the model's context has {context} tokens.",
            "Lower --max-tokens, or use shorter prompts.",
        )
    return fitting


def _warm_up(
    runners: Runners, fitting: Sequence[Encoded], progress: Callable[[str], None]
) -> dict[str, str]:
    """Run each runner once, so that kernels are built and memory is allocated. Returns the names of
    runners that cannot run this pair, with the reasons."""
    shortest = min((ids for _, ids in fitting), key=len)
    refused: dict[str, str] = {}
    for temperature, several in runners.items():
        for runner in several:
            progress(f"warming up: {runner.name}, temperature {temperature:g}")
            try:
                runner.run(Workload(shortest, _WARM_UP_TOKENS, temperature, seed=0))
            except ValueError as error:
                refused[runner.name] = str(error)
    return refused
