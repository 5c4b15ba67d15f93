"""The front door: `run_bench`. Everybody answers every prompt, one after the other.

What drifts (heat, other programs) hits all alike: contestants take turns within each prompt, and
another one begins at each. Every one is warmed up first.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from time import perf_counter

import mlx.core as mx

from engine.accept import by_block, by_token
from engine.bench.contestants import (
    HEADROOM,
    Assignment,
    Contestant,
    Load,
    MlxLm,
    MlxLmSpeculative,
    Slipstream,
)
from engine.bench.machine import this_machine
from engine.bench.prompts import Prompt, load_prompts
from engine.bench.report import MLX_LM, PLAIN, Report, Run, now, write_json
from engine.loading import LoadedModel, load
from engine.pair import make_drafter, make_policy
from engine.request import Message
from engine.session import Session
from engine.speculate import Rule
from models.errors import Problem

RULES: dict[str, Rule] = {"block": by_block, "token": by_token}
_WARM_UP_TOKENS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What to measure.

    `drafters` and `lengths` are written as in `engine.pair`; each drafter is run with each
    length, and mlx-lm with each model drafter and fixed length. `prompts`, `sets` and
    `per_category`: see `load_prompts`. `rules` ("block", "token") matter to samples only.
    `baselines`: whether the plain ones run too, without which only acceptance is measured.
    `out`: the JSON file, brought up to date after every prompt.
    """

    target: Path
    drafters: tuple[str, ...] = ("lookup",)
    lengths: tuple[str, ...] = ("auto", "4")
    prompts: Path | None = None
    sets: tuple[str, ...] = ()
    per_category: int = 2
    max_tokens: int = 100
    temperatures: tuple[float, ...] = (0.0,)
    rules: tuple[str, ...] = ("block",)
    seed: int = 0
    repeats: int = 1
    baselines: bool = True
    out: Path | None = None


def run_bench(options: BenchOptions, *, progress: Callable[[str], None]) -> Report:
    """Measure; `progress` gets a line at a time. Ctrl-C ends it with what was measured so far.

    Raises `Problem`, before anything is measured.
    """
    check(options)
    prompts = load_prompts(options.prompts, sets=options.sets, per_category=options.per_category)
    load_once = cache(load)
    target = load_once(options.target)
    pairs = {t: contestants(options, target, t, load_once) for t in options.temperatures}
    session = Session(target)
    for drafter in options.drafters:  # a wrong one should be known at once
        make_drafter(drafter, target=target, decoder=session.decoder, load=load_once)
    fitting = _encode(session, prompts, options.max_tokens)
    report = Report(
        date=now(),
        machine=this_machine(),
        target=options.target.name,
        precision=target.precision,
        drafters=tuple(
            (folder.name, load_once(folder).precision) for folder in _folders(options.drafters)
        ),
        options=_plain_options(options),
        skipped=len(prompts) - len(fitting),
        refused=(),
        partial=True,
        runs=(),
    )
    progress(f"{report.label}: {len(fitting)} prompts, {report.skipped} too long for the context")
    try:
        report = _warm_up(report, pairs, fitting, progress)
        refused = {name for name, _ in report.refused}
        began = perf_counter()
        for number, (prompt, ids) in enumerate(fitting):
            for run in _answers(options, pairs, refused, number, prompt, ids):
                report = replace(report, runs=(*report.runs, run))
            report = replace(report, partial=number + 1 < len(fitting))
            if options.out is not None:
                write_json(report, options.out)
            left = (perf_counter() - began) / (number + 1) * (len(fitting) - number - 1)
            progress(f"{number + 1} of {len(fitting)}: {prompt.id}, about {_span(left)} to go")
    except KeyboardInterrupt:
        progress(f"Stopped; {len(report.runs)} answers were measured.")
        if options.out is not None:
            write_json(report, options.out)
    return report


def check(options: BenchOptions) -> None:
    """Raise `Problem` for options that cannot be."""
    for length in options.lengths:
        make_policy(length)
    for rule in set(options.rules) - set(RULES):
        raise Problem(f"There is no rule {rule!r}.", f"Choose from {', '.join(RULES)}.")
    if options.max_tokens < 2:
        raise Problem("One token is no measurement.", "Choose --max-tokens 2 or more.")
    if options.repeats < 1 or not options.temperatures or not options.rules:
        raise Problem(
            "Nothing would be measured.", "Give at least one repeat, one temperature and one rule."
        )


def contestants(
    options: BenchOptions, target: LoadedModel, temperature: float, load: Load
) -> list[Contestant]:
    """The two plain ones, ours with each drafter, length and rule, and mlx-lm's with models."""
    rules = options.rules[:1] if temperature == 0.0 else options.rules
    chosen: list[Contestant] = []
    if options.baselines:
        chosen += [
            Slipstream(PLAIN, target=target, drafter="none", length="0", rule=by_block, load=load),
            MlxLm(MLX_LM, target=target),
        ]
    for drafter in dict.fromkeys(options.drafters):
        if drafter == "none":
            continue  # that is PLAIN
        folder = Path(drafter).expanduser()
        for length in dict.fromkeys(options.lengths):
            chosen += [
                Slipstream(
                    f"slipstream {label(drafter)} {length}"
                    + (f" {rule}" if len(rules) > 1 else ""),
                    target=target,
                    drafter=drafter,
                    length=length,
                    rule=RULES[rule],
                    load=load,
                )
                for rule in rules
            ]
            if folder.is_dir() and length not in ("auto", "0"):
                chosen.append(
                    MlxLmSpeculative(
                        f"mlx-lm {label(drafter)} {length}",
                        target=target,
                        draft_model=load(folder).model,
                        length=int(length),
                    )
                )
    return chosen


def label(drafter: str) -> str:
    """A drafter's name, folders by theirs."""
    return "+".join(Path(part.strip()).name for part in drafter.split("+"))


def _encode(
    session: Session, prompts: list[Prompt], max_tokens: int
) -> list[tuple[Prompt, tuple[int, ...]]]:
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
    pairs: dict[float, list[Contestant]],
    fitting: list[tuple[Prompt, tuple[int, ...]]],
    progress: Callable[[str], None],
) -> Report:
    """Run all once, so that kernels are built and memory is there; who cannot run, is out."""
    shortest = min((ids for _, ids in fitting), key=len)
    refused: dict[str, str] = {}
    for temperature, everybody in pairs.items():
        for contestant in everybody:
            progress(f"warming up: {contestant.name}, temperature {temperature:g}")
            try:
                contestant.run(Assignment(shortest, _WARM_UP_TOKENS, temperature, seed=0))
            except ValueError as error:
                refused[contestant.name] = str(error)
    return replace(report, refused=tuple(refused.items()))


def _answers(
    options: BenchOptions,
    pairs: dict[float, list[Contestant]],
    refused: set[str],
    number: int,
    prompt: Prompt,
    ids: tuple[int, ...],
) -> Iterator[Run]:
    """Everybody's answers to one prompt; who begins depends on its `number`."""
    for repeat in range(options.repeats):
        turn = number * options.repeats + repeat
        seed = options.seed + turn
        for temperature, everybody in pairs.items():
            able = [contestant for contestant in everybody if contestant.name not in refused]
            first = turn % len(able)
            for contestant in able[first:] + able[:first]:
                assignment = Assignment(ids, options.max_tokens, temperature, seed)
                measured = contestant.run(assignment)
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
                )


def _folders(drafters: tuple[str, ...]) -> list[Path]:
    """The model folders among the drafters."""
    parts = [part.strip() for drafter in drafters for part in drafter.split("+")]
    folders = (Path(part).expanduser() for part in dict.fromkeys(parts))
    return [folder for folder in folders if folder.is_dir()]


def _plain_options(options: BenchOptions) -> dict[str, object]:
    """As JSON has it; folders by their names, as a report may be published."""
    return {
        name: value.name if isinstance(value, Path) else value
        for name, value in asdict(options).items()
        if name != "out"
    } | {"drafters": [label(name) for name in options.drafters]}


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
