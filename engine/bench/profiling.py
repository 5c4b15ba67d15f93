"""Where the engine's own Python time goes, by function, for one answer."""

import cProfile
import pstats
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.table import Table

import engine
from engine.accept import by_block
from engine.bench.contestants import Assignment, Slipstream
from engine.bench.options import BenchOptions, check
from engine.bench.prompts import load_prompts
from engine.events import Verdict
from engine.loading import load
from engine.pair import make_policy
from engine.request import ChatMessage
from engine.session import Session

_SHOWN = 15
_ENGINE = str(Path(engine.__file__).parent)


@dataclass(frozen=True, slots=True)
class Spent:
    """What one function took itself, without those that it calls; waiting for MLX included."""

    function: str
    calls: int
    own_seconds: float


def profile_answer(options: BenchOptions) -> tuple[list[Spent], int]:
    """The engine's functions by own time, and the rounds that there were.

    One answer to the first prompt, with the first drafter and length, after a warm-up. cProfile
    makes Python slower: compare functions, not wall time. Raises `Problem`.
    """
    check(options)
    target = load(options.target)
    prompt = load_prompts(options.prompts, sets=options.sets, per_category=1)[0]
    ids = tuple(Session(target).encode([ChatMessage("user", prompt.text)]))
    contestant = Slipstream(
        "profiled",
        target=target,
        drafter=options.drafters[0],
        policy=make_policy(options.lengths[0]),
        rule=by_block,
        load=cache(load),
    )
    contestant.run(Assignment(ids, 8, options.temperatures[0], options.seed))
    assignment = Assignment(ids, options.max_tokens, options.temperatures[0], options.seed)
    profile = cProfile.Profile()
    rounds = 0
    for event in contestant.answer(assignment):
        if isinstance(event, Verdict):
            rounds += 1
            if rounds == 1:
                profile.enable()  # what the first round sets up is not every round's
    profile.disable()
    return _engine_functions(profile), rounds


def render_profile(spent: list[Spent], rounds: int, console: Console) -> None:
    """Print the functions that took most."""
    table = Table(title=f"The engine's own time in {rounds} rounds", title_justify="left", box=None)
    table.add_column("function", no_wrap=True)
    for heading in ("calls", "ms", "µs a round"):
        table.add_column(heading, justify="right")
    for each in spent[:_SHOWN]:
        table.add_row(
            each.function,
            str(each.calls),
            f"{1e3 * each.own_seconds:.2f}",
            f"{1e6 * each.own_seconds / max(rounds, 1):.1f}",
        )
    console.print(table)


def _engine_functions(profile: cProfile.Profile) -> list[Spent]:
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, object]]
    stats = vars(pstats.Stats(profile))["stats"]
    spent = [
        Spent(f"{Path(file).relative_to(_ENGINE)}:{line} {name}", calls, own_seconds)
        for (file, line, name), (_, calls, own_seconds, _, _) in stats.items()
        if file.startswith(_ENGINE)
    ]
    return sorted(spent, key=lambda each: -each.own_seconds)
