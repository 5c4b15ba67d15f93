"""The options of a benchmark, and the checks that refuse some."""

from collections import Counter
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path

from engine.conversation.pair import make_policy
from engine.exactness import Wish
from engine.request import Sampling
from models.drafters.folders import is_drafter
from models.errors import Problem
from models.files import written_path
from models.model_folder import ModelFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """The options of a benchmark.

    `drafters` and `lengths` are written as in `engine.conversation.pair`; each drafter is run with
    each length, and mlx-lm with each model drafter and fixed length. `drafter_bits`: as for
    `resolve_drafters`. `runners`: more drafters, with one length each, `DRAFTER/LENGTH`.
    `prompts` and `per_category`: see `load_prompts`. `baselines`: whether plain decoding runs too,
    without which only acceptance is measured, unless `runners` have `none/0`. `out`: the JSON file,
    written again after every prompt. `exact`: as for `engine.conversation.proof`.
    """

    target: ModelFolder
    drafters: tuple[str, ...] = ("lookup",)
    drafter_bits: int = 0
    lengths: tuple[str, ...] = ("auto", "4")
    runners: tuple[str, ...] = ()
    prompts: Path | None = None
    per_category: int = 2
    max_tokens: int = 100
    temperatures: tuple[float, ...] = (0.0,)
    seed: int = 0
    repeats: int = 1
    baselines: bool = True
    out: Path | None = None
    exact: Wish = "auto"

    @property
    def drafting(self) -> tuple[tuple[str, str], ...]:
        """The drafters to run as (drafter, length), without plain decoding. Raises `Problem`."""
        chosen = map(_drafter_and_length, self.runners)
        pairs = dict.fromkeys([*product(self.drafters, self.lengths), *chosen])
        return tuple((drafter, length) for drafter, length in pairs if drafter != "none")

    @property
    def plain(self) -> bool:
        """Whether our plain decoding runs: as a baseline, or as the runner `none/0`."""
        named = (_drafter_and_length(runner) for runner in self.runners)
        return self.baselines or any(drafter == "none" for drafter, _ in named)


def check(options: BenchOptions) -> None:
    """Raise `Problem` for options that cannot be measured."""
    drafting = options.drafting
    for length in (*options.lengths, *(length for _, length in drafting)):
        make_policy(length)
    for temperature in options.temperatures:
        Sampling(temperature=temperature, seed=options.seed)
    names = Counter((label(drafter), length) for drafter, length in drafting)
    if twice := [name for (name, _), count in names.items() if count > 1]:
        raise Problem(
            f"Two drafters are called {twice[0]}, so no report could tell them apart.",
            "Rename a folder, or measure them one after the other.",
        )
    if options.max_tokens < 2:
        raise Problem("A single token cannot be measured.", "Choose --max-tokens 2 or more.")
    if options.repeats < 1 or not options.temperatures:
        raise Problem("Nothing would be measured.", "Give at least one repeat and one temperature.")
    if not options.baselines and not drafting:
        raise Problem("Nothing would be measured.", "Name a drafter, or leave --no-baselines out.")


def _drafter_and_length(runner: str) -> tuple[str, str]:
    """Split DRAFTER/LENGTH at the last slash, as a drafter may be a path. Raises `Problem`."""
    drafter, _, length = runner.rpartition("/")
    if not drafter or not length:
        raise Problem(
            f"The runner {runner!r} is not a drafter and a length.",
            "Join the two with a slash, as in suffix+head/auto or head/tree:8.",
        )
    return drafter, length


def label(drafter: str) -> str:
    """A drafter's name for reports; of a folder only its own name."""
    return "+".join(Path(part.strip()).name for part in drafter.split("+"))


def model_folders(drafters: tuple[str, ...]) -> list[Path]:
    """The model folders among the drafters."""
    parts = [part.strip() for drafter in drafters for part in drafter.split("+")]
    folders = (written_path(part) for part in dict.fromkeys(parts))
    return [folder for folder in folders if folder.is_dir() and not is_drafter(folder)]


def as_plain(options: BenchOptions) -> dict[str, object]:
    """The options for JSON, with names in place of paths, as a report may be published."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return {
        name: value.name if isinstance(value, Path | ModelFolder) else value
        for name, value in values.items()
        if name != "out"
    } | {
        "drafters": [label(name) for name in options.drafters],
        "drafter_bits": options.drafter_bits or "auto",
        "runners": ["/".join((label(d), n)) for d, n in map(_drafter_and_length, options.runners)],
    }
